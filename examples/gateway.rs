//! A reverse proxy for OpenAI-compatible servers, queueing by the policy in `gateway.yaml`.
//!
//! ```text
//! cargo run --features status --example gateway
//! ```
//!
//! It prints curl commands to try, and the address of a page that shows the queue at work. With
//! `--features openai,status` it reads the model and the prompt's length from the request's JSON;
//! otherwise, it takes the model from the header `x-model`. Workers of the policy without a `base_url` are
//! simulated, so it needs nothing else; the others are reached over plain http.

mod sim;

use std::{
    error::Error,
    ffi::OsString,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use axum::{
    Extension, Json, Router,
    body::Body,
    extract::{Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, Version,
        header::{self, AUTHORIZATION, CONNECTION, HOST},
    },
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures::future::{self, Either};
use http_body_util::BodyExt;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::{Value, json};
#[cfg(unix)]
use tokio::signal::unix::{SignalKind, signal};
use tokio::{net::TcpListener, sync::oneshot};
#[cfg(feature = "openai")]
use tower_policy_queue::openai::{OpenAiHintsLayer, PrefixIndex};
use tower_policy_queue::{
    Admission, Endpoint, PolicyConfig, PolicyQueueHandle, PolicyQueueLayer, status::StatusService,
};

use self::sim::Sim;

type BoxError = Box<dyn Error + Send + Sync>;

const HELP: &str = "\
A reverse proxy for OpenAI-compatible servers that queues by a policy.

Usage: gateway [--config FILE] [--listen ADDRESS] [--demo]

  --config FILE     the policy [default: examples/gateway.yaml]
  --listen ADDRESS  [default: 127.0.0.1:8080]
  --demo            send a few requests to itself, print the answers, and end;
                    meant for the default policy
  --help            print this";

/// How long the last bytes of a response may take to reach the wire once its body has ended.
const LAST_BYTES: Duration = Duration::from_millis(100);

/// How long clients have to close their idle connections when asked to. Some HTTP/2 clients read nothing
/// while they have no request, and would never notice.
const GOODBYE: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> ExitCode {
    let options = match Options::parse(std::env::args_os().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("error: {message}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match run(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Options {
    config: PathBuf,
    listen: SocketAddr,
    demo: bool,
}

impl Options {
    /// `None` if help is asked for.
    fn parse(mut args: impl Iterator<Item = OsString>) -> Result<Option<Self>, String> {
        let mut config = PathBuf::from("examples/gateway.yaml");
        let mut listen = None;
        let mut demo = false;
        while let Some(arg) = args.next() {
            match arg.to_str() {
                Some("--help" | "-h") => return Ok(None),
                Some("--demo") => demo = true,
                Some("--config") => {
                    config = args.next().ok_or("--config needs a file")?.into();
                }
                Some("--listen") => {
                    let address = args.next();
                    let address = address
                        .as_ref()
                        .and_then(|address| address.to_str()?.parse().ok());
                    listen =
                        Some(address.ok_or("--listen needs an address, such as 127.0.0.1:8080")?);
                }
                _ => return Err(format!("unknown argument {}", arg.to_string_lossy())),
            }
        }
        // The demo takes any free port, as nobody else needs to find it.
        let port = if demo { 0 } else { 8080 };
        let listen = listen.unwrap_or(SocketAddr::from(([127, 0, 0, 1], port)));
        Ok(Some(Self {
            config,
            listen,
            demo,
        }))
    }
}

async fn run(options: Options) -> Result<(), BoxError> {
    let policy = PolicyConfig::from_path(&options.config)?;
    let models: Vec<_> = policy.models().map(str::to_owned).collect();
    let layer = PolicyQueueLayer::new(policy);
    let handle = layer.handle();
    let listener = TcpListener::bind(options.listen)
        .await
        .map_err(|error| format!("cannot listen on {}: {error}", options.listen))?;
    let address = listener.local_addr()?;
    let server = axum::serve(listener, gateway(layer, &models));
    if options.demo {
        let server = tokio::spawn(server.into_future());
        let outcome = demo(&format!("http://{address}")).await;
        server.abort();
        return outcome;
    }
    print_usage(address, &options.config, &models);
    tokio::spawn(reload_on_hangup(handle.clone(), options.config));
    let (drained, is_drained) = oneshot::channel();
    let server = server.with_graceful_shutdown(async move {
        interrupted().await;
        // Waiting and new requests are turned away, while running streams are served to the end.
        // Only then are the connections closed: some HTTP/2 clients drop their streams when they
        // are told of it.
        handle.shutdown();
        handle.drained().await;
        tokio::time::sleep(LAST_BYTES).await;
        let _ = drained.send(());
    });
    let patience = async {
        if is_drained.await.is_ok() {
            tokio::time::sleep(GOODBYE).await;
        } else {
            future::pending().await
        }
    };
    if let Either::Left((outcome, _)) =
        future::select(server.into_future(), Box::pin(patience)).await
    {
        outcome?;
    }
    println!("All that was begun is finished.");
    Ok(())
}

// ===== The gateway =====

fn gateway(layer: PolicyQueueLayer, models: &[String]) -> Router {
    let handle = layer.handle();
    // A real gateway puts it behind authentication, as the docs of `status` show.
    let status = StatusService::new(layer.handle());
    let model =
        |id: &String| json!({"id": id, "object": "model", "created": 0, "owned_by": "gateway"});
    let listed = json!({"object": "list", "data": models.iter().map(model).collect::<Vec<_>>()});
    let backends = Backends {
        sim: Sim::new(4, Duration::from_millis(1), Duration::from_millis(100)),
        // A connection for each request. Servers may close idle ones at any time (llama.cpp does so
        // after each stream), and a request sent at that moment would be lost.
        client: Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .build_http(),
    };
    // On the method. On the router, other methods would queue for their 405, or unknown paths for
    // their 404.
    let forward = post(forward);
    #[cfg(not(feature = "openai"))]
    let forward = forward.route_layer(layer);
    // The outer layer reads the model and the length from the request's JSON; inside, the index knows
    // which worker has seen the prompt's beginning.
    #[cfg(feature = "openai")]
    let forward = forward
        .route_layer(layer.cached_tokens(PrefixIndex::new()))
        .route_layer(OpenAiHintsLayer::new());
    Router::new()
        .route("/v1/chat/completions", forward.clone())
        .route("/v1/completions", forward)
        // Not queued: a probe that had to wait would fail when the gateway is busiest.
        .route("/health", get(|| async { "ok\n" }))
        .route("/usage", get(move || async move { Json(usage(&handle)) }))
        .nest_service("/status", status)
        .route("/v1/models", get(|| async { Json(listed) }))
        .with_state(backends)
}

/// The layer's usage, for monitoring.
fn usage(handle: &PolicyQueueHandle) -> Value {
    let usage = handle.usage();
    json!({
        "slots_in_use": usage.slots_in_use,
        "waiting": usage.waiting,
        "prefill_tokens": usage.prefill_tokens,
        "read_ahead_bytes": usage.read_ahead_bytes,
    })
}

#[derive(Clone)]
struct Backends {
    sim: Sim,
    client: Client<HttpConnector, Body>,
}

/// Runs once it is the request's turn.
async fn forward(
    State(backends): State<Backends>,
    Extension(admission): Extension<Admission>,
    request: Request,
) -> Response {
    let waited = admission.queued_for().as_millis();
    let worker = admission.worker().unwrap_or("-");
    println!("[{} -> {worker}, waited {waited} ms]", admission.class());

    let upstream = admission
        .endpoint()
        .and_then(|endpoint| Some((endpoint, endpoint.base_url()?)));
    let mut response = match upstream {
        Some((endpoint, base_url)) => backends.forward(endpoint, base_url, request).await,
        None => backends.sim.respond(request).await.into_response(),
    };
    // To be seen with `curl -i`.
    for (name, value) in [
        ("x-policy-class", admission.class()),
        ("x-worker", worker),
        ("x-queued-ms", &waited.to_string()),
    ] {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

impl Backends {
    /// Both bodies are streamed, not collected. Dropping the response, as happens when the client goes
    /// away, closes the connection to the server and so stops the server too.
    async fn forward(&self, endpoint: &Endpoint, base_url: &str, mut request: Request) -> Response {
        let bad_gateway = |code: &str, what: &str| {
            let message = format!("endpoint `{}` {what}", endpoint.id());
            sim::error(StatusCode::BAD_GATEWAY, code, &message).into_response()
        };
        if base_url.starts_with("https:") {
            return bad_gateway(
                "https_unsupported",
                "needs https, which this example does without",
            );
        }
        let Some(uri) = join(base_url, request.uri()) else {
            return bad_gateway("bad_base_url", "has a `base_url` that is none");
        };
        *request.uri_mut() = uri;
        *request.version_mut() = Version::HTTP_11;

        let headers = request.headers_mut();
        remove_hop_by_hop(headers);
        headers.remove(HOST);
        // The caller's key is for the gateway only.
        headers.remove(AUTHORIZATION);
        if let Some(key) = endpoint.api_key() {
            let Ok(mut bearer) = HeaderValue::try_from(format!("Bearer {key}")) else {
                return bad_gateway("bad_api_key", "has an `api_key` that fits into no header");
            };
            bearer.set_sensitive(true);
            headers.insert(AUTHORIZATION, bearer);
        }

        match self.client.request(request).await {
            Ok(mut response) => {
                remove_hop_by_hop(response.headers_mut());
                response.map(Body::new)
            }
            Err(error) => {
                // The address is for the operator only.
                eprintln!("{base_url}: {error}{}", causes(&error));
                bad_gateway("upstream_unreachable", "cannot be reached")
            }
        }
    }
}

/// Appends what follows `/v1` in the path of the request to `base_url`.
fn join(base_url: &str, asked: &Uri) -> Option<Uri> {
    let path = asked.path_and_query()?.as_str();
    let rest = path.strip_prefix("/v1").unwrap_or(path);
    let uri = format!("{}{rest}", base_url.trim_end_matches('/'));
    uri.parse()
        .ok()
        .filter(|uri: &Uri| uri.scheme_str() == Some("http"))
}

/// Removes headers that apply to one connection only and must not be passed on to the next.
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let always = [
        CONNECTION,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
        header::PROXY_AUTHENTICATE,
        header::PROXY_AUTHORIZATION,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ];
    for name in always.iter().chain(&named) {
        headers.remove(name);
    }
}

fn causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.map(|cause| format!(": {cause}")).collect()
}

/// Waits for Ctrl-C or SIGTERM. Running streams are then served to the end, unless Ctrl-C comes again.
async fn interrupted() {
    let interrupt = tokio::signal::ctrl_c();
    let ended = future::select(Box::pin(interrupt), Box::pin(terminated())).await;
    if let Either::Left((Err(_), _)) = ended {
        // Ctrl-C then keeps the system's default behaviour, which needs no help.
        return future::pending().await;
    }
    println!("Finishing what was begun. Ctrl-C ends at once.");
    tokio::spawn(async {
        if tokio::signal::ctrl_c().await.is_ok() {
            std::process::exit(130);
        }
    });
}

/// Reloads the policy on each SIGHUP, where there is such a signal. A bad file changes nothing.
async fn reload_on_hangup(handle: PolicyQueueHandle, config: PathBuf) {
    #[cfg(unix)]
    if let Ok(mut hangups) = signal(SignalKind::hangup()) {
        while hangups.recv().await.is_some() {
            let path = config.display();
            let policy = match PolicyConfig::from_path(&config) {
                Ok(policy) => policy,
                Err(error) => {
                    eprintln!("the policy stays as it is:\n{error}");
                    continue;
                }
            };
            match handle.reload(policy) {
                Ok(changes) if changes.is_empty() => println!("{path}: nothing has changed"),
                Ok(changes) => println!("{path} is in force:\n{changes}"),
                Err(error) => eprintln!("the policy stays as it is: {error}"),
            }
        }
    }
    #[cfg(not(unix))]
    drop((handle, config));
}

/// Waits for SIGTERM, where there is such a signal.
async fn terminated() {
    #[cfg(unix)]
    if let Ok(mut signal) = signal(SignalKind::terminate()) {
        signal.recv().await;
        return;
    }
    future::pending().await
}

fn print_usage(address: SocketAddr, config: &Path, models: &[String]) {
    let base = format!("http://{address}");
    let model = models.first().map_or("demo", String::as_str);
    // With the feature `openai`, the body says it all.
    let (header, headers) = if cfg!(feature = "openai") {
        (String::new(), String::new())
    } else {
        (
            format!(" -H 'x-model: {model}'"),
            format!(r#", default_headers={{"x-model": "{model}"}}"#),
        )
    };
    println!(
        r#"Listening on {base}, with the policy {}
Models: {}

Try in another terminal:

  curl -N {base}/v1/chat/completions -H 'content-type: application/json'{header} \
    -d '{{"model": "{model}", "stream": true, "messages": [{{"role": "user", "content": "Hello"}}]}}'

and the same in a third and a fourth while it streams. Also:

  -i                                          shows class, worker and wait
  -H 'x-dynamo-meta-policy-class: premium'    asks for another class
  curl {base}/v1/models
  curl {base}/health
  curl {base}/usage
  kill -HUP {pid}    puts {} in force again, once you have changed it

who runs, who waits and why, in a browser:

  {base}/status

or with OpenAI's Python client:

  OpenAI(base_url="{base}/v1", api_key="any"{headers})
"#,
        config.display(),
        models.join(", "),
        config.display(),
        pid = std::process::id(),
    );
}

// ===== The demonstration =====

/// Shows the same as the curl commands, for those in a hurry and for CI.
async fn demo(base: &str) -> Result<(), BoxError> {
    let caller = Caller {
        client: Client::builder(TokioExecutor::new()).build_http(),
        base: base.to_owned(),
    };

    for path in ["/health", "/v1/models"] {
        let (_, text) = read(caller.get(path).await?).await?;
        println!("GET {path}\n  {}", text.trim_end());
    }

    let (status, page) = read(caller.get("/status").await?).await?;
    println!("GET /status\n  {status}, for a browser: {base}/status");
    if status != StatusCode::OK || !page.starts_with("<!doctype html>") {
        return Err("there should have been a page".into());
    }

    println!("POST /v1/chat/completions");
    let (status, text) = read(caller.ask(false, 8).await?).await?;
    let answer: Value = serde_json::from_str(&text)?;
    let message = &answer["choices"][0]["message"]["content"];
    println!("  {status} {message}\n  {}", answer["usage"]);

    println!("Three streams at once, where one runs and one waits");
    let mut first = caller.ask(true, 40).await?;
    println!("  first:  {}, and streams", first.status());
    // Whichever of the two arrives second finds the queue full, and is answered first.
    let (Either::Left((third, second)) | Either::Right((third, second))) =
        future::select(Box::pin(caller.ask(true, 4)), Box::pin(caller.ask(true, 4))).await;
    let (status, text) = read(third?).await?;
    let error: Value = serde_json::from_str(&text)?;
    println!("  third:  {status}, {}", error["error"]["message"]);
    if status != StatusCode::SERVICE_UNAVAILABLE || error["error"]["code"] != "queue_full" {
        return Err("the third stream should have been turned away".into());
    }
    for _ in 0..5 {
        first.frame().await.ok_or("the first stream broke off")??;
    }
    println!("  first:  hangs up after five tokens");
    drop(first);
    let second = second.await?;
    let waited = second.headers().get("x-queued-ms").cloned();
    let waited = waited.ok_or("no x-queued-ms")?.to_str()?.to_owned();
    let (status, text) = read(second).await?;
    let events = text.matches("data: ").count();
    println!("  second: {status} after {waited} ms, and streams {events} events");
    if !text.ends_with("data: [DONE]\n\n") {
        return Err("the second stream should have been served to its end".into());
    }
    Ok(())
}

struct Caller {
    client: Client<HttpConnector, Body>,
    base: String,
}

impl Caller {
    async fn get(&self, path: &str) -> Result<Response<hyper::body::Incoming>, BoxError> {
        let uri = format!("{}{path}", self.base).parse()?;
        Ok(self.client.get(uri).await?)
    }

    async fn ask(
        &self,
        stream: bool,
        max_tokens: u32,
    ) -> Result<Response<hyper::body::Incoming>, BoxError> {
        let body = json!({
            "model": "demo",
            "stream": stream,
            "max_tokens": max_tokens,
            "messages": [{"role": "user", "content": "Hello"}],
        });
        let request = Request::post(format!("{}/v1/chat/completions", self.base))
            .header("content-type", "application/json")
            .header("x-model", "demo")
            .body(Body::from(body.to_string()))?;
        Ok(self.client.request(request).await?)
    }
}

async fn read(response: Response<hyper::body::Incoming>) -> Result<(StatusCode, String), BoxError> {
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8(body.into())?))
}
