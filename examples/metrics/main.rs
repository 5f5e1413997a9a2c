//! What the layer reports to Prometheus: an axum gateway with `/metrics`, a short run, and its metrics.
//!
//! ```text
//! cargo run --example metrics --features metrics              # a short run, and its metrics
//! cargo run --example metrics --features metrics -- --serve   # goes on serving, until Ctrl-C
//! ```
//!
//! `grafana.json` beside this file is a dashboard for these metrics: import it and choose the data source.

use std::{convert::Infallible, error::Error, time::Duration};

use axum::{Router, body::Body, routing::get};
use futures::{StreamExt, future::join_all, stream};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::{net::TcpListener, time::sleep};
use tower::ServiceExt;
use tower_policy_queue::{PolicyConfig, PolicyQueueLayer, metrics};

const POLICY: &str = "
default_policy_family: interactive
uncached_isl_buckets:
  - {min_tokens: 0, bucket: all}
policy_classes:
  - {name: interactive, policy_family: interactive, cache_bucket: all, quantum: 4096}
  - {name: batch, policy_family: batch, cache_bucket: all, quantum: 1024}
dominions:
  - {id: gpu, kind: remote, max_concurrency: 2, max_queue: 4}
endpoints:
  - {id: simulated, dominion: gpu}
";

/// In seconds. The first is for requests that did not wait.
const BUCKETS: [f64; 10] = [0.0, 0.01, 0.05, 0.2, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Installed before the layer is created, as the layer registers with the recorder that it finds.
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Full(metrics::WAIT_SECONDS.to_owned()), &BUCKETS)?
        .set_buckets_for_metric(Matcher::Full(metrics::HOLD_SECONDS.to_owned()), &BUCKETS)?
        .install_recorder()?;
    let app = app(POLICY.parse()?, recorder);

    run(&app).await?;
    println!("{}", ask(&app, "/metrics", "").await?.1);
    if std::env::args().any(|arg| arg == "--serve") {
        let listener = TcpListener::bind("127.0.0.1:9000").await?;
        println!("serving http://{}/metrics", listener.local_addr()?);
        let ctrl_c = async { drop(tokio::signal::ctrl_c().await) };
        axum::serve(listener, app)
            .with_graceful_shutdown(ctrl_c)
            .await?;
    }
    Ok(())
}

fn app(policy: PolicyConfig, recorder: PrometheusHandle) -> Router {
    Router::new()
        .route("/v1/completions", get(complete))
        .route_layer(PolicyQueueLayer::new(policy))
        // Not queued: it must answer above all when requests wait.
        .route(
            "/metrics",
            get(move || {
                // `install_recorder` starts no task that would do this.
                recorder.run_upkeep();
                std::future::ready(recorder.render())
            }),
        )
}

/// Streams four words.
async fn complete() -> Body {
    let words = stream::iter(["one ", "two ", "three ", "four "]).then(|word| async move {
        sleep(Duration::from_millis(10)).await;
        Ok::<_, Infallible>(word)
    });
    Body::from_stream(words)
}

/// Sends eight requests at once: two run, four wait and two are turned away. Then sends one more, whose
/// client does not stay to the end.
async fn run(app: &Router) -> Result<(), Box<dyn Error>> {
    let families = ["interactive", "batch"].into_iter().cycle();
    let crowd = families.take(8).map(|it| ask(app, "/v1/completions", it));
    let answers = join_all(crowd).await;
    let turned_away = answers
        .iter()
        .filter(|answer| matches!(answer, Ok((StatusCode::SERVICE_UNAVAILABLE, _))));
    eprintln!("{} of 8 were turned away", turned_away.count());

    let request = Request::get("/v1/completions").body(Body::empty())?;
    let response = app.clone().oneshot(request).await?;
    let mut body = response.into_body();
    let _first_word = body.frame().await;
    Ok(())
}

async fn ask(
    app: &Router,
    path: &str,
    family: &str,
) -> Result<(StatusCode, String), Box<dyn Error>> {
    let request = Request::get(path)
        .header("x-dynamo-meta-policy-class", family)
        .body(Body::empty())?;
    let response = app.clone().oneshot(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8(body.into())?))
}
