//! Under real hyper, on the loopback interface.

use axum::{Router, body::Body, http::Request, response::Response, routing::post};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tower_policy_queue::{QueueHints, openai::OpenAiHintsLayer};

use crate::CHAT;

const LIMIT: usize = 100_000;

async fn echo(request: Request<Body>) -> Response {
    let hints: QueueHints = request.extensions().get().cloned().unwrap();
    Response::builder()
        .header("x-model", hints.model.unwrap())
        .header("x-tokens", hints.raw_isl_tokens.unwrap())
        .header("x-length", &request.headers()["content-length"])
        .body(request.into_body())
        .unwrap()
}

/// Serves one connection after the other, and says where.
async fn serve() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let layer = OpenAiHintsLayer::new().max_body_bytes(LIMIT);
    let app = Router::new().route(CHAT, post(echo)).layer(layer);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = TowerToHyperService::new(app.clone());
            let server = auto::Builder::new(TokioExecutor::new());
            // A client that goes away is not the server's mistake.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        }
    });
    format!("http://{address}{CHAT}")
}

async fn send(http2: bool, body: Bytes) -> (http::response::Parts, Bytes) {
    let client = Client::builder(TokioExecutor::new())
        .http2_only(http2)
        .build_http::<Full<Bytes>>();
    let request = Request::post(serve().await).body(Full::new(body)).unwrap();
    let (head, body) = client.request(request).await.unwrap().into_parts();
    (head, body.collect().await.unwrap().to_bytes())
}

#[tokio::test]
async fn a_body_of_many_frames_is_read_and_goes_on() {
    let content = "a".repeat(LIMIT / 2);
    let body = json!({"model": "m", "messages": [{"role": "user", "content": content}]});
    let body = Bytes::from(body.to_string());
    for http2 in [false, true] {
        let (head, echoed) = send(http2, body.clone()).await;
        assert_eq!(head.status, 200);
        assert_eq!(head.headers["x-model"], "m");
        assert_eq!(head.headers["x-tokens"], (LIMIT / 8 + 4).to_string());
        assert_eq!(head.headers["x-length"], body.len().to_string());
        assert_eq!(echoed, body);
    }
}

#[tokio::test]
async fn errors_are_answers_that_clients_can_read() {
    // Little enough to be sent before the answer comes.
    let long = Bytes::from(vec![b' '; LIMIT + 1]);
    for (body, status) in [(long, 413), (Bytes::from("nonsense"), 400)] {
        let (head, answer) = send(true, body).await;
        assert_eq!(head.status, status);
        assert_eq!(head.headers["content-length"], answer.len().to_string());
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert!(answer["error"]["message"].is_string());
    }
}
