//! Streams of events, in time that only the test moves.

use std::{task::Poll, time::Duration};

use http::{
    Method, Response, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use http_body::Body;
use serde_json::Value;
use tokio::time::advance;
use tower_policy_queue::status::{StatusBody, StatusService};

use crate::{POLICY, ask, common::bell::Polled, get, hall::Hall, page, snapshot};

/// As many streams as there may be.
const LIMIT: usize = 16;

type Stream = Polled<StatusBody>;

fn open(page: &mut StatusService) -> Stream {
    let response = get(page, "/events");
    assert_eq!(response.status(), StatusCode::OK);
    Polled::new(response.into_body())
}

/// What is there to be read right now.
fn next(stream: &mut Stream) -> Option<String> {
    match stream.poll_frame() {
        Poll::Ready(Some(frame)) => {
            let data = frame.unwrap().into_data().unwrap();
            Some(String::from_utf8(data.into()).unwrap())
        }
        Poll::Ready(None) => panic!("the stream has ended"),
        Poll::Pending => None,
    }
}

fn has_ended(stream: &mut Stream) -> bool {
    stream.inner.is_end_stream() && matches!(stream.poll_frame(), Poll::Ready(None))
}

/// The snapshot of an event, which is one line of data.
fn data(event: &str) -> Value {
    let data = event.strip_prefix("data: ").unwrap();
    let data = data.strip_suffix("\n\n").unwrap();
    assert!(!data.contains('\n'));
    serde_json::from_str(data).unwrap()
}

async fn pass(milliseconds: u64) {
    advance(Duration::from_millis(milliseconds)).await;
}

fn is_refused(response: &Response<StatusBody>) -> bool {
    let refused = response.status() == StatusCode::SERVICE_UNAVAILABLE;
    assert_eq!(refused, response.headers().contains_key(RETRY_AFTER));
    refused
}

#[tokio::test(start_paused = true)]
async fn the_first_event_comes_at_once_and_says_when_to_come_back() {
    let hall = Hall::new(POLICY);
    let mut stream = open(&mut page(&hall));
    let first = next(&mut stream).unwrap();
    let rest = first.strip_prefix("retry: 2000\n\n").unwrap();
    assert_eq!(data(rest), snapshot(&hall));
    assert_eq!(next(&mut stream), None);
}

#[tokio::test(start_paused = true)]
async fn one_event_comes_each_second_and_wakes_its_reader() {
    let mut hall = Hall::new(POLICY);
    let mut stream = open(&mut page(&hall));
    next(&mut stream).unwrap();
    for second in 1..=5 {
        assert_eq!(next(&mut stream), None);
        let rings = stream.rings();
        pass(999).await;
        assert_eq!(next(&mut stream), None, "not before second {second}");
        hall.arrive(&second.to_string());
        pass(1).await;
        assert!(stream.rings() > rings, "second {second} wakes");
        let event = data(&next(&mut stream).unwrap());
        assert_eq!(event, snapshot(&hall));
        assert_eq!(event["usage"]["waiting"], second - 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_was_slow_gets_the_newest_and_no_heap_of_old_ones() {
    let mut hall = Hall::new(POLICY);
    let mut stream = open(&mut page(&hall));
    next(&mut stream).unwrap();
    pass(60_000).await;
    hall.arrive("late");
    let event = data(&next(&mut stream).unwrap());
    assert_eq!(event["usage"]["slots_in_use"], 1);
    assert_eq!(next(&mut stream), None);
    pass(1000).await;
    assert!(next(&mut stream).is_some());
}

#[tokio::test(start_paused = true)]
async fn who_comes_back_after_a_drop_is_told_at_once() {
    let mut hall = Hall::new(POLICY);
    let page = &mut page(&hall);
    let mut stream = open(page);
    next(&mut stream).unwrap();
    pass(300).await;
    drop(stream);
    hall.arrive("meanwhile");
    let mut stream = open(page);
    let first = next(&mut stream).unwrap();
    let event = data(first.strip_prefix("retry: 2000\n\n").unwrap());
    assert_eq!(event["usage"]["slots_in_use"], 1);
}

#[tokio::test(start_paused = true)]
async fn there_are_at_most_sixteen_streams_over_all_clones() {
    let hall = Hall::new(POLICY);
    let mut pages = [page(&hall), page(&hall)];
    pages[1] = pages[0].clone();
    let mut streams: Vec<_> = (0..LIMIT).map(|n| open(&mut pages[n % 2])).collect();
    for page in &mut pages {
        assert!(is_refused(&get(page, "/events")));
        assert!(is_refused(&ask(page, Method::HEAD, "/events")));
        // The rest of the page goes on.
        assert_eq!(get(page, "/").status(), StatusCode::OK);
        assert_eq!(get(page, "/snapshot.json").status(), StatusCode::OK);
    }
    for stream in &mut streams {
        assert!(next(stream).is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_stream_frees_its_place_whether_it_was_read_or_not() {
    let hall = Hall::new(POLICY);
    let page = &mut page(&hall);
    let mut streams: Vec<_> = (0..LIMIT).map(|_| open(page)).collect();
    next(&mut streams[0]).unwrap();
    for _ in 0..3 {
        // The one that was read, and one that never was.
        streams.truncate(LIMIT - 1);
        streams.swap_remove(0);
        streams.extend([open(page), open(page)]);
        assert!(is_refused(&get(page, "/events")));
    }
    drop(streams);
    let again: Vec<_> = (0..LIMIT).map(|_| open(page)).collect();
    assert_eq!(again.len(), LIMIT);
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_with_head_takes_no_place() {
    let hall = Hall::new(POLICY);
    let page = &mut page(&hall);
    let heads: Vec<_> = (0..3 * LIMIT)
        .map(|_| ask(page, Method::HEAD, "/events"))
        .collect();
    for head in &heads {
        assert_eq!(head.status(), StatusCode::OK);
        assert_eq!(head.headers()[CONTENT_TYPE], "text/event-stream");
    }
    assert!(!is_refused(&get(page, "/events")));
}

#[tokio::test(start_paused = true)]
async fn a_stream_holds_nothing_of_the_layer_up() {
    let mut hall = Hall::new(POLICY);
    let mut stream = open(&mut page(&hall));
    next(&mut stream).unwrap();
    hall.arrive("runs");
    hall.arrive("waits");
    hall.leave("runs");
    assert_eq!(hall.states(["waits"]), ["running"]);
    hall.finish("waits");
    assert_eq!(hall.counts(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_once_the_queues_are_closed_and_all_is_done() {
    let mut hall = Hall::new(POLICY);
    let page = &mut page(&hall);
    let mut stream = open(page);
    next(&mut stream).unwrap();
    hall.arrive("runs");
    hall.handle.shutdown();
    pass(1000).await;
    let draining = data(&next(&mut stream).unwrap());
    assert_eq!(draining["usage"]["slots_in_use"], 1);
    assert!(!stream.inner.is_end_stream());

    hall.finish("runs");
    pass(1000).await;
    let last = data(&next(&mut stream).unwrap());
    assert_eq!(last["usage"]["slots_in_use"], 0);
    assert_eq!(last["dominions"][0]["closed"], true);
    assert!(has_ended(&mut stream));
    // Its place is free, though the body is still there.
    let others: Vec<_> = (0..LIMIT).map(|_| open(page)).collect();
    drop((stream, others));

    let mut late = open(page);
    assert!(next(&mut late).is_some());
    assert!(has_ended(&mut late));
}

#[test]
fn a_service_may_be_called_without_a_runtime() {
    let hall = Hall::new(POLICY);
    let stream = open(&mut page(&hall));
    assert!(!stream.inner.is_end_stream());
}
