//! A server whose handler is the test, and clients of both protocols.

use std::{
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::{
    body::{Body, Incoming},
    client::conn::{http1, http2},
    rt::Executor,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
    task::{JoinHandle, yield_now},
    time::timeout,
};
use tower::{BoxError, Layer, Service, service_fn};
use tower_policy_queue::{PolicyQueueHandle, PolicyQueueLayer, Rejection, RequestBody, Usage};

use crate::common::{
    NoBody,
    desk::{get, policy},
    feed::{Broken, FedBody},
};

pub(crate) type Content = UnsyncBoxBody<Bytes, Broken>;
pub(crate) type Asked = UnsyncBoxBody<Bytes, BoxError>;
type Work = Box<dyn FnOnce(Request<Asked>) -> Response<Content> + Send>;

/// Bounds every wait; a passing test comes nowhere near it.
const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let outcome = timeout(DEADLINE, future).await;
    outcome.unwrap_or_else(|_| panic!("{what}: not within {DEADLINE:?}"))
}

pub(crate) fn content<B>(body: B) -> Content
where
    B: Body<Data = Bytes, Error = Broken> + Send + 'static,
{
    body.boxed_unsync()
}

pub(crate) fn text(text: &'static str) -> Content {
    FedBody::full(text).boxed_unsync()
}

/// A request that was admitted and waits for what the test does with it.
pub(crate) struct Order {
    pub(crate) path: String,
    work: oneshot::Sender<Work>,
}

impl Order {
    pub(crate) fn answer(self, body: Content) {
        self.serve(|_| Response::new(body));
    }

    /// Has the handler do this.
    pub(crate) fn serve(
        self,
        work: impl FnOnce(Request<Asked>) -> Response<Content> + Send + 'static,
    ) {
        self.work
            .send(Box::new(work))
            .ok()
            .expect("the handler is there");
    }

    /// Waits until the handler's future was dropped.
    pub(crate) async fn abandoned(mut self) {
        soon("the inner future is dropped", self.work.closed()).await;
    }
}

/// The requests that were admitted, in order.
pub(crate) struct Orders(mpsc::UnboundedReceiver<Order>);

impl Orders {
    pub(crate) async fn next(&mut self) -> Order {
        let next = soon("the next request is admitted", self.0.recv()).await;
        next.expect("the server is there")
    }

    pub(crate) fn none_now(&mut self) -> bool {
        self.0.try_recv().is_err()
    }
}

/// The handler: it has the test do its work.
#[derive(Clone)]
pub(crate) struct Handler {
    orders: mpsc::UnboundedSender<Order>,
}

impl<B> Service<Request<B>> for Handler
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response<Content>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Content>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let request = request.map(|body| body.map_err(Into::into).boxed_unsync());
        let (work, told) = oneshot::channel();
        let path = request.uri().path().trim_start_matches('/').to_owned();
        // A test that is over takes no more orders.
        let _ = self.orders.send(Order { path, work });
        Box::pin(async move {
            match told.await {
                Ok(work) => Ok(work(request)),
                Err(_) => std::future::pending().await,
            }
        })
    }
}

/// The handler, and what it is asked to do.
pub(crate) fn handler() -> (Handler, Orders) {
    let (orders, received) = mpsc::unbounded_channel();
    (Handler { orders }, Orders(received))
}

/// Serves on a port of its own, both protocols.
pub(crate) async fn serve<S, B>(service: S) -> SocketAddr
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    serve_as(service, |_| ()).await
}

/// The same by a server that is set up further.
async fn serve_as<S, B>(service: S, set_up: fn(&mut auto::Builder<TokioExecutor>)) -> SocketAddr
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(service.clone());
            tokio::spawn(async move {
                let mut builder = auto::Builder::new(TokioExecutor::new());
                builder.http1().auto_date_header(false);
                builder.http2().auto_date_header(false);
                set_up(&mut builder);
                let connection = TokioIo::new(stream);
                // A client that goes away is an error here, and the point of many tests.
                let _ = builder
                    .serve_connection_with_upgrades(connection, service)
                    .await;
            });
        }
    });
    address
}

/// A policy with one slot and one place in the queue.
pub(crate) const ONE_SLOT: &str =
    "dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 1}]";

