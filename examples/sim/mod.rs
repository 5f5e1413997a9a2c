//! A simulated LLM server for the examples: OpenAI-compatible completions, made of canned words.
//!
//! It is slow in the way that real ones are. A fixed number of sequences run at a time; the rest wait in
//! line, first come, first served. A sequence first reads its prompt (the prefill, which takes time in
//! proportion to the prompt's tokens), and then writes its answer, one token after another.
//!
//! No task is spawned: a sequence lives in its response, so dropping the response stops it.

#![allow(dead_code, reason = "each example uses a part of it")]

use std::{
    convert::Infallible,
    fmt::Display,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use futures::{
    StreamExt,
    stream::{self, Stream},
};
use http::{HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// All that it ever says. A word is a token.
const ANSWER: &str = "This is a simulated model. It has nothing to say, and says it one token at a \
                      time, keeping its place at the worker until the last of them is sent or \
                      nobody is there any more to read it.";

pub(crate) type SimBody = UnsyncBoxBody<Bytes, Infallible>;

/// The server. Clones share its sequences.
#[derive(Clone)]
pub(crate) struct Sim {
    sequences: Arc<Semaphore>,
    width: u32,
    per_prompt_token: Duration,
    per_output_token: Duration,
}

impl Sim {
    /// A server that runs `width` sequences at a time.
    pub(crate) fn new(width: u32, per_prompt_token: Duration, per_output_token: Duration) -> Self {
        Self {
            // The semaphore is fair, so sequences start in order of arrival.
            sequences: Arc::new(Semaphore::new(width as usize)),
            width,
            per_prompt_token,
            per_output_token,
        }
    }

    /// Waits until all running sequences have ended, and starts no further one until the returned pause
    /// is dropped.
    pub(crate) async fn pause(&self) -> Pause {
        let sequences = Arc::clone(&self.sequences);
        Pause {
            _all: sequences.acquire_many_owned(self.width).await.ok(),
        }
    }

    /// Answers `POST /v1/chat/completions` and `POST /v1/completions`.
    pub(crate) async fn respond<B>(&self, request: Request<B>) -> Response<SimBody>
    where
        B: Body<Error: Display>,
    {
        let chat = match request.uri().path() {
            "/v1/chat/completions" => true,
            "/v1/completions" => false,
            path => {
                let message = format!("the simulated server has no {path}");
                return error(StatusCode::NOT_FOUND, "not_found", &message);
            }
        };
        let asked = match read(request).await {
            Ok(asked) => asked,
            Err(message) => return error(StatusCode::BAD_REQUEST, "invalid_body", &message),
        };

        let limit = asked.max_completion_tokens.or(asked.max_tokens);
        let words = ANSWER.split(' ').take(limit.unwrap_or(usize::MAX));
        let reply = Reply::new(chat, &asked, words.clone().count());
        let sequence = Sequence {
            sim: self.clone(),
            prompt_tokens: reply.prompt_tokens,
            words,
            running: None,
        };
        if asked.stream {
            let usage = asked.stream_options.is_some_and(|with| with.include_usage);
            let events = reply.stream(sequence.into_stream(), usage);
            let frames = events.map(|event| Ok(Frame::data(event)));
            response(
                StatusCode::OK,
                "text/event-stream",
                StreamBody::new(frames).boxed_unsync(),
            )
        } else {
            let words: Vec<_> = sequence.into_stream().collect().await;
            json_response(StatusCode::OK, &reply.whole(&words.join(" ")))
        }
    }
}

/// See [`Sim::pause`].
pub(crate) struct Pause {
    _all: Option<OwnedSemaphorePermit>,
}

/// An answer that is being made.
struct Sequence<W> {
    sim: Sim,
    prompt_tokens: usize,
    words: W,
    /// One of the server's sequences, from the start of the prefill.
    running: Option<OwnedSemaphorePermit>,
}

impl<W: Iterator<Item = &'static str>> Sequence<W> {
    async fn next(&mut self) -> Option<&'static str> {
        let word = self.words.next()?;
        if self.running.is_none() {
            let sequences = Arc::clone(&self.sim.sequences);
            self.running = Some(sequences.acquire_owned().await.ok()?);
            let tokens = u32::try_from(self.prompt_tokens).unwrap_or(u32::MAX);
            tokio::time::sleep(self.sim.per_prompt_token.saturating_mul(tokens)).await;
        } else {
            tokio::time::sleep(self.sim.per_output_token).await;
        }
        Some(word)
    }

    fn into_stream(self) -> impl Stream<Item = &'static str> {
        stream::unfold(self, |mut sequence| async {
            let word = sequence.next().await?;
            Some((word, sequence))
        })
    }
}

