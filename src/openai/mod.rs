//! Reads the model and the prompt's length from OpenAI requests, so that no header has to carry them.
//!
//! An [`OpenAiHintsLayer`] goes outside a [`PolicyQueueLayer`](crate::PolicyQueueLayer). It reads the JSON
//! body of a request and puts what it finds into the request's extensions: the `model` and the prompt's
//! length in tokens as [`QueueHints`](crate::QueueHints), and hashes of the prompt's beginning as
//! [`PromptBlocks`]. The inner service receives the same bytes, headers and trailers.
//!
//! ```
//! use std::convert::Infallible;
//!
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//! use tower_policy_queue::{
//!     Admission, PolicyConfig, PolicyQueueLayer, RequestBody, openai, openai::OpenAiHintsLayer,
//! };
//!
//! type Body = RequestBody<openai::RequestBody<Full<Bytes>>>;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config: PolicyConfig = "
//! dominions:
//!   - {id: small, kind: remote, max_concurrency: 8}
//!   - {id: large, kind: remote, max_concurrency: 1}
//! endpoints:
//!   - {id: a, dominion: small, models: [gpt-4o-mini]}
//!   - {id: b, dominion: large, models: [gpt-4o]}
//! ".parse()?;
//!
//! let service = ServiceBuilder::new()
//!     .layer(OpenAiHintsLayer::new())
//!     .layer(PolicyQueueLayer::new(config))
//!     .service(service_fn(|request: Request<Body>| async move {
//!         let admission: &Admission = request.extensions().get().unwrap();
//!         assert_eq!(admission.dominion(), Some("large"));
//!         Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("hello"))))
//!     }));
//!
//! let body = r#"{"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}"#;
//! let request = Request::post("/v1/chat/completions").body(Full::from(body))?;
//! assert_eq!(service.oneshot(request).await?.status(), 200);
//! # Ok(())
//! # }
//! ```
//!
//! # Which requests are read
//!
//! `POST` requests whose path ends with `/chat/completions`, `/completions`, `/embeddings` or
//! `/responses`, percent-encoded or not, whose `content-type` is JSON or absent, and whose
//! `content-encoding` is `identity` or absent. All others are passed on untouched, without hints: the
//! layer does not decompress. If the server behind accepts compressed bodies, or JSON under another content
//! type, the policy knows such requests only by their headers; where that matters, turn them away outside.
//!
//! | request | prompt |
//! |---|---|
//! | chat completions | `tools`, `functions`, `messages`: contents, refusals, tool calls |
//! | completions | `prompt`, `suffix` |
//! | embeddings | `input` |
//! | responses | `instructions`, `tools`, `input` |
//!
//! Prompts and inputs may be texts, token ids, or arrays of either; the elements of an array count as one
//! prompt. Anything of an unknown shape is passed on all the same, for the server to judge, and counted as
//! the JSON that it is. What is not in the request is not counted: the conversation behind a
//! `previous_response_id`, or the file behind a `file_id`.
//!
//! The tokens are counted by an [`EstimateTokens`]; by default, [`BytesPerToken`] estimates them.
//!
//! # Precedence
//!
//! Fields of `QueueHints` that a layer outside has set are kept: it may have counted with a tokenizer, or
//! authenticated the request for one model. The hints of this layer override the corresponding headers of
//! the policy (`headers: {model, raw_isl_tokens}`), and a
//! [classifier](crate::PolicyQueueLayer::classifier) overrides both. If a handler sends another request
//! through this layer with the extensions of its own, the hints that this layer added are removed first.
//!
//! # What it answers itself
//!
//! It responds in the format that OpenAI clients read, with an [`UnreadableBody`] in the response's
//! extensions:
//!
//! | cause | status | code |
//! |---|---|---|
//! | the body is longer than [`max_body_bytes`](OpenAiHintsLayer::max_body_bytes) | 413 | `request_too_large` |
//! | it is not JSON, not an object, or repeats a field that is read here | 400 | `invalid_json` |
//! | it fails before its end | 400 | `request_body_error` |
//!
//! A `content-length` beyond the limit is enough for a 413; the body is then not read.
//!
//! # What it costs
//!
//! **A whole prompt is in memory before its request queues**, and until the inner service has taken it. No
//! queue bounds how many requests are read at a time. So the memory is the number of concurrent requests
//! times `max_body_bytes`, and in the worst case twice that for those still being read. If clients are not
//! trusted, bound the connections, put a concurrency limit outside, or keep `max_body_bytes` low.
//!
//! A slow client holds its share of that memory, but no slot and no place in a queue: requests arrive at the
//! queue in the order in which their bodies are complete. To bound the time that a body may take, put a
//! timeout outside.
//!
//! Parsing takes time linear in the length of the body, whatever is in it, and runs in one go on the task of
//! the request: a few milliseconds for half a megabyte of text, but up to a second for 8 MiB of nothing but
//! tiny parts. If clients are not trusted, that is another reason for a low limit.

mod blocks;
mod buffer;
mod estimate;
mod future;
mod hints;
mod layer;
mod operation;
mod prefix_index;
mod prompt;
mod request_body;
mod response_body;
mod service;
mod unreadable;

pub use self::{
    blocks::PromptBlocks,
    estimate::{BytesPerToken, EstimateTokens},
    future::ResponseFuture,
    layer::OpenAiHintsLayer,
    prefix_index::PrefixIndex,
    prompt::{Part, Prompt},
    request_body::RequestBody,
    response_body::ResponseBody,
    service::OpenAiHints,
    unreadable::UnreadableBody,
};

use self::operation::Operation;
