//! The service: what each path returns, and with which headers.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{
    HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri,
    header::{self, ALLOW, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER},
};
use tower_service::Service;

use super::{
    StatusBody,
    events::{Events, Streams, to_json},
    page::{self, Asset},
};
use crate::PolicyQueueHandle;

/// Serves the status page of a layer: see the [module](super).
///
/// It answers every request itself, at once. Clones share the limit on open event streams.
#[derive(Clone, Debug)]
pub struct StatusService {
    handle: PolicyQueueHandle,
    streams: Streams,
}

impl StatusService {
    /// Creates a service whose page shows the layer of this handle.
    pub fn new(handle: PolicyQueueHandle) -> Self {
        Self {
            handle,
            streams: Streams::default(),
        }
    }

    fn respond(&self, method: &Method, uri: &Uri) -> Response<StatusBody> {
        let Some(resource) = Resource::find(uri) else {
            return plain(StatusCode::NOT_FOUND, "There is nothing here.\n");
        };
        if method != Method::GET && method != Method::HEAD {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "This is only to be read.\n");
            let allowed = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(ALLOW, allowed);
            return response;
        }
        self.get(resource)
    }

    fn get(&self, resource: Resource) -> Response<StatusBody> {
        match resource {
            Resource::Asset(asset) => whole(asset.content_type, asset.text.into()),
            Resource::Snapshot => {
                whole("application/json", to_json(&self.handle.snapshot()).into())
            }
            Resource::Events => self.events(),
        }
    }

    fn events(&self) -> Response<StatusBody> {
        let Some(place) = self.streams.join() else {
            let text = "As many streams of events are open as may be.\n";
            let mut response = plain(StatusCode::SERVICE_UNAVAILABLE, text);
            let soon = HeaderValue::from_static("5");
            response.headers_mut().insert(RETRY_AFTER, soon);
            return response;
        };
        let events = Events::new(self.handle.clone(), place);
        let mut response = Response::new(StatusBody::events(events));
        let headers = response.headers_mut();
        let stream = HeaderValue::from_static("text/event-stream");
        headers.insert(CONTENT_TYPE, stream);
        // Proxies such as nginx would hold events back until their buffer is full.
        let unbuffered = HeaderName::from_static("x-accel-buffering");
        headers.insert(unbuffered, HeaderValue::from_static("no"));
        response
    }
}

impl<B> Service<Request<B>> for StatusService {
    type Response = Response<StatusBody>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut response = self.respond(request.method(), request.uri());
        for (name, value) in &HEADERS {
            let value = HeaderValue::from_static(value);
            response.headers_mut().insert(name, value);
        }
        if request.method() == Method::HEAD {
            *response.body_mut() = StatusBody::empty();
        }
        ready(Ok(response))
    }
}

/// The headers of every response.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// Allows the page's own files and streams, and nothing else: nothing inline, nothing from other origins,
/// no frame around it, and no text that becomes markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'";

enum Resource {
    Asset(&'static Asset),
    Snapshot,
    Events,
}

impl Resource {
    fn find(uri: &Uri) -> Option<Self> {
        match uri.path() {
            "" | "/" => Some(Self::Asset(page::find(uri.query()))),
            "/snapshot.json" => Some(Self::Snapshot),
            "/events" => Some(Self::Events),
            _ => None,
        }
    }
}

fn whole(content_type: &'static str, body: Bytes) -> Response<StatusBody> {
    let length = HeaderValue::from(body.len());
    let mut response = Response::new(StatusBody::whole(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    // Set here, as the response to HEAD has no body to derive it from.
    headers.insert(CONTENT_LENGTH, length);
    response
}

fn plain(status: StatusCode, text: &'static str) -> Response<StatusBody> {
    let mut response = whole("text/plain; charset=utf-8", text.into());
    *response.status_mut() = status;
    response
}