/// The part of a request's body that matters here.
#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    model: String,
    /// Text, or token ids.
    #[serde(default)]
    prompt: Value,
    #[serde(default)]
    messages: Value,
    max_tokens: Option<usize>,
    max_completion_tokens: Option<usize>,
    #[serde(default)]
    stream: bool,
    stream_options: Option<StreamOptions>,
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

async fn read<B>(request: Request<B>) -> Result<Asked, String>
where
    B: Body<Error: Display>,
{
    let body = request.into_body().collect().await;
    let body = body.map_err(|error| format!("the body cannot be read: {error}"))?;
    serde_json::from_slice(&body.to_bytes())
        .map_err(|error| format!("the body is no completion request: {error}"))
}

/// Each word is a token, and so is each token id.
fn count_tokens(prompt: &Value) -> usize {
    match prompt {
        Value::String(text) => text.split_whitespace().count(),
        Value::Number(_) => 1,
        Value::Array(parts) => parts.iter().map(count_tokens).sum(),
        Value::Object(part) => {
            let texts = ["content", "text"]
                .into_iter()
                .filter_map(|key| part.get(key));
            texts.map(count_tokens).sum()
        }
        Value::Null | Value::Bool(_) => 0,
    }
}

/// Puts an answer into OpenAI's format, for chat completions or for plain ones.
struct Reply {
    chat: bool,
    id: String,
    created: u64,
    model: String,
    prompt_tokens: usize,
    completion_tokens: usize,
    finish_reason: &'static str,
}

impl Reply {
    fn new(chat: bool, asked: &Asked, completion_tokens: usize) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let since_epoch = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Self {
            chat,
            id: format!("sim-{}", NEXT.fetch_add(1, Ordering::Relaxed)),
            created: since_epoch.as_secs(),
            model: asked.model.clone(),
            prompt_tokens: count_tokens(&asked.prompt) + count_tokens(&asked.messages),
            completion_tokens,
            finish_reason: match ANSWER.split(' ').nth(completion_tokens) {
                Some(_) => "length",
                None => "stop",
            },
        }
    }

    /// A response object with `choices`, and `usage` if given.
    fn object(&self, chat_kind: &str, choices: Value, usage: Option<Value>) -> Value {
        let mut object = json!({
            "id": self.id,
            "object": if self.chat { chat_kind } else { "text_completion" },
            "created": self.created,
            "model": self.model,
            "choices": choices,
        });
        if let Some(usage) = usage {
            object["usage"] = usage;
        }
        object
    }

    fn usage(&self) -> Value {
        json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        })
    }

    /// The answer in one piece.
    fn whole(&self, text: &str) -> Value {
        let mut choice = json!({"index": 0, "finish_reason": self.finish_reason});
        if self.chat {
            choice["message"] = json!({"role": "assistant", "content": text});
        } else {
            choice["text"] = json!(text);
        }
        self.object("chat.completion", json!([choice]), Some(self.usage()))
    }

    /// The answer as server-sent events, one for each word.
    fn stream(
        self,
        words: impl Stream<Item = &'static str>,
        with_usage: bool,
    ) -> impl Stream<Item = Bytes> {
        let end = [
            event(&self.chunk(self.delta(0, ""), Some(self.finish_reason))),
            if with_usage {
                let usage = Some(self.usage());
                event(&self.object("chat.completion.chunk", json!([]), usage))
            } else {
                String::new()
            },
            "data: [DONE]\n\n".to_owned(),
        ];
        let words = words.enumerate().map(move |(index, word)| {
            let text = if index == 0 {
                word.to_owned()
            } else {
                format!(" {word}")
            };
            event(&self.chunk(self.delta(index, &text), None))
        });
        words.chain(stream::iter([end.concat()])).map(Bytes::from)
    }

    fn chunk(&self, mut choice: Value, finish_reason: Option<&str>) -> Value {
        choice["index"] = json!(0);
        choice["finish_reason"] = json!(finish_reason);
        self.object("chat.completion.chunk", json!([choice]), None)
    }

    fn delta(&self, index: usize, text: &str) -> Value {
        match (self.chat, index) {
            (false, _) => json!({"text": text}),
            // The first chunk of a chat names the speaker.
            (true, 0) => json!({"delta": {"role": "assistant", "content": text}}),
            (true, _) => json!({"delta": {"content": text}}),
        }
    }
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// An error in the format that OpenAI's clients read.
pub(crate) fn error(status: StatusCode, code: &str, message: &str) -> Response<SimBody> {
    let kind = if status.is_client_error() {
        "invalid_request_error"
    } else {
        "server_error"
    };
    let error = json!({"message": message, "type": kind, "code": code, "param": null});
    json_response(status, &json!({ "error": error }))
}

fn json_response(status: StatusCode, value: &Value) -> Response<SimBody> {
    let body = Full::new(Bytes::from(value.to_string()));
    response(status, "application/json", body.boxed_unsync())
}

fn response(status: StatusCode, kind: &'static str, body: SimBody) -> Response<SimBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
