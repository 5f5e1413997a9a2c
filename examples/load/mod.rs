//! What the examples that put the layer under load share: a plain hyper server, the memory of their own
//! process, and histograms of waits, in bounded memory.

#![allow(dead_code, reason = "each example uses a part of it")]

use std::{fmt, fs, str::FromStr, time::Duration};

use bytes::Bytes;
use hdrhistogram::Histogram;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::net::TcpListener;
use tower::Service;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Serves HTTP/1 and HTTP/2, each connection in its own task.
pub(crate) async fn serve<S, B>(listener: TcpListener, service: S)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error: Into<BoxError>, Future: Send>
        + Clone
        + Send
        + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let mut server = auto::Builder::new(TokioExecutor::new());
    server
        .http2()
        .max_concurrent_streams(None)
        // Clients that go away are what is tested here; hyper would take so many of them for an attack.
        .max_pending_accept_reset_streams(usize::MAX >> 1)
        .max_local_error_reset_streams(None);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Most likely out of file descriptors: some will become free.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        // There are many small frames: none should wait until the one before is acknowledged.
        drop(stream.set_nodelay(true));
        let service = TowerToHyperService::new(service.clone());
        let server = server.clone();
        tokio::spawn(async move {
            // Ends with an error whenever a handler fails or a client goes away.
            drop(server.serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

/// The value behind `--name` on the command line.
pub(crate) fn argument<T>(name: &str) -> Result<Option<T>, BoxError>
where
    T: FromStr<Err: fmt::Display>,
{
    let mut arguments = std::env::args().skip_while(|it| it != name).skip(1);
    if !std::env::args().any(|it| it == name) {
        return Ok(None);
    }
    let value = arguments
        .next()
        .ok_or_else(|| format!("{name} needs a value"))?;
    let value = value
        .parse()
        .map_err(|error| format!("{name} {value}: {error}"))?;
    Ok(Some(value))
}

/// The memory of this process in bytes, as Linux counts it; `None` on other systems.
pub(crate) fn resident() -> Option<u64> {
    status("VmRSS:")
}

/// The peak of the same.
pub(crate) fn peak_resident() -> Option<u64> {
    status("VmHWM:")
}

fn status(key: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// A histogram of durations of up to ten minutes, accurate to a hundredth.
#[derive(Clone)]
pub(crate) struct Waits(Histogram<u64>);

impl Waits {
    pub(crate) fn new() -> Result<Self, BoxError> {
        Ok(Self(Histogram::new_with_max(600_000_000, 2)?))
    }

    pub(crate) fn add(&mut self, wait: Duration) {
        let micros = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        self.0.saturating_record(micros);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// In milliseconds; `None` if there are no durations.
    pub(crate) fn quantile(&self, quantile: f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(quantile) as f64 / 1e3)
    }
}
