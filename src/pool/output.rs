//! Counts the tokens of a response from its bytes as they pass.

/// Reads a response of an OpenAI-compatible server, whole or as server-sent events, in frames that may be cut
/// anywhere, without keeping any of it.
///
/// The server's own count is believed: the last `completion_tokens` or `output_tokens` that is a key. Without
/// one, each event with an object counts as a token, as that is what servers stream.
#[derive(Debug, Default)]
pub(super) struct Output {
    bytes: bool,
    usage: Option<u64>,
    events: u64,
    line: Line,
    json: Json,
}

/// The position in a line of an event stream.
#[derive(Clone, Copy, Debug)]
enum Line {
    /// After this many bytes of `data:`, from the beginning of the line.
    Field(usize),
    /// After `data:` and spaces.
    Value,
    Rest,
}

impl Default for Line {
    fn default() -> Self {
        Self::Field(0)
    }
}

const FIELD: &[u8] = b"data:";

/// The position in a JSON text.
#[derive(Clone, Copy, Debug, Default)]
enum Json {
    #[default]
    Outside,
    /// In a string: how many bytes of each of the [`NAMES`] it matches so far, if it does.
    Text {
        like: [Option<usize>; 2],
        escaped: bool,
    },
    /// After one of the names.
    Named,
    /// After its colon.
    Number(Option<u64>),
}

const NAMES: [&[u8]; 2] = [b"completion_tokens", b"output_tokens"];

impl Output {
    /// Reads the next bytes of the response.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        self.bytes |= !bytes.is_empty();
        for &byte in bytes {
            self.line = self.next_in_line(byte);
            self.json = self.next_in_json(byte);
        }
    }

    /// True if no bytes have come.
    pub(super) fn is_empty(&self) -> bool {
        !self.bytes
    }

    /// The tokens so far.
    pub(super) fn tokens(&self) -> u64 {
        let pending = match self.json {
            Json::Number(number) => number,
            _ => None,
        };
        pending.or(self.usage).unwrap_or(self.events)
    }

    fn next_in_line(&mut self, byte: u8) -> Line {
        match self.line {
            _ if byte == b'\n' => Line::Field(0),
            Line::Field(seen) if byte == FIELD[seen] => {
                if seen + 1 == FIELD.len() {
                    Line::Value
                } else {
                    Line::Field(seen + 1)
                }
            }
            Line::Value if byte == b' ' => Line::Value,
            Line::Value if byte == b'{' => {
                // An object, unlike the `[DONE]` at the end.
                self.events += 1;
                Line::Rest
            }
            _ => Line::Rest,
        }
    }

    fn next_in_json(&mut self, byte: u8) -> Json {
        match self.json {
            // No string goes beyond the end of a line: whatever it was, the next line begins anew.
            _ if byte == b'\n' => self.outside(),
            Json::Text { escaped: true, .. } => Json::Text {
                like: [None; 2],
                escaped: false,
            },
            Json::Text { like, .. } => match byte {
                b'\\' => Json::Text {
                    like: [None; 2],
                    escaped: true,
                },
                b'"' => {
                    let named = like
                        .iter()
                        .zip(NAMES)
                        .any(|(like, name)| *like == Some(name.len()));
                    if named { Json::Named } else { Json::Outside }
                }
                _ => {
                    let mut like = like;
                    for (like, name) in like.iter_mut().zip(NAMES) {
                        *like = like
                            .filter(|&seen| name.get(seen) == Some(&byte))
                            .map(|seen| seen + 1);
                    }
                    Json::Text {
                        like,
                        escaped: false,
                    }
                }
            },
            Json::Named if byte == b':' => Json::Number(None),
            Json::Named | Json::Number(None) if byte.is_ascii_whitespace() => self.json,
            Json::Number(number) if byte.is_ascii_digit() => {
                let digit = u64::from(byte - b'0');
                Json::Number(Some(
                    number.unwrap_or(0).saturating_mul(10).saturating_add(digit),
                ))
            }
            _ => {
                let outside = self.outside();
                if byte == b'"' {
                    Json::Text {
                        like: [Some(0); 2],
                        escaped: false,
                    }
                } else {
                    outside
                }
            }
        }
    }

    /// Leaves a value, and keeps the number if it was one.
    fn outside(&mut self) -> Json {
        if let Json::Number(Some(number)) = self.json {
            self.usage = Some(number);
        }
        Json::Outside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tokens of a text, however it is cut.
    fn tokens(text: &str) -> u64 {
        let mut whole = Output::default();
        whole.read(text.as_bytes());
        for cut in 1..8 {
            let mut output = Output::default();
            text.as_bytes()
                .chunks(cut)
                .for_each(|chunk| output.read(chunk));
            assert_eq!(output.tokens(), whole.tokens(), "in frames of {cut} bytes");
        }
        whole.tokens()
    }

    #[test]
    fn events_are_counted_where_there_is_no_usage() {
        let stream = "data: {\"choices\": []}\n\ndata:{\"a\": 1}\n\n: comment\n\ndata: [DONE]\n\n";
        assert_eq!(tokens(stream), 2);
        assert_eq!(tokens(""), 0);
        assert_eq!(
            tokens("event: data: {\n id: data: {"),
            0,
            "a field only begins a line"
        );
    }

    #[test]
    fn the_last_usage_is_believed_before_the_events() {
        let stream = "data: {\"x\": 1}\n\ndata: {\"usage\": null}\n\n\
            data: {\"usage\": {\"prompt_tokens\": 7, \"completion_tokens\": 3}}\n\n\
            data: {\"usage\":{\"completion_tokens\":42,\"total_tokens\":49}}\n\ndata: [DONE]\n\n";
        assert_eq!(tokens(stream), 42);
    }

    #[test]
    fn a_response_in_one_piece_tells_by_its_usage() {
        assert_eq!(tokens("{\"usage\": {\"completion_tokens\" : 17 }}"), 17);
        assert_eq!(
            tokens(
                "{\"usage\": {\"output_tokens\": 5, \"output_tokens_details\": {\"reasoning_tokens\": 3}}}"
            ),
            5
        );
        assert_eq!(
            tokens("{\n  \"usage\": {\n    \"completion_tokens\": 9\n  }\n}"),
            9,
            "over several lines"
        );
    }

    #[test]
    fn what_a_model_says_is_not_taken_for_usage() {
        let said = r#"data: {"content": "\"completion_tokens\": 1000, \\"}"#;
        assert_eq!(tokens(&format!("{said}\n\n")), 1);
        let said = r#"{"content": "completion_tokens", "n": 3, "more": "x\"output_tokens\":8"}"#;
        assert_eq!(tokens(said), 0);
    }

    #[test]
    fn numbers_that_are_none_and_numbers_too_large_do_no_harm() {
        assert_eq!(
            tokens("{\"completion_tokens\": null, \"completion_tokens\": -4}"),
            0
        );
        assert_eq!(
            tokens(&format!("{{\"completion_tokens\": {}}}", "9".repeat(40))),
            u64::MAX
        );
        assert_eq!(tokens("{\"completion_tokens\": 12"), 12, "cut off");
    }
}
