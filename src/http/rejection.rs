//! How a request is turned away: always with a response, never with an error.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header::CONTENT_TYPE};

use super::{ResponseBody, json};
use crate::pool::LimitKind;

/// Why a request was turned away.
///
/// It is also in the extensions of the response, for layers outside to read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejection {
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
    /// The queue was torn down while the request waited in it, or before it came.
    QueueUnavailable,
    /// The worker it is pinned to does not exist, or its allow-list leaves none.
    NoEligibleWorker,
    /// A header that the policy trusts cannot be read.
    #[non_exhaustive]
    InvalidHeader {
        /// The header's name.
        name: HeaderName,
        /// What it should have been.
        expected: &'static str,
    },
}

impl Rejection {
    /// The response's status.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::QueueRejected { .. } => StatusCode::TOO_MANY_REQUESTS,
            // 529 is how Anthropic's API, and Dynamo's router, say that they are overloaded.
            Self::ClassLimit { .. } => {
                StatusCode::from_u16(529).unwrap_or(StatusCode::SERVICE_UNAVAILABLE)
            }
            Self::QueueFull { .. } | Self::QueueUnavailable | Self::NoEligibleWorker => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::InvalidHeader { .. } => StatusCode::BAD_REQUEST,
        }
    }

    /// The machine-readable `error.code`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::QueueRejected { .. } => "queue_rejected",
            Self::QueueFull { .. } => "queue_full",
            Self::ClassLimit { .. } => "policy_class_queue_limit",
            Self::QueueUnavailable => "queue_unavailable",
            Self::NoEligibleWorker => "no_eligible_worker",
            Self::InvalidHeader { .. } => "invalid_queue_header",
        }
    }

    /// The `error.type`, one of those that OpenAI clients know.
    pub fn error_type(&self) -> &'static str {
        match self {
            Self::QueueRejected { .. } => "rate_limit_error",
            Self::ClassLimit { .. } => "overloaded_error",
            Self::QueueFull { .. } | Self::QueueUnavailable | Self::NoEligibleWorker => {
                "server_error"
            }
            Self::InvalidHeader { .. } => "invalid_request_error",
        }
    }

    /// The body of the default response.
    fn to_json(&self) -> String {
        let mut error = json::Object::new();
        error.text("message", &self.to_string());
        error.text("type", self.error_type());
        error.text("code", self.code());
        error.null("param");
        match self {
            Self::ClassLimit {
                policy_class,
                kind,
                current,
                limit,
            } => {
                error.text("policy_class", policy_class);
                error.text("limit_kind", kind.as_str());
                error.number("current", *current);
                error.number("limit", *limit);
            }
            Self::InvalidHeader { name, .. } => error.text("header", name.as_str()),
            _ => {}
        }
        let mut body = json::Object::new();
        body.object("error", error);
        body.finish()
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pool = |dominion: &Option<Arc<str>>| match dominion {
            Some(id) => format!("the queue of `{id}`"),
            None => "the queue".to_owned(),
        };
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
                write!(
                    f,
                    "{} is full: {max_queue} requests wait already; retry later",
                    pool(dominion)
                )
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
            Self::QueueUnavailable => {
                f.write_str("the queue was closed before the request's turn came")
            }
            Self::NoEligibleWorker => f.write_str("no worker may serve this request"),
            Self::InvalidHeader { name, expected } => {
                write!(f, "header `{name}` must be {expected}")
            }
        }
    }
}

/// Makes the response to a request that is turned away. Implemented for closures from
/// `&Rejection` to `Response<B>`.
///
/// The layer adds the [`Rejection`] to the response's extensions, whoever made it.
///
/// ```
/// use http::Response;
/// use http_body_util::Full;
/// use bytes::Bytes;
/// use tower_policy_queue::{PolicyConfig, PolicyQueueLayer, Rejection};
///
/// let layer = PolicyQueueLayer::new(PolicyConfig::default()).on_rejection(|rejection: &Rejection| {
///     let body = Full::new(Bytes::from(rejection.to_string()));
///     let mut response = Response::new(body);
///     *response.status_mut() = rejection.status();
///     response
/// });
/// # let _ = layer;
/// ```
pub trait ResponseForRejection<B> {
    /// The response.
    fn response_for_rejection(&self, rejection: &Rejection) -> Response<ResponseBody<B>>;
}

impl<B, F> ResponseForRejection<B> for F
where
    F: Fn(&Rejection) -> Response<B>,
{
    fn response_for_rejection(&self, rejection: &Rejection) -> Response<ResponseBody<B>> {
        self(rejection).map(ResponseBody::without_permit)
    }
}

/// Answers with the JSON that OpenAI clients read: `{"error": {"message", "type", "code", "param"}}`.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct DefaultResponseForRejection;

impl<B> ResponseForRejection<B> for DefaultResponseForRejection {
    fn response_for_rejection(&self, rejection: &Rejection) -> Response<ResponseBody<B>> {
        let body = ResponseBody::full(Bytes::from(rejection.to_json()));
        let mut response = Response::new(body);
        *response.status_mut() = rejection.status();
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        response
    }
}
