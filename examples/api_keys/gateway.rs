//! The gateway: authentication, then the queue, then the backend.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Extension, Router,
    body::Body,
    extract::{Request, State},
    http::{
        HeaderValue, StatusCode,
        header::{AUTHORIZATION, WWW_AUTHENTICATE},
    },
    middleware::{Next, from_fn},
    response::{IntoResponse, Response},
    routing::post,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::net::TcpListener;
use tower_http::limit::RequestBodyLimitLayer;
use tower_policy_queue::{Admission, PolicyQueueLayer, QueueHints};

use crate::{
    keys::{Tenant, tenant_of},
    sim::{self, Sim},
};

/// The header with which callers ask for a family.
pub(crate) const FAMILY: &str = "x-dynamo-meta-policy-class";

/// The longest body. Its declared length counts as tokens before any byte of it has come.
const MAX_BODY: usize = 1024 * 1024;
/// The longest head, in bytes, and the longest time that it may take to arrive.
const MAX_HEAD: usize = 16 * 1024;
const HEAD_PATIENCE: Duration = Duration::from_secs(5);

/// Requests at a time on one connection.
pub(crate) const STREAMS: usize = 200;

/// The bytes that one request of an HTTP/2 connection may send before they are read.
const WINDOW: u32 = 1 << 16;

/// A layer that is added later is further out, and sees a request earlier.
pub(crate) fn gateway(queue: PolicyQueueLayer, sim: Sim) -> Router {
    let backend = Backend {
        sim,
        turns: Arc::default(),
    };
    Router::new()
        .route("/v1/completions", post(complete))
        .route_layer(queue.classifier(entitled))
        .route_layer(from_fn(authenticate))
        .route_layer(RequestBodyLimitLayer::new(MAX_BODY))
        .with_state(backend)
}

/// Lets no request through without a valid key, and says whose request it is.
async fn authenticate(mut request: Request, next: Next) -> Response {
    let given = request.headers().get(AUTHORIZATION);
    let key = given.and_then(|given| given.to_str().ok()?.strip_prefix("Bearer "));
    let Some(tenant) = key.and_then(tenant_of) else {
        let message = "the request needs a valid key: authorization: Bearer ...";
        let mut response = sim::error(StatusCode::UNAUTHORIZED, "invalid_api_key", message);
        let bearer = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(WWW_AUTHENTICATE, bearer);
        return response.into_response();
    };
    // The key was for the gateway.
    request.headers_mut().remove(AUTHORIZATION);
    let extensions = request.extensions_mut();
    extensions.insert(tenant);
    extensions.insert(QueueHints {
        client: Some(tenant.name.to_owned()),
        policy: tenant.families.first().map(|&family| family.to_owned()),
        ..QueueHints::default()
    });
    next.run(request).await
}

/// The classifier: of what a request asks for, grants what its key is worth.
fn entitled(request: &Request) -> QueueHints {
    let tenant = request.extensions().get::<&'static Tenant>();
    let asked = request.headers().get(FAMILY);
    let granted = tenant.zip(asked).and_then(|(tenant, asked)| {
        let mut families = tenant.families.iter();
        families.find(|&&family| asked == family)
    });
    QueueHints {
        // `None` leaves it at what `authenticate` has set.
        policy: granted.map(|&family| family.to_owned()),
        // `None` leaves it to the header.
        strict_priority: match tenant {
            Some(tenant) if tenant.sets_tiers => None,
            _ => Some(0),
        },
        ..QueueHints::default()
    }
}

#[derive(Clone)]
struct Backend {
    sim: Sim,
    /// Requests served so far.
    turns: Arc<AtomicUsize>,
}

/// Runs once it is the request's turn.
async fn complete(
    State(backend): State<Backend>,
    Extension(admission): Extension<Admission>,
    Extension(tenant): Extension<&'static Tenant>,
    request: Request,
) -> Response {
    let turn = backend.turns.fetch_add(1, Ordering::Relaxed);
    let mut response = backend.sim.respond(request).await.map(Body::new);
    for (name, value) in [
        ("x-class", admission.class().to_owned()),
        ("x-client", tenant.name.to_owned()),
        ("x-turn", turn.to_string()),
        (
            "x-queued-ms",
            admission.queued_for().as_millis().to_string(),
        ),
    ] {
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// Serves forever. axum's own `serve` cannot limit how large or how slow a head may be.
pub(crate) async fn serve(listener: TcpListener, app: Router) {
    let mut server = auto::Builder::new(TokioExecutor::new());
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_buf_size(MAX_HEAD);
    server
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(MAX_HEAD as u32)
        .max_concurrent_streams(STREAMS as u32)
        // Room for all unread bytes of all streams: one that is parked with a long body must not hold up
        // the connection.
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW * (STREAMS as u32 + 1))
        .keep_alive_interval(Some(HEAD_PATIENCE));
    while let Ok((stream, _)) = listener.accept().await {
        let service = TowerToHyperService::new(app.clone());
        let connection = server
            .serve_connection(TokioIo::new(stream), service)
            .into_owned();
        // A client that goes away is an error here, and of no concern.
        tokio::spawn(async move { drop(connection.await) });
    }
}
