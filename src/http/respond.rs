//! The response to a request that is turned away.

use bytes::Bytes;
use http::{
    HeaderName, HeaderValue, Response,
    header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER},
};
use http_body::Body;

use super::{BoxError, Reason, Rejection, ResponseBody, json};

/// Builds the response to a request that is turned away.
///
/// Implemented for closures from `&Rejection` to `Response<B>`, where `B` is the body type of the inner
/// service's responses: `axum::body::Body` in axum. If layers below this one in a `ServiceBuilder` wrap
/// bodies (tower-http's `CompressionLayer`, `TraceLayer`, ...), `B` is another type and such a closure does
/// not fit. A type that implements the trait for every `B` does.
///
/// Whatever builds it, the layer adds the [`Rejection`] to the response's extensions. It also adds the
/// headers `x-policy-queue-reason`, `retry-after` and `retry-after-ms` where they apply, unless the response
/// already has them. It answers a HEAD request without the response's body.
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
///
/// The same for every body type:
///
/// ```
/// use bytes::Bytes;
/// use http::Response;
/// use tower_policy_queue::{Rejection, ResponseBody, ResponseForRejection};
///
/// #[derive(Clone)]
/// struct PlainText;
///
/// impl<B> ResponseForRejection<B> for PlainText {
///     fn response_for_rejection(&self, rejection: &Rejection) -> Response<ResponseBody<B>> {
///         let mut response = Response::new(Bytes::from(rejection.to_string()).into());
///         *response.status_mut() = rejection.status();
///         response
///     }
/// }
/// ```
pub trait ResponseForRejection<B> {
    /// Builds the response.
    fn response_for_rejection(&self, rejection: &Rejection) -> Response<ResponseBody<B>>;
}

impl<B, F> ResponseForRejection<B> for F
where
    F: Fn(&Rejection) -> Response<B>,
{
    fn response_for_rejection(&self, rejection: &Rejection) -> Response<ResponseBody<B>> {
        self(rejection).map(ResponseBody::without_slot)
    }
}

/// Responds with JSON as OpenAI clients read it: `{"error": {"message", "type", "code", "param"}}`.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct DefaultResponseForRejection;

impl<B> ResponseForRejection<B> for DefaultResponseForRejection {
    fn response_for_rejection(&self, rejection: &Rejection) -> Response<ResponseBody<B>> {
        let body = ResponseBody::full(Bytes::from(to_json(rejection.reason())));
        let mut response = Response::new(body);
        *response.status_mut() = rejection.status();
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        response
    }
}

const REASON: HeaderName = HeaderName::from_static("x-policy-queue-reason");
const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// The layer's own response to a request that is turned away.
pub(super) fn turned_away<B>(
    rejection: Rejection,
    respond: &impl ResponseForRejection<B>,
) -> Response<ResponseBody<B>> {
    let mut response = respond.response_for_rejection(&rejection);
    let headers = response.headers_mut();
    headers
        .entry(REASON)
        .or_insert(HeaderValue::from_static(rejection.code()));
    if let Some(retry_after) = rejection.retry_after() {
        let seconds = retry_after.as_secs() + u64::from(retry_after.subsec_nanos() > 0);
        headers.entry(RETRY_AFTER).or_insert(seconds.into());
        let milliseconds = u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX);
        headers.entry(RETRY_AFTER_MS).or_insert(milliseconds.into());
    }
    response.extensions_mut().insert(rejection);
    response
}

/// The same response to a HEAD request. HTTP/2 servers would send the body, and clients would then treat
/// the response as malformed.
pub(super) fn without_body<B>(response: Response<ResponseBody<B>>) -> Response<ResponseBody<B>>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let (mut head, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact() {
        head.headers.entry(CONTENT_LENGTH).or_insert(length.into());
    }
    Response::from_parts(head, ResponseBody::full(Bytes::new()))
}

fn to_json(reason: &Reason) -> String {
    let mut error = json::Object::new();
    error.text("message", &reason.to_string());
    error.text("type", reason.error_type());
    error.text("code", reason.code());
    error.null("param");
    match reason {
        Reason::ClassLimit {
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
        Reason::InvalidHeader { name, .. } => error.text("header", name.as_str()),
        _ => {}
    }
    let mut body = json::Object::new();
    body.object("error", error);
    body.finish()
}
