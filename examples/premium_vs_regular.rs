//! Who goes next? Premium and regular requests compete for one simulated LLM worker.
//!
//! ```text
//! cargo run --release --example premium_vs_regular
//! ```
//!
//! 320 premium and 320 regular requests of 512 tokens all wait before the worker serves the first of them.
//! With equal quanta, half of the first 320 completions should be premium; with quanta of 512:128, four
//! fifths. Clients, gateway and worker talk real HTTP in one process.

mod sim;

use std::{
    error::Error,
    fmt,
    io::{self, IsTerminal, Write},
    ops::RangeInclusive,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Extension, Router,
    extract::{Request, State},
    http::HeaderValue,
    response::Response,
    routing::post,
};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    time::timeout,
};
use tower::ServiceBuilder;
use tower_policy_queue::{Admission, PolicyConfig, PolicyQueueLayer};

use self::sim::{Sim, SimBody};

type BoxError = Box<dyn Error + Send + Sync>;

/// Requests of each class.
const EACH: usize = 320;
const TOKENS: usize = 512;
/// A worker is busy when it prefills more tokens than this: three requests leave room for one more, four
/// do not. So the queue, too, keeps four requests at the worker.
const BUSY_THRESHOLD: usize = 1536;
/// The sequences that the worker runs at a time.
const SEQUENCES: u32 = 4;
/// 25.6 ms for a prompt of 512 tokens.
const PER_PROMPT_TOKEN: Duration = Duration::from_micros(50);
/// How long a run may take. It should take 4 s.
const PATIENCE: Duration = Duration::from_secs(60);

/// A run: the quanta, what they must lead to, and what they led to according to the documentation of
/// Dynamo's router.
struct Scenario {
    name: &'static str,
    premium_quantum: usize,
    regular_quantum: usize,
    /// How many of the first 320 completions may be premium.
    expected: RangeInclusive<usize>,
    published: Published,
}

struct Published {
    premium: &'static str,
    regular: &'static str,
    regular_left: &'static str,
}

const SCENARIOS: [Scenario; 2] = [
    Scenario {
        name: "equal",
        premium_quantum: 512,
        regular_quantum: 512,
        expected: 144..=176,
        published: Published {
            premium: "159-161",
            regular: "159-161",
            regular_left: "-",
        },
    },
    Scenario {
        name: "weighted",
        premium_quantum: 512,
        regular_quantum: 128,
        expected: 240..=272,
        published: Published {
            premium: "254-257",
            regular: "63-66",
            regular_left: "237-240",
        },
    },
];

#[tokio::main]
async fn main() -> ExitCode {
    match compare().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn compare() -> Result<(), BoxError> {
    println!(
        "One simulated worker, {SEQUENCES} sequences at a time, {:.1} ms for {TOKENS} tokens of prompt.",
        (PER_PROMPT_TOKEN * TOKENS as u32).as_secs_f64() * 1e3,
    );
    println!("{EACH} premium and {EACH} regular requests wait before it serves the first.\n");

    let mut outcomes = Vec::new();
    for scenario in &SCENARIOS {
        let outcome = timeout(PATIENCE, run(scenario)).await;
        let outcome = outcome.map_err(|_| format!("{scenario}: not done after {PATIENCE:?}"))??;
        println!("{scenario}  done in {:.1} s", outcome.took.as_secs_f64());
        outcomes.push(outcome);
    }
    print_table(&outcomes);
    print_bars(&outcomes);
    for outcome in &outcomes {
        outcome.check()?;
    }
    Ok(())
}

// ===== The gateway =====

/// The policy. A real gateway would have it in a file: see `gateway.yaml`.
fn policy(scenario: &Scenario) -> String {
    let Scenario {
        premium_quantum,
        regular_quantum,
        ..
    } = scenario;
    format!(
        "
default_policy_family: regular
uncached_isl_buckets:
  - min_tokens: 0
    bucket: all
policy_classes:
  - name: premium
    policy_family: premium
    cache_bucket: all
    quantum: {premium_quantum}
    prefill_busy_threshold: {BUSY_THRESHOLD}
  - name: regular
    policy_family: regular
    cache_bucket: all
    quantum: {regular_quantum}
    prefill_busy_threshold: {BUSY_THRESHOLD}
dominions:
  - id: pool
    kind: remote
    max_queue: 1000
endpoints:
  - id: simulated
    dominion: pool
headers:
  # The client is trusted to have counted its tokens. A gateway would count them itself.
  raw_isl_tokens: x-raw-isl-tokens
"
    )
}

/// The worker behind the layer. `arrived` counts the requests that have arrived.
fn gateway(policy: PolicyConfig, sim: Sim, arrived: watch::Sender<usize>) -> Router {
    // A request takes its place when the layer is called, not when its future is first polled. So all that
    // are counted here have either started or wait in the queue.
    let arrived = Arc::new(arrived);
    let count_arrivals = move |future| {
        arrived.send_modify(|count| *count += 1);
        future
    };
    Router::new()
        .route("/v1/completions", post(complete))
        .layer(
            ServiceBuilder::new()
                .map_future(count_arrivals)
                .layer(PolicyQueueLayer::new(policy)),
        )
        .with_state(sim)
}

/// Runs once it is the request's turn, and tells the client how long that took.
async fn complete(
    State(sim): State<Sim>,
    Extension(admission): Extension<Admission>,
    request: Request,
) -> Response<SimBody> {
    let waited = u64::try_from(admission.queued_for().as_micros()).unwrap_or(u64::MAX);
    let mut response = sim.respond(request).await;
    let headers = response.headers_mut();
    headers.insert("x-queued-us", HeaderValue::from(waited));
    response
}

// ===== The clients =====

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Premium,
    Regular,
}

