//! What the layer reads out of OpenAI requests, what it hands on, and what it turns away.
//!
//! Nothing waits here but for the test's own hands, except in `server`, which is real hyper.

#![cfg(feature = "openai")]
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod blocks;
mod estimates;
mod hostile;
mod limits;
mod precedence;
mod prefix;
mod queue;
mod server;
mod shapes;
mod transparency;

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderMap, Request, Response, request::Parts};
use http_body::{Body, SizeHint};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tower::{Layer, ServiceExt, service_fn};
use tower_policy_queue::{
    QueueHints,
    openai::{EstimateTokens, OpenAiHintsLayer, PromptBlocks, RequestBody, UnreadableBody},
};

pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const COMPLETIONS: &str = "/v1/completions";
pub(crate) const EMBEDDINGS: &str = "/v1/embeddings";
pub(crate) const RESPONSES: &str = "/v1/responses";

/// A request as the inner service gets it.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) parts: Parts,
    /// Before anything was taken from the body.
    pub(crate) size: SizeHint,
    pub(crate) data: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
}

impl Seen {
    pub(crate) fn hints(&self) -> QueueHints {
        let hints = self.parts.extensions.get();
        hints.cloned().unwrap_or_default()
    }

    pub(crate) fn tokens(&self) -> u64 {
        self.hints().raw_isl_tokens.unwrap()
    }

    pub(crate) fn blocks(&self) -> PromptBlocks {
        self.parts.extensions.get().cloned().unwrap()
    }
}

/// An error of the layer itself.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) why: UnreadableBody,
    pub(crate) error: Value,
}

/// A request to a path, with some text for its body.
pub(crate) fn post(path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post(path)
        .header("content-type", "application/json")
        .body(Full::new(body.into()))
        .unwrap()
}

/// Sends a request through a layer to a service that notes what it gets. All of it happens at once,
/// or the test fails.
pub(crate) fn send_through<E, B>(
    layer: &OpenAiHintsLayer<E>,
    request: Request<B>,
) -> Result<Seen, Box<Refused>>
where
    E: EstimateTokens + Send + Sync + 'static,
    B: Body<Data = Bytes, Error: std::fmt::Debug> + Send + 'static,
{
    let seen = Arc::new(Mutex::new(None));
    let note = Arc::clone(&seen);
    let inner = service_fn(move |request: Request<RequestBody<B>>| {
        let note = Arc::clone(&note);
        async move {
            let (parts, body) = request.into_parts();
            let size = body.size_hint();
            let collected = body.collect().await.unwrap();
            let trailers = collected.trailers().cloned();
            let data = collected.to_bytes();
            *note.lock().unwrap() = Some(Seen {
                parts,
                size,
                data,
                trailers,
            });
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
        }
    });
    let response = layer.layer(inner).oneshot(request).now_or_never();
    let Ok(response) = response.expect("everything is there at once");
    let (head, body) = response.into_parts();
    let seen = seen.lock().unwrap().take();
    seen.ok_or_else(|| {
        Box::new(Refused {
            status: head.status.as_u16(),
            headers: head.headers,
            why: head.extensions.get().cloned().unwrap(),
            error: common::json(body)["error"].take(),
        })
    })
}

/// What the default layer hands on of a body.
pub(crate) fn read(path: &str, body: impl Into<Bytes>) -> Seen {
    let sent = send_through(&OpenAiHintsLayer::new(), post(path, body));
    sent.unwrap_or_else(|refused| panic!("it is read, not {refused:?}"))
}

/// How the default layer turns a body away.
pub(crate) fn refused(path: &str, body: impl Into<Bytes>) -> Box<Refused> {
    let sent = send_through(&OpenAiHintsLayer::new(), post(path, body));
    sent.expect_err("it is turned away")
}
