//! A whole server on loopback, with the layer and without it. The load comes from `wrk`.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
    sync::mpsc,
    thread,
};

use axum::{Router, routing::get};
use tokio::{net::TcpListener, runtime, task::yield_now};
use tower::limit::GlobalConcurrencyLimitLayer;
use tower_policy_queue::PolicyQueueLayer;

use crate::{
    one,
    table::{Figure::*, Promise::*, Row},
};

const CONNECTIONS: [usize; 2] = [64, 1000];
const ROUNDS: usize = 16;
const SLOTS: usize = 16;
/// Processors.
const SERVER: &str = "0";
const LOAD: &str = "1";

pub fn rows() -> Vec<Row> {
    measured().unwrap_or_else(|| {
        // No figure keeps no promise: it is a row that fails.
        let missing = Row::new("axum gateway: needs `wrk`", PerSecond(f64::NAN));
        vec![missing.holds(RatioAtLeast(0.95))]
    })
}

fn measured() -> Option<Vec<Row>> {
    let plain = serve(routes(0))?;
    let free = serve(routes(0).layer(policy(100_000)))?;
    let limited = serve(routes(YIELDS).layer(GlobalConcurrencyLimitLayer::new(SLOTS)))?;
    let queued = serve(routes(YIELDS).layer(policy(SLOTS)))?;

    let mut rows = Vec::new();
    for connections in CONNECTIONS {
        let [with, without] = compare([&free, &plain], connections)?;
        let title = |what| format!("axum gateway, {connections} connections, {what}");
        rows.push(
            Row::new(title("free slots"), PerSecond(with.rate))
                .against("no layer", PerSecond(without.rate))
                .holds(RatioAtLeast(0.95)),
        );
        rows.push(
            Row::new("  its 99th percentile", Nanos(with.slow))
                .against("no layer", Nanos(without.slow))
                .holds(RatioAtMost(1.1)),
        );
        rows.push(
            Row::new("  its processor time a request", Nanos(with.cost))
                .against("no layer", Nanos(without.cost)),
        );
        let [ours, towers] = compare([&queued, &limited], connections)?;
        rows.push(
            Row::new(title("16 slots"), PerSecond(ours.rate))
                .against("ConcurrencyLimit", PerSecond(towers.rate))
                .holds(RatioAtLeast(0.95)),
        );
        rows.push(
            Row::new("  its 99th percentile", Nanos(ours.slow))
                .against("ConcurrencyLimit", Nanos(towers.slow)),
        );
        rows.push(
            Row::new("  its processor time a request", Nanos(ours.cost))
                .against("ConcurrencyLimit", Nanos(towers.cost)),
        );
    }
    Some(rows)
}

/// How often a handler lets others go first while it has a slot: enough for the others to queue.
const YIELDS: usize = 2;

fn routes(yields: usize) -> Router {
    let handler = move || async move {
        for _ in 0..yields {
            yield_now().await;
        }
        "hello"
    };
    Router::new().route("/", get(handler))
}

fn policy(slots: usize) -> PolicyQueueLayer {
    PolicyQueueLayer::new(one::policy(slots, 100_000))
}

/// A server on a thread of its own, until the program ends.
#[derive(Clone)]
struct Server {
    address: SocketAddr,
    /// Where the system says what time its thread has used.
    usage: PathBuf,
}

impl Server {
    /// Keeps it away from the load: whether the two share a processor would matter more than the layer.
    fn pin(&self) -> Option<()> {
        let thread = self.usage.parent()?.file_name()?;
        let done = Command::new("taskset")
            .args(["-cp", SERVER])
            .arg(thread)
            .output()
            .ok()?;
        done.status.success().then_some(())
    }

    /// Nanoseconds on a processor so far.
    fn used(&self) -> Option<f64> {
        let usage = fs::read_to_string(&self.usage).ok()?;
        usage.split_whitespace().next()?.parse().ok()
    }
}

fn serve(routes: Router) -> Option<Server> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    let listener = runtime
        .block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .ok()?;
    let address = listener.local_addr().ok()?;
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let thread = fs::read_link("/proc/thread-self");
        let _ = send.send(thread.map(|thread| Path::new("/proc").join(thread).join("schedstat")));
        runtime.block_on(async { axum::serve(listener, routes).await })
    });
    let usage = receive.recv().ok()?.ok()?;
    let server = Server { address, usage };
    server.pin()?;
    Some(server)
}

#[derive(Clone, Copy)]
struct Load {
    /// Requests a second.
    rate: f64,
    /// The 99th percentile of the latency, in nanoseconds.
    slow: f64,
    /// Nanoseconds of the server's thread for each request.
    cost: f64,
}

/// Short runs in turns.
fn compare(servers: [&Server; 2], connections: usize) -> Option<[Load; 2]> {
    let mut loads: [Vec<Load>; 2] = Default::default();
    for round in 0..ROUNDS {
        for step in 0..2 {
            let side = (round + step) % 2;
            loads[side].push(wrk(servers[side], connections)?);
        }
    }
    // Whatever else runs on the machine takes something away and never gives any: of runs as long as
    // these, the least disturbed quarter compares better than the median.
    let best = |loads: &[Load], key: fn(&Load) -> f64| {
        let mut values: Vec<_> = loads.iter().map(key).collect();
        values.sort_by(f64::total_cmp);
        values[ROUNDS / 4]
    };
    Some(loads.map(|loads| Load {
        rate: -best(&loads, |load| -load.rate),
        slow: best(&loads, |load| load.slow),
        cost: best(&loads, |load| load.cost),
    }))
}

fn wrk(server: &Server, connections: usize) -> Option<Load> {
    let before = server.used()?;
    let output = Command::new("taskset")
        .args(["-c", LOAD, "wrk", "-t1", "-d1s", "--latency"])
        .arg(format!("-c{connections}"))
        .arg(format!("http://{}/", server.address))
        .output()
        .ok()?;
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(!report.contains("Non-2xx"), "everybody is served: {report}");
    let find = |title: &str| {
        let line = report
            .lines()
            .map(str::trim)
            .find(|line| line.starts_with(title))?;
        Some(line[title.len()..].trim().to_owned())
    };
    let (answered, _) = report.split_once(" requests in ")?;
    let answered: f64 = answered.split_whitespace().last()?.parse().ok()?;
    Some(Load {
        rate: find("Requests/sec:")?.parse().ok()?,
        slow: nanos(&find("99%")?)?,
        cost: (server.used()? - before) / answered,
    })
}

/// What `wrk` writes as `1.23ms`.
fn nanos(text: &str) -> Option<f64> {
    let split = text.find(|char: char| char.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(split);
    let unit = match unit {
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * unit)
}
