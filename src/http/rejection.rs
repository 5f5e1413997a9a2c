//! How a request is turned away: always with a response, never with an error.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use http::{HeaderName, StatusCode};

use crate::{
    config::PolicyConfig,
    pool::{Code, LimitKind},
    trace,
};

/// That a request was turned away, and how.
///
/// It is also in the extensions of the response, for layers outside to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    reason: Reason,
    status: StatusCode,
    retry_after: Option<Duration>,
    class: Option<Arc<str>>,
    dominion: Option<Arc<str>>,
}

/// Why a request was turned away.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The dominion has `policy: reject`, and the request could not start at once.
    #[non_exhaustive]
    QueueRejected {
        /// The dominion's id.
        dominion: Option<Arc<str>>,
    },
    /// As many requests wait in the dominion as may.
    #[non_exhaustive]
    QueueFull {
        /// The dominion's id.
        dominion: Option<Arc<str>>,
        /// The most that may wait, in requests.
        max_queue: usize,
    },
    /// As many requests of its client wait in the dominion as may.
    #[non_exhaustive]
    ClientLimit {
        /// The dominion's id.
        dominion: Option<Arc<str>>,
        /// The most of one client that may wait, in requests.
        max_queue_per_client: usize,
    },
    /// As much is queued in the request's class as may be.
    #[non_exhaustive]
    ClassLimit {
        /// The class's name.
        policy_class: Arc<str>,
        /// Which of its limits.
        kind: LimitKind,
        /// What was queued, in requests or tokens.
        current: u64,
        /// From where on arrivals are turned away: the policy's limit times the dominion's workers.
        limit: u64,
    },
    /// The request waited as long as it may.
    QueueTimeout,
    /// The queue was closed while the request waited in it, or before it came.
    QueueUnavailable,
    /// None of the workers that it may go to takes requests: the one it is pinned to, those on its
    /// allow-list, or all that serve its model are unknown, removed, drained, overloaded, tainted or not
    /// of the profile in force.
    NoEligibleWorker,
    /// The profile in force does not have the local model that it waited for, or ran on.
    ProfileSwitch,
    /// `max_hold_ms` was over before the head of the response came.
    HoldTimeout,
    /// Its body failed while it waited.
    RequestBody,
    /// A header that the policy trusts cannot be read.
    #[non_exhaustive]
    InvalidHeader {
        /// The header's name.
        name: HeaderName,
        /// What it should have been.
        expected: &'static str,
    },
}

impl Reason {
    /// The machine-readable `error.code`.
    pub fn code(&self) -> &'static str {
        self.to_code().as_str()
    }

    /// What it is counted as.
    pub(super) fn to_code(&self) -> Code {
        self.answer().0
    }

    /// The `error.type`, one of those that OpenAI clients know.
    pub fn error_type(&self) -> &'static str {
        self.answer().1
    }

    /// Whether the same request may fare better later.
    pub(super) fn worth_retrying(&self) -> bool {
        match self {
            Self::QueueRejected { .. }
            | Self::QueueFull { .. }
            | Self::ClientLimit { .. }
            | Self::ClassLimit { .. }
            | Self::QueueTimeout
            | Self::QueueUnavailable
            | Self::ProfileSwitch => true,
            Self::NoEligibleWorker
            | Self::HoldTimeout
            | Self::RequestBody
            | Self::InvalidHeader { .. } => false,
        }
    }

    /// Code and type.
    fn answer(&self) -> (Code, &'static str) {
        match self {
            Self::QueueRejected { .. } => (Code::QueueRejected, "rate_limit_error"),
            Self::QueueFull { .. } => (Code::QueueFull, "server_error"),
            Self::ClientLimit { .. } => (Code::ClientLimit, "rate_limit_error"),
            Self::ClassLimit { .. } => (Code::ClassLimit, "overloaded_error"),
            Self::QueueTimeout => (Code::QueueTimeout, "server_error"),
            Self::QueueUnavailable => (Code::QueueUnavailable, "server_error"),
            Self::NoEligibleWorker => (Code::NoEligibleWorker, "server_error"),
            Self::ProfileSwitch => (Code::ProfileSwitch, "server_error"),
            Self::HoldTimeout => (Code::HoldTimeout, "server_error"),
            Self::RequestBody => (Code::RequestBody, "invalid_request_error"),
            Self::InvalidHeader { .. } => (Code::InvalidHeader, "invalid_request_error"),
        }
    }
}

