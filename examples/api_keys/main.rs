//! A gateway whose callers have keys. The gateway, not the caller's headers, decides what a key is worth.
//!
//! ```text
//! cargo run --example api_keys
//! ```
//!
//! Outside the queue, `authenticate` looks up the tenant of a key and tells the queue with `QueueHints`,
//! which override every header. Inside, the classifier `entitled` has the last word: a caller may ask for
//! less than its key is worth, never for more. Then callers of all kinds arrive at once over real HTTP, and
//! a table shows what each of them got. It fails if one got more than its key is worth.

mod callers;
mod gateway;
mod keys;
#[path = "../sim/mod.rs"]
mod sim;

use std::{process::ExitCode, sync::Arc, time::Duration};

use axum::http::StatusCode;
use tokio::{net::TcpListener, time::timeout};
use tower_policy_queue::{PolicyQueueHandle, PolicyQueueLayer, Usage};

use self::{
    callers::{Answer, BoxError, CALLERS, Caller, OPENER, REGULAR_DONE, come},
    gateway::{gateway, serve},
    sim::Sim,
};

/// Serves four premium requests for each regular one, as all requests have 32 tokens here.
const POLICY: &str = "
default_policy_family: regular
max_queue_wait_ms: 30000
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: premium, policy_family: premium, cache_bucket: all, quantum: 128, max_hold_ms: 60000}
  - {name: regular, policy_family: regular, cache_bucket: all, quantum: 32, max_hold_ms: 60000}
dominions: [{id: gpu, kind: remote, max_concurrency: 1, max_queue: 4000}]
endpoints: [{id: embedded, dominion: gpu}]
headers: {strict_priority: x-strict-priority}    # but see `entitled`
";

/// How long the demonstration may take. It should take a second.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = timeout(PATIENCE, demonstrate()).await;
    match outcome.unwrap_or_else(|_| Err(format!("not done within {PATIENCE:?}").into())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn demonstrate() -> Result<(), BoxError> {
    let queue = PolicyQueueLayer::new(POLICY.parse()?);
    let handle = queue.handle();
    let sim = Sim::new(1, Duration::ZERO, Duration::from_millis(2));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let base = Arc::from(format!("http://{}", listener.local_addr()?));
    tokio::spawn(serve(listener, gateway(queue, sim.clone())));

    // The backend pauses until everybody is there.
    let pause = sim.pause().await;
    let opener = come(&base, &OPENER);
    until(&handle, |usage| usage.slots_in_use == 1).await;
    let mut parties = Vec::new();
    let mut waiting = 0;
    for caller in &CALLERS {
        parties.push((caller, come(&base, caller)));
        waiting += caller.class.map_or(0, |_| caller.requests);
        until(&handle, |usage| usage.waiting == waiting).await;
    }
    drop(pause);
    opener.join_all().await;

    println!("{waiting} requests wait for one slot. Who sent them, and what became of them:\n");
    println!("caller   asks for            class    client   status  requests  turns      waited");
    // In reverse, so that the caller with the most requests comes last; it is not waited for.
    let mut wrong = Vec::new();
    for (caller, mut requests) in parties.into_iter().rev() {
        let answers = if caller.mints_labels {
            let served = std::iter::from_fn(|| requests.try_join_next());
            let served = served
                .map(|answer| answer?)
                .collect::<Result<Vec<_>, BoxError>>()?;
            requests.shutdown().await;
            served
        } else {
            let answers = requests.join_all().await;
            answers.into_iter().collect::<Result<_, _>>()?
        };
        println!("{}", row(caller, &answers));
        wrong.extend(mistakes(caller, &answers));
    }
    println!("\neve's turns are those until the others were done; then she hung up.");
    until(&handle, |usage| {
        usage.waiting == 0 && usage.slots_in_use == 0
    })
    .await;
    if wrong.is_empty() {
        println!("Nobody got more than a key is worth.");
        Ok(())
    } else {
        Err(wrong.join("; ").into())
    }
}

/// Waits until the queue's usage meets the condition.
async fn until(handle: &PolicyQueueHandle, condition: impl Fn(Usage) -> bool) {
    while !condition(handle.usage()) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn row(caller: &Caller, answers: &[Answer]) -> String {
    let any = answers.first();
    let served = caller.class.is_some();
    let turns = answers.iter().map(|answer| answer.turn);
    let turns = turns.clone().min().zip(turns.max()).filter(|_| served);
    let waited: usize = answers.iter().map(|answer| answer.waited_ms).sum();
    let waited = waited.checked_div(answers.len()).filter(|_| served);
    format!(
        "{:8} {:19} {:8} {:8} {:6} {:>4} of {:<4} {:10} {}",
        caller.name,
        caller.wish(),
        any.map_or("-", |answer| &answer.class),
        any.map_or("-", |answer| &answer.client),
        any.map_or("-", |answer| answer.status.as_str()),
        answers.len(),
        caller.requests,
        turns.map_or("-".to_owned(), |(first, last)| format!("{first} to {last}")),
        waited.map_or("-".to_owned(), |waited| format!("{waited} ms")),
    )
}

/// What a caller got that it should not have got.
fn mistakes(caller: &Caller, answers: &[Answer]) -> Vec<String> {
    let mut wrong = Vec::new();
    for answer in answers {
        let expected = match caller.class {
            Some(class) => (StatusCode::OK, class, caller.name),
            None => (StatusCode::UNAUTHORIZED, "-", "-"),
        };
        if expected != (answer.status, &*answer.class, &*answer.client) {
            wrong.push(format!("{} should not have got {answer:?}", caller.name));
        }
        if answer.turn > caller.last_turn {
            let latest = caller.last_turn;
            wrong.push(format!(
                "{} was to be done by turn {latest}: {answer:?}",
                caller.name
            ));
        }
    }
    let own = answers.iter().filter(|answer| answer.turn <= REGULAR_DONE);
    if own.count() > caller.most_turns {
        wrong.push(format!("{} had more turns than the others", caller.name));
    }
    wrong
}
