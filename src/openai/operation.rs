//! Which requests are read.

use std::borrow::Cow;

use http::{
    HeaderMap, Method, Request,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};

/// What a request asks the server to do. It determines where the prompt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    ChatCompletions,
    Completions,
    Embeddings,
    Responses,
}

impl Operation {
    /// `None` if the request is not to be read.
    pub(super) fn of<B>(request: &Request<B>) -> Option<Self> {
        if request.method() != Method::POST {
            return None;
        }
        let operation = Self::of_path(request.uri().path())?;
        let headers = request.headers();
        (is_json(headers) && is_plain(headers)).then_some(operation)
    }

    fn of_path(path: &str) -> Option<Self> {
        // Some servers decode escapes, and ignore extra slashes at the end or anywhere. None of that may be
        // a way around the policy.
        let path = unescaped(path);
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

/// The path with its escaped ASCII characters decoded.
fn unescaped(path: &str) -> Cow<'_, str> {
    let mut pieces = path.split('%');
    let first = pieces.next().unwrap_or_default();
    if first.len() == path.len() {
        return path.into();
    }
    let mut plain = first.to_owned();
    for piece in pieces {
        let byte = piece.get(..2).map(|digits| u8::from_str_radix(digits, 16));
        match byte {
            Some(Ok(byte)) if byte.is_ascii() => {
                plain.push(char::from(byte));
                plain.push_str(&piece[2..]);
            }
            _ => plain.extend(["%", piece]),
        }
    }
    plain.into()
}

/// True if the content type is JSON or absent.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE) else {
        return true;
    };
    let value = value.to_str().unwrap_or_default().to_ascii_lowercase();
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence == "application/json" || essence.ends_with("+json")
}

/// True if the body is not compressed.
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
            ("/v1/chat/%63ompletion%73", Operation::ChatCompletions),
            ("/v1%2Fchat%2fcompletions%2F", Operation::ChatCompletions),
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
            "/v1/completions%",
            "/v1/completions%2",
            "/v1/completions%+f",
            "/v1/completions%c3%a9",
            "/v1/completions%é",
            "/v1/%2563ompletions",
            "completions",
        ] {
            assert_eq!(Operation::of_path(path), None, "{path}");
        }
    }
}
