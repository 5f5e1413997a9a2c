//! Upgraded connections: the 101 response has no body, and the session goes on after it.

use http::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tower_policy_queue::{Admission, Hold};

use crate::{
    common::feed::FedBody,
    stage::{Order, Stage, content, soon},
};

/// Switches protocols, and echoes on the upgraded connection.
fn switch(order: Order, hold: bool) {
    order.serve(move |mut request| {
        let upgrade = hyper::upgrade::on(&mut request);
        let admission: &Admission = request.extensions().get().unwrap();
        let hold: Option<Hold> = hold.then(|| admission.hold());
        tokio::spawn(async move {
            let _slot = hold;
            let (mut read, mut write) = tokio::io::split(TokioIo::new(upgrade.await.unwrap()));
            // Ends with the connection, however it ends.
            let _ = tokio::io::copy(&mut read, &mut write).await;
        });
        let mut response = Response::new(content(FedBody::empty()));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response
            .headers_mut()
            .insert("connection", "upgrade".parse().unwrap());
        response
            .headers_mut()
            .insert("upgrade", "echo".parse().unwrap());
        response
    });
}

/// Asks for the upgrade, and waits until an echo comes back.
async fn talk(stage: &mut Stage, hold: bool) -> TcpStream {
    let mut socket = TcpStream::connect(stage.address).await.unwrap();
    let request =
        b"GET /session HTTP/1.1\r\nhost: test\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
    socket.write_all(request).await.unwrap();
    switch(stage.orders.next().await, hold);

    let mut heard = Vec::new();
    soon("the head", async {
        while !heard.ends_with(b"\r\n\r\n") {
            heard.push(socket.read_u8().await.unwrap());
        }
    })
    .await;
    assert!(
        heard.starts_with(b"HTTP/1.1 101"),
        "{}",
        String::from_utf8_lossy(&heard)
    );
    socket.write_all(b"hello").await.unwrap();
    let mut echo = [0; 5];
    soon("the echo", socket.read_exact(&mut echo))
        .await
        .unwrap();
    assert_eq!(&echo, b"hello");
    socket
}

#[tokio::test]
async fn a_session_that_holds_its_slot_keeps_it_until_the_socket_closes() {
    let mut stage = Stage::new().await;
    let socket = talk(&mut stage, true).await;
    assert!(stage.slot_is_taken(), "the session goes on, and counts");
    drop(socket);
    stage.slot_is_free_soon().await;
}

#[tokio::test]
async fn a_session_without_a_hold_gives_its_slot_back_with_the_101() {
    let mut stage = Stage::new().await;
    let _socket = talk(&mut stage, false).await;
    assert!(!stage.slot_is_taken());
}
