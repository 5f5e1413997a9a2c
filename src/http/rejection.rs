//! How a request is turned away: always with a response, never with an error.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use http::{HeaderName, StatusCode};

use crate::{
    config::PolicyConfig,
    pool::{Code, LimitKind},
    trace,
};

/// Describes how a request was turned away.
///
/// It is also in the extensions of the response, where layers outside can read it.
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
    /// The dominion's queue is full.
    #[non_exhaustive]
    QueueFull {
        /// The dominion's id.
        dominion: Option<Arc<str>>,
        /// The most requests that may wait.
        max_queue: usize,
    },
    /// The client already has as many requests waiting in the dominion as it is allowed.
    #[non_exhaustive]
    ClientLimit {
        /// The dominion's id.
        dominion: Option<Arc<str>>,
        /// The most requests of one client that may wait.
        max_queue_per_client: usize,
    },
    /// A queue limit of the request's class was reached.
    #[non_exhaustive]
    ClassLimit {
        /// The class's name.
        policy_class: Arc<str>,
        /// Which limit.
        kind: LimitKind,
        /// What was queued, in requests or tokens.
        current: u64,
        /// The amount at which arrivals are turned away: the policy's limit times the dominion's workers.
        limit: u64,
    },
    /// The request waited for the longest time allowed.
    QueueTimeout,
    /// The queue was closed while the request waited in it, or before the request arrived.
    QueueUnavailable,
    /// No worker that the request may go to takes requests. The worker that it is pinned to, or all those
    /// on its allow-list, or all that serve its model are unknown, removed, draining, overloaded, tainted,
    /// or not in the profile in force.
    NoEligibleWorker,
    /// The local model that the request waited for, or ran on, is not in the profile in force.
    ProfileSwitch,
    /// `max_hold_ms` passed before the head of the response came.
    HoldTimeout,
    /// The request's body failed while the request waited.
    RequestBody,
    /// A header that the policy trusts could not be read.
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

    /// The code under which it is counted.
    pub(super) fn to_code(&self) -> Code {
        self.answer().0
    }

    /// The `error.type`, one of those that OpenAI clients know.
    pub fn error_type(&self) -> &'static str {
        self.answer().1
    }

    /// Whether the same request may succeed later.
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

/// When to retry, if there is no better estimate.
const SOON: Duration = Duration::from_secs(1);

impl Rejection {
    /// The rejection of a request whose class is not known.
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

    /// The rejection of a request of this class; also emits its event. `soon` estimates when to retry, and
    /// is called only if the reason is worth a retry.
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

    /// Why the request was turned away.
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

    /// The response's status: from the policy's `statuses`, or else the default for the reason.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The request's class; `None` if the request was turned away before its class was known, for instance
    /// because of a header that cannot be read.
    pub fn class(&self) -> Option<&str> {
        self.class.as_deref()
    }

    /// The id of the dominion that turned the request away; `None` if the request has no dominion, or was
    /// turned away before its class was known.
    pub fn dominion(&self) -> Option<&str> {
        self.dominion.as_deref()
    }

    /// How long to wait before a retry, from 1 to 60 seconds, estimated from how fast the dominion drained
    /// recently; `None` if a retry is pointless.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

/// For layers outside that turn the response into an error.
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