/// When to come again if nobody knows better.
const SOON: Duration = Duration::from_secs(1);

impl Rejection {
    /// Of a request whose class is not known.
    pub(super) fn unplaced(policy: &PolicyConfig, reason: Reason) -> Self {
        let (code, _) = reason.answer();
        let own = policy.statuses.get(code.as_str()).copied();
        let default =
            || StatusCode::from_u16(code.status()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        Self {
            status: own.unwrap_or_else(default),
            retry_after: reason.worth_retrying().then_some(SOON),
            reason,
            class: None,
            dominion: None,
        }
    }

    /// Of a request of this class, which is an event of its span. `soon` says when it is worth sending
    /// again, if its reason is one that the length of a queue tells about.
    pub(super) fn of(
        policy: &PolicyConfig,
        reason: Reason,
        class: &Arc<str>,
        dominion: Option<&Arc<str>>,
        soon: impl FnOnce() -> Option<Duration>,
    ) -> Self {
        trace::rejected(reason.code(), Some(class), dominion.map(|id| &**id));
        let unplaced = Self::unplaced(policy, reason);
        Self {
            retry_after: unplaced
                .retry_after
                .map(|at_once| soon().unwrap_or(at_once)),
            class: Some(Arc::clone(class)),
            dominion: dominion.cloned(),
            ..unplaced
        }
    }

    /// Why it was turned away.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// The machine-readable `error.code`.
    pub fn code(&self) -> &'static str {
        self.reason.code()
    }

    /// The `error.type`, one of those that OpenAI clients know.
    pub fn error_type(&self) -> &'static str {
        self.reason.error_type()
    }

    /// The response's status: the policy's `statuses`, or else this crate's.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The request's class; none if it was turned away before that was known, as for a header that
    /// cannot be read.
    pub fn class(&self) -> Option<&str> {
        self.class.as_deref()
    }

    /// The dominion that turned it away; none if it has none, or if that was not known.
    pub fn dominion(&self) -> Option<&str> {
        self.dominion.as_deref()
    }

    /// When the request is worth sending again, from 1 to 60 seconds, as far as the dominion's
    /// recent past tells; none if it is not.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

/// For layers outside that make an error of the response.
impl Error for Rejection {}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QueueRejected { dominion: Some(id) } => {
                write!(
                    f,
                    "`{id}` has no free slot for this request and does not queue; retry later"
                )
            }
            Self::QueueRejected { dominion: None } => {
                f.write_str("there is no free slot for this request and no queue; retry later")
            }
            Self::QueueFull {
                dominion,
                max_queue,
            } => {
                f.write_str("the queue ")?;
                if let Some(id) = dominion {
                    write!(f, "of `{id}` ")?;
                }
                write!(f, "is full, at {max_queue} waiting; retry later")
            }
            Self::ClientLimit {
                dominion,
                max_queue_per_client,
            } => {
                write!(f, "{max_queue_per_client} requests of this client wait ")?;
                if let Some(id) = dominion {
                    write!(f, "in `{id}` ")?;
                }
                f.write_str("already, as many as may; retry later")
            }
            Self::ClassLimit {
                policy_class,
                kind,
                current,
                limit,
            } => {
                let what = match kind {
                    LimitKind::Requests => "requests",
                    LimitKind::RawIslTokens => "input tokens",
                    LimitKind::CachedTokens => "cached input tokens",
                };
                write!(
                    f,
                    "policy class `{policy_class}` has {current} {what} queued, of {limit} allowed; retry later"
                )
            }
            Self::QueueTimeout => {
                f.write_str("the request waited in the queue as long as it may; retry later")
            }
            Self::QueueUnavailable => f.write_str("the queue is closed"),
            Self::NoEligibleWorker => f.write_str("no worker may serve this request"),
            Self::ProfileSwitch => f.write_str("request cancelled for profile switch"),
            Self::HoldTimeout => {
                f.write_str("the backend did not answer within the longest hold of a slot")
            }
            Self::RequestBody => f.write_str("the request body could not be read"),
            Self::InvalidHeader { name, expected } => {
                write!(f, "header `{name}` must be {expected}")
            }
        }
    }
}
