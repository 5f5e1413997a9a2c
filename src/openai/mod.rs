//! OpenAI requests understood, so that the policy's terms need no header.
//!
//! An [`OpenAiHintsLayer`] goes outside of a [`PolicyQueueLayer`](crate::PolicyQueueLayer). It reads
//! the JSON body of a request and says in the request's extensions what it found: the `model` and the
//! prompt's length in tokens as [`QueueHints`](crate::QueueHints), and the prompt's beginning as
//! [`PromptBlocks`]. The inner service gets the same bytes, headers and trailers.
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
//! `/responses`, escaped or not, whose `content-type` is JSON or absent, and whose `content-encoding`
//! is `identity` or absent. All others go on untouched and unread, without hints: the layer does not
//! decompress. A server behind that takes compressed bodies, or JSON under another type, will get some
//! that the policy knows only by their headers; where that matters, turn them away outside.
//!
//! | request | prompt |
//! |---|---|
//! | chat completions | `tools`, `functions`, `messages`: contents, refusals, calls of tools |
//! | completions | `prompt`, `suffix` |
//! | embeddings | `input` |
//! | responses | `instructions`, `tools`, `input` |
//!
//! Prompts and inputs may be texts, token ids, or arrays of either; the parts of an array count as one
//! prompt. What has a shape unknown here goes on all the same, as the server is the one to judge, and
//! counts as the JSON that it is. What is not in the request is not counted: a
//! `previous_response_id`, or what a `file_id` stands for.
//!
//! How many tokens that is, an [`EstimateTokens`] says; by default [`BytesPerToken`].
//!
//! # What wins
//!
//! Fields of `QueueHints` that a layer outside has set are kept: it may have counted with a tokenizer,
//! or have authenticated the request for one model. What this layer says wins over headers of the same
//! meaning that the policy believes (`headers: {model, raw_isl_tokens}`), and a
//! [classifier](crate::PolicyQueueLayer::classifier) over both. What this layer has said of one request
//! is taken out of those that its handler sends through it with the same extensions.
//!
//! # What it answers itself
//!
//! In the form that OpenAI clients read, and as [`UnreadableBody`] in the response's extensions:
//!
//! | cause | status | code |
//! |---|---|---|
//! | the body is longer than [`max_body_bytes`](OpenAiHintsLayer::max_body_bytes) | 413 | `request_too_large` |
//! | it is no JSON, no object, or has a field twice that is read here | 400 | `invalid_json` |
//! | it fails before its end | 400 | `request_body_error` |
//!
//! A `content-length` beyond the limit is enough for a 413; the body is not read then.
//!
//! # What it costs
//!
//! **A whole prompt is in memory before its request queues**, and until the inner service has taken
//! it. No queue bounds how many requests are read at a time, so the memory is the number of requests
//! that come in times `max_body_bytes`, and twice that in the worst case for those still being read.
//! Where clients are not trusted, bound the connections or put a concurrency limit outside, or keep
//! the limit low. A slow client holds its part, but no slot and no place in a queue: requests arrive in
//! the order in which their bodies are complete. For the time a body may take, put a timeout outside.
//!
//! Reading takes time linear in the length of the body, whatever is in it, and happens at once, on the
//! task of the request: a few milliseconds for half a megabyte of text, but up to a second for 8 MiB
//! of nothing but tiny parts. Where clients are not trusted, that is a reason for a low limit too.

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
