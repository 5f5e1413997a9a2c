//! Below a router, and on a connection.

use std::time::Duration;

use axum::{Router, body::Body, extract::Request};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use tokio::{io::duplex, task::yield_now, time::advance};
use tower::{ServiceExt, service_fn};

use crate::{POLICY, hall::Hall, page};

async fn asked(app: &Router, method: Method, path: &str) -> (StatusCode, Vec<u8>) {
    let request = Request::builder().method(method).uri(path);
    let request = request.body(Body::empty()).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, body.to_vec())
}

#[tokio::test]
async fn the_page_is_there_with_and_without_a_slash_below_any_prefix() {
    let hall = Hall::new(POLICY);
    let nested = Router::new().nest_service("/status", page(&hall));
    let deeper = Router::new().nest("/admin/queues", nested.clone());
    let alone = Router::new().fallback_service(page(&hall));
    for (app, places) in [
        (nested, ["/status", "/status/"]),
        (deeper, ["/admin/queues/status", "/admin/queues/status/"]),
        (alone, ["/", "/"]),
    ] {
        for place in places {
            let (status, body) = asked(&app, Method::GET, place).await;
            assert_eq!(status, StatusCode::OK, "{place}");
            let html = String::from_utf8(body).unwrap();
            // As a browser resolves them: a query alone leaves the path as it is.
            for (_, rest) in html
                .match_indices("=\"?")
                .map(|(at, _)| html.split_at(at + 2))
            {
                let query = rest.split('"').next().unwrap();
                let (status, file) = asked(&app, Method::GET, &format!("{place}{query}")).await;
                assert_eq!(status, StatusCode::OK, "{place}{query}");
                assert_ne!(file, html.as_bytes(), "{place}{query}");
            }
            let base = place.trim_end_matches('/');
            let (status, json) = asked(&app, Method::GET, &format!("{base}/snapshot.json")).await;
            assert_eq!(status, StatusCode::OK, "{base}");
            assert!(json.starts_with(b"{\"dominions\":["));
            let (status, nothing) = asked(&app, Method::HEAD, &format!("{base}/events")).await;
            assert_eq!((status, nothing.len()), (StatusCode::OK, 0));
            let (status, _) = asked(&app, Method::GET, &format!("{base}/nothing")).await;
            assert_eq!(status, StatusCode::NOT_FOUND);
        }
    }
}

/// Over a real connection, whose client goes away without a word.
#[tokio::test(start_paused = true)]
async fn a_client_that_hangs_up_frees_its_place() {
    let hall = Hall::new(POLICY);
    let page = page(&hall);
    let mut connections = Vec::new();
    for _ in 0..16 {
        let (near, far) = duplex(64 * 1024);
        let page = page.clone();
        let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
            page.clone().oneshot(request)
        });
        let service = hyper_util::service::TowerToHyperService::new(service);
        let server = hyper::server::conn::http1::Builder::new();
        let server = server.serve_connection(TokioIo::new(far), service);
        let server = tokio::spawn(server);
        let (mut client, driver) = hyper::client::conn::http1::handshake(TokioIo::new(near))
            .await
            .unwrap();
        let driver = tokio::spawn(driver);
        let request = http::Request::get("/events").body(crate::common::NoBody::new());
        let mut response = client.send_request(request.unwrap()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert!(response.frame().await.unwrap().is_ok());
        connections.push((response, client, driver, server));
    }
    let full = || crate::get(&mut page.clone(), "/events").status();
    assert_eq!(full(), StatusCode::SERVICE_UNAVAILABLE);

    let (response, client, driver, server) = connections.pop().unwrap();
    driver.abort();
    drop((response, client, driver));
    // At the next event, at the latest.
    advance(Duration::from_secs(1)).await;
    while !server.is_finished() {
        yield_now().await;
    }
    assert_eq!(full(), StatusCode::OK);
}