/// A server behind the layer, with one slot and one place in the queue.
pub(crate) struct Stage {
    pub(crate) address: SocketAddr,
    pub(crate) orders: Orders,
    layer: PolicyQueueLayer,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with(ONE_SLOT).await
    }

    /// With a policy of its own.
    pub(crate) async fn with(yaml: &str) -> Self {
        Self::set_up(yaml, |_| ()).await
    }

    /// With a policy of its own, and room on an HTTP/2 connection for what all of its streams may
    /// have sent that nobody reads.
    pub(crate) async fn with_room(yaml: &str) -> Self {
        Self::set_up(yaml, |server| {
            server
                .http2()
                .max_concurrent_streams(200)
                .initial_stream_window_size(1 << 16)
                .initial_connection_window_size(1 << 24);
        })
        .await
    }

    async fn set_up(yaml: &str, set_up: fn(&mut auto::Builder<TokioExecutor>)) -> Self {
        let layer = PolicyQueueLayer::new(policy(yaml));
        let (handler, orders) = handler();
        let address = serve_as(layer.layer(handler), set_up).await;
        Self {
            address,
            orders,
            layer,
        }
    }

    pub(crate) fn handle(&self) -> PolicyQueueHandle {
        self.layer.handle()
    }

    /// What the layer has in hand.
    pub(crate) fn usage(&self) -> Usage {
        self.layer.handle().usage()
    }

    /// Waits until the layer has this in hand.
    pub(crate) async fn usage_soon(&self, what: &str, condition: impl Fn(Usage) -> bool) {
        soon(what, async {
            while !condition(self.usage()) {
                yield_now().await;
            }
        })
        .await;
    }

    /// What a request would meet that came now; it is taken back if it waits.
    fn probe(&self) -> Door {
        let answer = |_: Request<RequestBody<NoBody>>| async {
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
        };
        match self
            .layer
            .layer(service_fn(answer))
            .call(get("probe"))
            .now_or_never()
        {
            None => Door::Queue,
            Some(Ok(response)) if response.extensions().get::<Rejection>().is_some() => Door::Full,
            Some(_) => Door::Free,
        }
    }

    pub(crate) fn slot_is_taken(&self) -> bool {
        self.probe() != Door::Free
    }

    /// Waits until the slot is free.
    pub(crate) async fn slot_is_free_soon(&self) {
        self.until("the slot is free", Door::Free).await;
    }

    /// Waits until a request waits in the queue.
    pub(crate) async fn somebody_waits_soon(&self) {
        self.until("somebody waits", Door::Full).await;
    }

    /// Waits until nobody waits in the queue, with the slot still taken.
    pub(crate) async fn nobody_waits_soon(&self) {
        self.until("nobody waits", Door::Queue).await;
    }

    async fn until(&self, what: &str, door: Door) {
        soon(what, async {
            while self.probe() != door {
                yield_now().await;
            }
        })
        .await;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Free,
    Queue,
    Full,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

pub(crate) const PROTOCOLS: [Protocol; 2] = [Protocol::Http1, Protocol::Http2];

pub(crate) type Sent = JoinHandle<hyper::Result<Response<Incoming>>>;

/// The tasks of a connection, so that it can be closed from outside.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<Vec<JoinHandle<()>>>>);

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Tasks {
    fn execute(&self, future: F) {
        let task = tokio::spawn(async { drop(future.await) });
        self.0.lock().unwrap().push(task);
    }
}

enum Sender {
    Http1(http1::SendRequest<Content>),
    Http2(http2::SendRequest<Content>),
}

/// A connection of a client.
pub(crate) struct Connection {
    sender: Sender,
    tasks: Tasks,
}

impl Connection {
    pub(crate) async fn open(protocol: Protocol, address: SocketAddr) -> Self {
        let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let tasks = Tasks::default();
        let sender = match protocol {
            Protocol::Http1 => {
                let (sender, connection) = http1::handshake(stream).await.unwrap();
                tasks.execute(connection);
                Sender::Http1(sender)
            }
            Protocol::Http2 => {
                let handshake = http2::handshake(tasks.clone(), stream);
                let (sender, connection) = handshake.await.unwrap();
                tasks.execute(connection);
                Sender::Http2(sender)
            }
        };
        Self { sender, tasks }
    }

    /// Sends a request; its response's head comes with the handle.
    pub(crate) fn send(&mut self, method: Method, path: &str, body: impl Into<Bytes>) -> Sent {
        let body = Full::new(body.into()).map_err(|never| match never {});
        let request = Request::builder().method(method).uri(format!("/{path}"));
        self.send_request(request.body(content(body)).unwrap())
    }

    /// Sends a request that has a path and what is special about it.
    pub(crate) fn send_request(&mut self, mut request: Request<Content>) -> Sent {
        let path = request.uri().path();
        *request.uri_mut() = format!("http://test{path}").parse().unwrap();
        let headers = request.headers_mut();
        headers.insert("host", "test".parse().unwrap());
        headers.insert("te", "trailers".parse().unwrap());
        match &mut self.sender {
            Sender::Http1(sender) => tokio::spawn(sender.send_request(request)),
            Sender::Http2(sender) => tokio::spawn(sender.send_request(request)),
        }
    }

    /// Waits until the connection can take another request; it is still there then.
    pub(crate) async fn ready(&mut self) {
        let ready = async {
            match &mut self.sender {
                Sender::Http1(sender) => sender.ready().await,
                Sender::Http2(sender) => sender.ready().await,
            }
        };
        soon("the connection is ready", ready).await.unwrap();
    }

    pub(crate) fn get(&mut self, path: &str) -> Sent {
        self.send(Method::GET, path, "")
    }

    /// Closes the connection, whatever is under way on it.
    pub(crate) async fn close(self) {
        let tasks = std::mem::take(&mut *self.tasks.0.lock().unwrap());
        for task in tasks {
            task.abort();
            // The socket is closed once its task is gone.
            let _ = task.await;
        }
    }
}

/// The head of a response that is on its way.
pub(crate) async fn head(sent: Sent) -> Response<Incoming> {
    soon("the head of the response", sent)
        .await
        .unwrap()
        .unwrap()
}

/// Goes away from a request that has no response yet.
pub(crate) async fn forsake(sent: Sent) {
    sent.abort();
    assert!(sent.await.is_err(), "the response had not come");
}

pub(crate) async fn whole(body: Incoming) -> Bytes {
    soon("the end of the body", body.collect())
        .await
        .unwrap()
        .to_bytes()
}