impl Class {
    fn name(self) -> &'static str {
        match self {
            Self::Premium => "premium",
            Self::Regular => "regular",
        }
    }
}

/// A request that was answered to its end.
struct Served {
    class: Class,
    waited: Duration,
}

#[derive(Clone)]
struct Caller {
    client: Client<HttpConnector, Full<Bytes>>,
    url: String,
}

impl Caller {
    /// Asks for one token and reads the answer to its end.
    async fn call(self, class: Class, tokens: usize) -> Result<Served, BoxError> {
        let prompt = "hi ".repeat(tokens);
        let body = format!(
            r#"{{"model": "simulated", "prompt": "{prompt}", "max_tokens": 1, "stream": true}}"#
        );
        let request = Request::post(&self.url)
            .header("content-type", "application/json")
            .header("x-dynamo-meta-policy-class", class.name())
            .header("x-raw-isl-tokens", tokens)
            .body(Full::from(body))?;
        let response = self.client.request(request).await?;
        let (head, body) = response.into_parts();
        let text = body.collect().await?.to_bytes();
        if !text.ends_with(b"data: [DONE]\n\n") {
            let text = String::from_utf8_lossy(&text);
            return Err(format!("{} instead of a whole stream: {text}", head.status).into());
        }
        let waited = head.headers.get("x-queued-us").ok_or("no x-queued-us")?;
        Ok(Served {
            class,
            waited: Duration::from_micros(waited.to_str()?.parse()?),
        })
    }
}

async fn run(scenario: &Scenario) -> Result<Outcome<'_>, BoxError> {
    let sim = Sim::new(SEQUENCES, PER_PROMPT_TOKEN, Duration::ZERO);
    let (arrived, mut arrivals) = watch::channel(0);
    let gateway = gateway(policy(scenario).parse()?, sim.clone(), arrived);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/v1/completions", listener.local_addr()?);
    let server = tokio::spawn(axum::serve(listener, gateway).into_future());

    // HTTP/2, because many systems do not let one process open both ends of 640 connections. Each client
    // is one connection, which carries 200 requests at a time by default. (In your own project, this needs
    // axum's feature `http2`.)
    let callers: Vec<_> = (0..4)
        .map(|_| Caller {
            client: Client::builder(TokioExecutor::new())
                .http2_only(true)
                .build_http(),
            url: url.clone(),
        })
        .collect();

    // Nothing may be served before all requests wait, or the first to arrive would be served without
    // competition. So the worker is paused at first, and a gate, a request as large as four, makes it busy:
    // all that arrive after it queue. Once the worker runs and has read the gate's prompt, the first four of
    // them start.
    let pause = sim.pause().await;
    let gate = tokio::spawn(callers[0].clone().call(Class::Regular, 4 * TOKENS));
    arrivals.wait_for(|&count| count == 1).await?;

    let (done, mut completions) = mpsc::unbounded_channel();
    for index in 0..2 * EACH {
        let class = [Class::Premium, Class::Regular][index % 2];
        let call = callers[index / 2 % callers.len()]
            .clone()
            .call(class, TOKENS);
        let done = done.clone();
        tokio::spawn(async move { done.send(call.await) });
    }
    drop(done);
    arrivals.wait_for(|&count| count == 1 + 2 * EACH).await?;

    drop(pause);
    gate.await??;
    let start = Instant::now();
    let mut served = Vec::new();
    while let Some(completion) = completions.recv().await {
        served.push(completion?);
        show_progress(scenario, served.len());
    }
    server.abort();
    Ok(Outcome {
        scenario,
        served,
        took: start.elapsed(),
    })
}

// ===== The outcome =====

/// All requests, in order of completion.
struct Outcome<'a> {
    scenario: &'a Scenario,
    served: Vec<Served>,
    took: Duration,
}

