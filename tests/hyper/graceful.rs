//! A graceful shutdown serves who is queued.

use http::Request;
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::{conn::auto, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use tokio::{net::TcpListener, task::yield_now};
use tower::Layer;
use tower_policy_queue::{PolicyQueueLayer, QueueHints};

use crate::{
    common::desk::policy,
    stage::{Connection, PROTOCOLS, handler, head, soon, text, whole},
};

#[tokio::test]
async fn who_waits_when_the_server_stops_accepting_is_still_served() {
    for protocol in PROTOCOLS {
        let yaml = "dominions: [{id: pool, kind: remote, max_concurrency: 1}]";
        let arrived = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = std::sync::Arc::clone(&arrived);
        let layer = PolicyQueueLayer::new(policy(yaml)).classifier(move |_: &Request<Incoming>| {
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            QueueHints::default()
        });
        let (handler, mut orders) = handler();
        let service = layer.layer(handler);
        drop(layer);

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let graceful = GracefulShutdown::new();
        let accepted = async {
            let builder = auto::Builder::new(TokioExecutor::new());
            for _ in 0..2 {
                let (stream, _) = listener.accept().await.unwrap();
                let service = TowerToHyperService::new(service.clone());
                let connection = builder.serve_connection(TokioIo::new(stream), service);
                let connection = graceful.watch(connection.into_owned());
                tokio::spawn(async move { drop(connection.await) });
            }
        };
        let opened = async {
            (
                Connection::open(protocol, address).await,
                Connection::open(protocol, address).await,
            )
        };
        let ((), (mut client, mut other)) = tokio::join!(accepted, opened);

        let first = client.get("first");
        let order = orders.next().await;
        let second = other.get("second");
        soon("the second arrives", async {
            while arrived.load(std::sync::atomic::Ordering::SeqCst) < 2 {
                yield_now().await;
            }
        })
        .await;

        // From here on the connections alone keep the queue.
        drop((service, listener));
        let stopped = tokio::spawn(graceful.shutdown());
        order.answer(text("first"));
        assert_eq!(
            whole(head(first).await.into_body()).await,
            "first",
            "{protocol:?}"
        );
        orders.next().await.answer(text("second"));
        assert_eq!(
            whole(head(second).await.into_body()).await,
            "second",
            "{protocol:?}"
        );
        soon("the server has stopped", stopped).await.unwrap();
    }
}
