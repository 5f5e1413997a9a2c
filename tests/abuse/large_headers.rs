//! Headers of 64 kB: answered quickly, and nothing of them is kept.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderValue, Request};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tower::Layer;
use tower_policy_queue::PolicyQueueLayer;

use crate::{
    HUGE,
    common::{
        NoBody,
        desk::{get, policy},
    },
    crowd::Crowd,
    stage::{handler, soon, text},
};

const POLICY: &str = "
default_policy_family: std
uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
policy_classes:
  - {name: std, policy_family: std, cache_bucket: any, quantum: 100}
  - {name: pro, policy_family: pro, cache_bucket: any, quantum: 100}
dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 10000}]
endpoints: [{id: w1, dominion: pool, models: [m1]}, {id: w2, dominion: pool, models: [m1]}]
headers:
  policy: x-policy
  client: x-client
  model: x-model
  raw_isl_tokens: x-raw
  cached_tokens: x-cached
  strict_priority: x-tier
  priority_jump: x-jump
  worker: x-worker
  allowed_workers: x-allowed
";

/// Far more than any of it takes, and far less than work that is more than linear.
const QUICKLY: Duration = Duration::from_secs(60);

fn list(first: &str) -> String {
    // More than twenty thousand ids.
    let mut list = first.to_owned();
    while list.len() < HUGE {
        list.push_str(",w9");
    }
    list
}

/// Headers with a value of 64 kB, which says nothing, and those that are answered with an error.
fn said() -> Vec<(&'static str, String)> {
    vec![
        ("x-policy", "p".repeat(HUGE)),
        ("x-client", "c".repeat(HUGE)),
        ("x-model", "m".repeat(HUGE)),
        ("x-raw", "0".repeat(HUGE - 1) + "5"),
        ("x-cached", "0".repeat(HUGE)),
        ("x-tier", "0".repeat(HUGE)),
        ("x-jump", "0".repeat(HUGE)),
        ("x-allowed", list("w2")),
    ]
}

#[test]
fn hundreds_of_requests_with_large_headers_are_queued_and_served_quickly() {
    let started = Instant::now();
    let mut crowd = Crowd::new(POLICY);
    crowd.occupy(get("running"));
    let said = said();
    for number in 0..400 {
        // One after the other, as the list of workers alone takes a millisecond here.
        crowd.park(sent(number, &said[number % said.len()..][..1]));
    }
    let order = crowd.serve_all();
    assert_eq!(order.len(), 400);
    let listed = crowd.admission("7");
    assert_eq!(listed.worker(), Some("w2"), "the list of workers is obeyed");
    assert_eq!(crowd.usage(), Default::default());
    let took = started.elapsed();
    assert!(took < QUICKLY, "{took:?}");
}

#[test]
fn labels_that_are_too_long_are_one_and_the_same() {
    let mut crowd = Crowd::new(POLICY);
    crowd.occupy(get("running"));
    for number in 0..100 {
        let label = format!("{number}{}", "c".repeat(HUGE));
        crowd.park(sent(number, &[("x-client", label)]));
    }
    crowd.park(sent(100, &[("x-client", "honest".to_owned())]));
    assert_eq!(crowd.serve_next(), "0");
    assert_eq!(crowd.serve_next(), "100", "the other client's turn");
}

#[test]
#[cfg(target_os = "linux")]
fn parked_requests_with_large_headers_leave_no_copy_behind() {
    // The requests themselves share their values, so that what the memory grows by is the layer's.
    // Few ids, but long ones: quicker to look up, and no less to keep.
    let allowed = format!("w2,{}", "w".repeat(HUGE));
    let mut said = said();
    said.retain(|(name, _)| ["x-policy", "x-client", "x-model"].contains(name));
    said.push(("x-allowed", allowed));
    let headers = sent(0, &said).headers().clone();
    let mut crowd = Crowd::new(POLICY);
    crowd.occupy(get("running"));
    let mut park = |number: usize| {
        let mut request = get(&number.to_string());
        *request.headers_mut() = headers.clone();
        crowd.park(request);
    };
    (0..10).for_each(&mut park);
    let before = resident_bytes();
    (10..810).for_each(&mut park);
    let grown = resident_bytes().saturating_sub(before);
    // A copy of any one of them would be 50 MiB. The other tests of this process take some too.
    assert!(grown < 32 << 20, "{grown} bytes for 800 requests");
    drop(crowd);
}

#[cfg(target_os = "linux")]
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line
        .and_then(|line| line.split_whitespace().nth(1))
        .unwrap();
    kilobytes.parse::<usize>().unwrap() * 1024
}

fn sent(number: usize, headers: &[(&'static str, String)]) -> Request<NoBody> {
    let mut request = get(&number.to_string());
    for (name, value) in headers {
        // Clones of such a value share it.
        let value = HeaderValue::from_maybe_shared(Bytes::from(value.clone())).unwrap();
        request.headers_mut().insert(*name, value);
    }
    request
}

#[tokio::test]
async fn over_http_they_are_served_or_answered_in_few_bytes() {
    let layer = PolicyQueueLayer::new(policy(POLICY));
    let usage = {
        let handle = layer.handle();
        move || handle.usage()
    };
    let (handler, mut orders) = handler();
    let service = layer.layer(handler);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(service.clone());
            tokio::spawn(async move {
                let mut builder = auto::Builder::new(TokioExecutor::new());
                // All the headers at once are more than hyper takes by itself.
                builder.http1().max_buf_size(16 * HUGE);
                let _ = builder
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });

    let mut all = said();
    let one_by_one = all.clone().into_iter().map(|header| vec![header]);
    for headers in one_by_one.chain([all.clone()]) {
        let answer = tokio::spawn(ask(address, headers.clone()));
        orders.next().await.answer(text("served"));
        let (head, body) = soon("the answer", answer).await.unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(body.contains("served"));
    }

    // The same, and a mistake, or a worker that there is not.
    all.push(("x-worker", "w".repeat(HUGE)));
    let mut refused = vec![(all, 503, "no_eligible_worker")];
    for header in ["x-raw", "x-cached", "x-tier", "x-jump"] {
        let digits = (header, "9".repeat(HUGE));
        refused.push((vec![digits], 400, "invalid_queue_header"));
    }
    refused.push((vec![("x-allowed", list("w8"))], 503, "no_eligible_worker"));
    for (headers, status, code) in refused {
        let name = headers.last().unwrap().0;
        let answer = ask(address, headers);
        let (head, body) = soon("the answer", answer).await;
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status} ")),
            "{name}: {head}"
        );
        assert!(head.len() + body.len() < 1024, "{name}");
        let error: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(error["error"]["code"], code, "{name}");
    }
    assert!(orders.none_now());
    assert_eq!(usage(), Default::default());
}

/// Sends a request with these headers; head and body of the answer.
async fn ask(
    address: std::net::SocketAddr,
    headers: Vec<(&'static str, String)>,
) -> (String, String) {
    let mut request = "GET /large HTTP/1.1\r\nhost: test\r\nconnection: close\r\n".to_owned();
    for (name, value) in &headers {
        request += &format!("{name}: {value}\r\n");
    }
    request += "\r\n";
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (format!("{head}\r\n"), body.to_owned())
}