impl Outcome<'_> {
    /// How many of these completions are of a class.
    fn count(served: &[Served], class: Class) -> usize {
        served.iter().filter(|served| served.class == class).count()
    }

    fn first(&self, class: Class) -> usize {
        Self::count(&self.served[..EACH.min(self.served.len())], class)
    }

    /// Regular requests that were not yet done when the last premium one was.
    fn regular_left(&self) -> usize {
        let premium = |served: &Served| served.class == Class::Premium;
        let last = self.served.iter().rposition(premium);
        Self::count(&self.served[last.unwrap_or(0)..], Class::Regular)
    }

    /// The wait in the queue, in seconds, that `percent` of a class did not exceed.
    fn wait(&self, class: Class, percent: usize) -> f64 {
        let of_class = self.served.iter().filter(|served| served.class == class);
        let mut waits: Vec<_> = of_class.map(|served| served.waited).collect();
        waits.sort();
        let rank = (waits.len() * percent).div_ceil(100);
        let wait = waits.get(rank.saturating_sub(1));
        wait.map_or(f64::NAN, Duration::as_secs_f64)
    }

    /// Checks that the shares are what the quanta promise.
    fn check(&self) -> Result<(), String> {
        let Self {
            scenario, served, ..
        } = self;
        if served.len() != 2 * EACH {
            return Err(format!(
                "{scenario}: {} of {} served",
                served.len(),
                2 * EACH
            ));
        }
        let premium = self.first(Class::Premium);
        if !scenario.expected.contains(&premium) {
            return Err(format!(
                "{scenario}: {premium} of the first {EACH} completions were premium, expected {} to {}",
                scenario.expected.start(),
                scenario.expected.end(),
            ));
        }
        // While both wait, at least one in five is regular.
        let starved = |window: &&[Served]| Self::count(window, Class::Regular) == 0;
        if served[..EACH].windows(20).any(|window| starved(&window)) {
            return Err(format!(
                "{scenario}: regular requests were starved, 20 premium in a row"
            ));
        }
        Ok(())
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            premium_quantum: premium,
            regular_quantum: regular,
            ..
        } = self;
        f.pad(&format!("{name} {premium}:{regular}"))
    }
}

/// Prints a line that overwrites itself, on a terminal only.
fn show_progress(scenario: &Scenario, served: usize) {
    let mut out = io::stdout();
    if out.is_terminal() {
        let line = format!("{scenario}  {served:3} of {}", 2 * EACH);
        // Failing to show progress is no reason to stop.
        _ = write!(out, "{line}\r").and_then(|()| out.flush());
    }
}

fn print_table(outcomes: &[Outcome<'_>]) {
    let line = |label: &str, cells: &dyn Fn(&Outcome<'_>) -> String| {
        let cells: String = outcomes.iter().map(cells).collect();
        println!("{}", format!("{label:<29}{cells}").trim_end());
    };
    let row = |label, here: &dyn Fn(&Outcome<'_>) -> String, there: fn(&Published) -> &str| {
        line(label, &|outcome| {
            let published = there(&outcome.scenario.published);
            format!("{:>14}{published:>11}", here(outcome))
        });
    };
    let wait = |outcome: &Outcome<'_>, class| {
        let [p50, p95] = [50, 95].map(|percent| outcome.wait(class, percent));
        format!("{p50:.2} / {p95:.2}")
    };

    println!();
    line("", &|outcome| format!("{:>25}", outcome.scenario));
    row("", &|_| "here".to_owned(), |_| "published");
    row(
        "premium of the first 320",
        &|outcome| outcome.first(Class::Premium).to_string(),
        |published| published.premium,
    );
    row(
        "regular of the first 320",
        &|outcome| outcome.first(Class::Regular).to_string(),
        |published| published.regular,
    );
    row(
        "regular left after premium",
        &|outcome| outcome.regular_left().to_string(),
        |published| published.regular_left,
    );
    row(
        "premium wait p50 / p95, s",
        &|outcome| wait(outcome, Class::Premium),
        |_| "",
    );
    row(
        "regular wait p50 / p95, s",
        &|outcome| wait(outcome, Class::Regular),
        |_| "",
    );
    println!("\nFour to one exactly, the last premium request is the 399th served: 241 are left.");
}

/// Each class's share of the completions over time.
fn print_bars(outcomes: &[Outcome<'_>]) {
    const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const COLUMN: usize = 20;

    println!("\nWho was served, {COLUMN} completions a column:\n");
    for outcome in outcomes {
        for (label, class) in [
            (outcome.scenario.to_string(), Class::Premium),
            (String::new(), Class::Regular),
        ] {
            let columns = outcome.served.chunks(COLUMN);
            let bars: String = columns
                .map(|served| {
                    let part = Outcome::count(served, class) * (LEVELS.len() - 1);
                    LEVELS[part.div_ceil(COLUMN)]
                })
                .collect();
            println!("  {label:<16}  {}  |{bars}|", class.name());
        }
        println!();
    }
}
