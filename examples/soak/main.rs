//! A soak test: everything at once, for as long as you like, and nothing may be lost.
//!
//! ```text
//! cargo run --release --example soak -- --minutes 10 --seed 7
//! ```
//!
//! Clients of all kinds send requests of all classes over real HTTP/1 and HTTP/2 to a service behind the
//! layer. Many vanish, at any stage; some read slowly or not at all; handlers fail and panic. Meanwhile,
//! policies are reloaded, workers come and go, and limits change. A watcher checks invariants against counts
//! of its own. Every ten seconds the load stops until all requests are gone, and then nothing may be left.
//! The seed determines what happens, but not its timing.
//!
//! It ends with a table, and fails if an invariant was broken. Ctrl-C ends it early.

mod backend;
mod broken;
mod changes;
mod clients;
mod ledger;
#[path = "../load/mod.rs"]
mod load;
mod policies;
mod report;
mod tally;
mod watch;

use std::{
    any::Any,
    panic,
    process::ExitCode,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use bytes::Bytes;
use fastrand::Rng;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use tokio::{
    net::TcpListener,
    sync::watch as channel,
    time::{Instant, sleep, sleep_until},
};
use tower::{Service, ServiceBuilder};
use tower_http::catch_panic::CatchPanicLayer;
use tower_policy_queue::PolicyQueueLayer;

use self::{
    backend::{Backend, Expected, Orders},
    broken::Broken,
    changes::{Operator, caps},
    clients::{Crowd, Way},
    ledger::Ledger,
    load::{BoxError, argument, serve},
    policies::Plan,
    report::Report,
    tally::Tally,
    watch::Watch,
};

/// Clients, each with one request at a time.
const CLIENTS: u64 = 96;
/// HTTP/2 connections to each server, which the clients share.
const HTTP2_CONNECTIONS: usize = 2;
/// The time between quiet points.
const LOAD: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> ExitCode {
    match soak().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// True if all invariants held.
async fn soak() -> Result<bool, BoxError> {
    let minutes: f64 = argument("--minutes")?.unwrap_or(1.0);
    let seed: u64 = argument("--seed")?.unwrap_or(1);
    println!("{minutes} minutes, seed {seed}, {CLIENTS} clients");

    let broken = Broken::default();
    watch_panics(broken.clone());
    let mut rng = Rng::with_seed(seed);
    let plan = Plan::new(&mut rng, 0);
    let layer = PolicyQueueLayer::new(plan.config()?);
    let ledger = Ledger::new(broken.clone());
    ledger.change(&caps(&plan), || Ok::<_, BoxError>(()))?;
    let orders = Orders::default();
    let backend = Backend::new(orders.clone(), ledger.clone());

    let bases = servers(&layer, &backend, &ledger).await?;
    let (switch, load) = channel::channel(false);
    let tally = Tally::default();
    let crowd = Crowd {
        ways: ways(&bases),
        upload_ways: ways(&bases),
        orders: orders.clone(),
        tally: tally.clone(),
        broken: broken.clone(),
        load: load.clone(),
        next: Arc::new(AtomicU64::new(1)),
    };
    for _ in 0..CLIENTS {
        tokio::spawn(crowd.clone().client(rng.u64(..)));
    }
    let watch = Watch {
        handle: layer.handle(),
        ledger: ledger.clone(),
        tally: tally.clone(),
        orders,
        broken: broken.clone(),
    };
    tokio::spawn(watch.clone().always());
    let (mut operator, changes) = Operator::new(
        layer.handle(),
        ledger.clone(),
        broken.clone(),
        rng.fork(),
        plan,
    );

    let mut report = Report::new(watch.clone(), changes, backend);
    let progress = tokio::spawn(report.progress());
    let end = Instant::now() + Duration::try_from_secs_f64(minutes * 60.0)?;
    let mut interrupted = false;
    while Instant::now() < end && !interrupted {
        let off = end.min(Instant::now() + LOAD);
        switch.send_replace(true);
        tokio::select! {
            disturbed = operator.disturb(&load) => disturbed?,
            () = sleep_until(off) => {}
            _ = tokio::signal::ctrl_c() => interrupted = true,
        }
        switch.send_replace(false);
        report.load_ended();
        // With the load off, this only reopens the workers that it has closed.
        operator.disturb(&load).await?;
        watch.quiet().await;
        // Leave time for broken connections to go away.
        sleep(Duration::from_millis(100)).await;
        report.quiet();
    }
    progress.abort();
    report.print(&broken);
    Ok(broken.all().1 == 0)
}

/// Two servers around the same queues: one catches panics, the other loses the connection to them.
async fn servers(
    layer: &PolicyQueueLayer,
    backend: &Backend,
    ledger: &Ledger,
) -> Result<[String; 2], BoxError> {
    let arrive = {
        let ledger = ledger.clone();
        move |mut request: Request<_>| {
            let arrived = ledger.arrive();
            request.extensions_mut().insert(arrived);
            request
        }
    };
    let queued = ServiceBuilder::new()
        .map_request(arrive)
        .layer(layer.clone())
        .service(backend.clone());
    let caught = ServiceBuilder::new()
        .layer(CatchPanicLayer::new())
        .service(queued.clone());

    Ok([listen(queued).await?, listen(caught).await?])
}

/// Serves on any free port, and returns the address.
async fn listen<S, B>(service: S) -> Result<String, BoxError>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error: Into<BoxError>, Future: Send>
        + Clone
        + Send
        + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let base = format!("http://{}", listener.local_addr()?);
    tokio::spawn(serve(listener, service));
    Ok(base)
}

/// Connections to the servers.
fn ways(bases: &[String]) -> Vec<Way> {
    let ways = bases.iter().flat_map(|base| {
        (0..HTTP2_CONNECTIONS).flat_map(move |_| [Way::new(base, true), Way::new(base, false)])
    });
    ways.collect()
}

/// Silences panics that are meant to happen. Others are reported, and break an invariant.
fn watch_panics(broken: Broken) {
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let payload: &(dyn Any + Send) = panic.payload();
        if !payload.is::<Expected>() {
            tell(panic);
            broken.tell("somebody panicked");
        }
    }));
}
