//! The response to a request that cannot be read.

use std::{error::Error, fmt};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header::CONTENT_TYPE};
use serde::Serialize;

use super::ResponseBody;

/// Why the layer answered a request with an error instead of passing it on.
///
/// It is also in the extensions of the response, where layers outside can read it to replace the response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnreadableBody {
    /// The body is longer than the layer reads: 413 `request_too_large`.
    #[non_exhaustive]
    TooLarge {
        /// The most bytes that the layer reads.
        max_body_bytes: usize,
    },
    /// The body is not JSON, or repeats a key that the layer reads: 400 `invalid_json`.
    #[non_exhaustive]
    NotJson {
        /// What is wrong, and where.
        what: String,
    },
    /// The body is JSON, but not an object: 400 `invalid_json`.
    NotAnObject,
    /// The body failed before its end: 400 `request_body_error`.
    Failed,
}

impl UnreadableBody {
    /// The machine-readable `error.code`, also in the header `x-policy-queue-reason`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "request_too_large",
            Self::NotJson { .. } | Self::NotAnObject => "invalid_json",
            Self::Failed => "request_body_error",
        }
    }

    /// The response's status.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NotJson { .. } | Self::NotAnObject | Self::Failed => StatusCode::BAD_REQUEST,
        }
    }

    pub(super) fn into_response<B>(self) -> Response<ResponseBody<B>> {
        const REASON: HeaderName = HeaderName::from_static("x-policy-queue-reason");

        let mut response = Response::new(ResponseBody::own(self.to_json()));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/json");
        headers.insert(CONTENT_TYPE, json);
        headers.insert(REASON, HeaderValue::from_static(self.code()));
        response.extensions_mut().insert(self);
        response
    }

    fn to_json(&self) -> Bytes {
        #[derive(Serialize)]
        struct Answer<'a> {
            error: Details<'a>,
        }

        #[derive(Serialize)]
        struct Details<'a> {
            message: &'a str,
            r#type: &'a str,
            code: &'a str,
            param: (),
        }

        let error = Details {
            message: &self.to_string(),
            r#type: "invalid_request_error",
            code: self.code(),
            param: (),
        };
        // Cannot fail: these are strings in structs.
        serde_json::to_vec(&Answer { error })
            .unwrap_or_default()
            .into()
    }
}

impl fmt::Display for UnreadableBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { max_body_bytes } => {
                write!(f, "the request body is longer than {max_body_bytes} bytes")
            }
            Self::NotJson { what } => write!(f, "the request body is not valid JSON: {what}"),
            Self::NotAnObject => f.write_str("the request body must be a JSON object"),
            Self::Failed => f.write_str("the request body could not be read"),
        }
    }
}

impl Error for UnreadableBody {}
