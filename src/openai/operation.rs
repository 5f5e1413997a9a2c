//! Which requests are read.

use http::{
    HeaderMap, Method, Request,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};

/// What a request asks the server to do, which tells where its prompt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    ChatCompletions,
    Completions,
    Embeddings,
    Responses,
}

impl Operation {
    /// None if the request is not to be read.
    pub(super) fn of<B>(request: &Request<B>) -> Option<Self> {
        if request.method() != Method::POST {
            return None;
        }
        let operation = Self::of_path(request.uri().path())?;
        let headers = request.headers();
        (is_json(headers) && is_plain(headers)).then_some(operation)
    }

    fn of_path(path: &str) -> Option<Self> {
        // Some servers take a slash more at the end, or anywhere: it must not be a way around the policy.
        let mut segments = path
            .strip_prefix('/')?
            .rsplit('/')
            .filter(|segment| !segment.is_empty() && *segment != ".");
        match (segments.next()?, segments.next()) {
            ("completions", Some("chat")) => Some(Self::ChatCompletions),
            ("completions", _) => Some(Self::Completions),
            ("embeddings", _) => Some(Self::Embeddings),
            ("responses", _) => Some(Self::Responses),
            _ => None,
        }
    }
}

/// The type says JSON, or nothing.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE) else {
        return true;
    };
    let value = value.to_str().unwrap_or_default().to_ascii_lowercase();
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence == "application/json" || essence.ends_with("+json")
}

/// The bytes are the JSON itself.
fn is_plain(headers: &HeaderMap) -> bool {
    headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .all(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

#[cfg(test)]
mod tests {
    use super::Operation;

    #[test]
    fn the_path_ends_with_the_operation_whatever_is_before() {
        for (path, operation) in [
            ("/v1/chat/completions", Operation::ChatCompletions),
            ("/chat/completions", Operation::ChatCompletions),
            (
                "/openai/deployments/gpt/chat/completions",
                Operation::ChatCompletions,
            ),
            ("/v1/chat/completions/", Operation::ChatCompletions),
            ("/v1/chat/completions//", Operation::ChatCompletions),
            ("/v1/chat//completions", Operation::ChatCompletions),
            ("/v1/chat/./completions", Operation::ChatCompletions),
            ("/v1/completions", Operation::Completions),
            ("/v1/embeddings", Operation::Embeddings),
            ("/v1/responses", Operation::Responses),
        ] {
            assert_eq!(Operation::of_path(path), Some(operation), "{path}");
        }
    }

    #[test]
    fn other_paths_are_none_of_them() {
        for path in [
            "",
            "/",
            "/v1/models",
            "/completions/1",
            "/v1/precompletions",
            "completions",
        ] {
            assert_eq!(Operation::of_path(path), None, "{path}");
        }
    }
}
