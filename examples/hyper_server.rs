//! The layer without a framework: in a stack of Tower layers on plain hyper, with HTTP/1 and HTTP/2.
//!
//! ```text
//! cargo run --example hyper_server              # sends itself two requests, and ends
//! cargo run --example hyper_server -- --serve   # goes on serving, until Ctrl-C
//! ```

mod sim;

use std::{convert::Infallible, pin::pin, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioIo},
    server::{conn::auto, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use serde_json::Value;
use tokio::net::TcpListener;
use tower::{BoxError, Service, ServiceBuilder, service_fn};
use tower_http::trace::TraceLayer;
use tower_policy_queue::{Admission, PolicyConfig, PolicyQueueLayer};
use tracing::{Span, field::Empty, info, info_span, warn};

use self::sim::{Sim, SimBody};

const POLICY: &str = "
default_policy_family: interactive
uncached_isl_buckets:
  - {min_tokens: 0, bucket: all}
policy_classes:
  - {name: interactive, policy_family: interactive, cache_bucket: all, quantum: 4096}
  - {name: batch, policy_family: batch, cache_bucket: all, quantum: 1024}
dominions:
  - {id: gpu, kind: remote, max_concurrency: 2, max_queue: 100}
endpoints:
  - {id: simulated, dominion: gpu}
";

/// How long a request may wait for the head of its response, including its time in the queue.
const TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt().init();
    let service = service(POLICY.parse()?);

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let base = format!("http://{}", listener.local_addr()?);
    let keep_serving = std::env::args().any(|arg| arg == "--serve");
    let visit = async {
        ask(&base, false, "interactive").await?;
        ask(&base, true, "batch").await?;
        if keep_serving {
            println!("serving {base}/v1/chat/completions");
            tokio::signal::ctrl_c().await?;
        }
        Ok(())
    };
    serve(listener, service, visit).await
}

/// The stack. Each layer sees the responses of those below it.
fn service(
    policy: PolicyConfig,
) -> impl Service<
    Request<Incoming>,
    Response = Response<impl Body<Data = Bytes, Error = BoxError> + Send + 'static>,
    Error = BoxError,
    Future: Send,
> + Clone
+ Send
+ 'static {
    let sim = Sim::new(2, Duration::from_millis(1), Duration::from_millis(10));
    ServiceBuilder::new()
        // Sees all responses, including those with which layers below turn a request away.
        .layer(
            TraceLayer::new_for_http()
                .make_span_with(span)
                .on_response(log),
        )
        // An error would close the connection, along with the other requests on it.
        .map_result(|result: Result<Response<_>, BoxError>| match result {
            Ok(response) => Ok::<_, BoxError>(response.map(BodyExt::boxed_unsync)),
            Err(_) => {
                let message = format!("no answer within {TIMEOUT:?}");
                let status = StatusCode::GATEWAY_TIMEOUT;
                let response = sim::error(status, "timeout", &message);
                Ok(response.map(|body| body.map_err(|never| match never {}).boxed_unsync()))
            }
        })
        // Outside the queue, so that the time in the queue counts. A request that times out leaves the
        // queue at once; a stream that has begun may last for any time.
        .timeout(TIMEOUT)
        .layer(PolicyQueueLayer::new(policy))
        .service(service_fn(move |request| {
            let sim = sim.clone();
            async move { Ok::<Response<SimBody>, Infallible>(sim.respond(request).await) }
        }))
}

fn span<B>(request: &Request<B>) -> Span {
    info_span!(
        "request",
        version = ?request.version(),
        path = request.uri().path(),
        class = Empty,
        worker = Empty,
    )
}

/// Logs the admission, which is in the response's extensions unless the request was turned away.
fn log<B>(response: &Response<B>, latency: Duration, span: &Span) {
    let admission = response.extensions().get::<Admission>();
    if let Some(admission) = admission {
        span.record("class", admission.class());
        span.record("worker", admission.worker());
    }
    let queued = admission.map(Admission::queued_for);
    info!(
        status = response.status().as_u16(),
        ?queued,
        ?latency,
        "answered"
    );
}

/// Serves until `done` completes, then lets the connections finish what they are doing.
async fn serve<S, B>(
    listener: TcpListener,
    service: S,
    done: impl Future<Output = Result<(), BoxError>>,
) -> Result<(), BoxError>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = BoxError, Future: Send>
        + Clone
        + Send
        + 'static,
    B: Body<Data = Bytes, Error = BoxError> + Send + 'static,
{
    let mut server = auto::Builder::new(TokioExecutor::new());
    // Room for all unread bytes of all streams: one that is parked with a long body must not hold up the
    // connection.
    server
        .http2()
        .max_concurrent_streams(200)
        .initial_stream_window_size(1 << 16)
        .initial_connection_window_size(1 << 24);
    let graceful = GracefulShutdown::new();
    let mut done = pin!(done);
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // Most likely out of file descriptors: some will become free.
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
            outcome = &mut done => {
                graceful.shutdown().await;
                return outcome;
            }
        };
        // A clone for each connection; all of them share the layer's queues and slots.
        let service = TowerToHyperService::new(service.clone());
        let connection = server.serve_connection_with_upgrades(TokioIo::new(stream), service);
        let connection = graceful.watch(connection.into_owned());
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                warn!(%error, "connection lost");
            }
        });
    }
}

/// Sends a request to this server and prints the answer.
async fn ask(base: &str, http2: bool, family: &str) -> Result<(), BoxError> {
    let client = Client::builder(TokioExecutor::new())
        .http2_only(http2)
        .build_http();
    let body = r#"{"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 15}"#;
    let request = Request::post(format!("{base}/v1/chat/completions"))
        .header("content-type", "application/json")
        .header("x-dynamo-meta-policy-class", family)
        .body(Full::<Bytes>::from(body))?;
    let response: Response<Incoming> = client.request(request).await?;
    let (head, body) = response.into_parts();
    let answer: Value = serde_json::from_slice(&body.collect().await?.to_bytes())?;
    let message = &answer["choices"][0]["message"]["content"];
    println!("{:?} {}: {message}", head.version, head.status);
    if head.status == StatusCode::OK {
        Ok(())
    } else {
        Err("this should have been answered".into())
    }
}
