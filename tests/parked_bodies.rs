//! Bodies read while their requests are parked: what is read, how much, and what the inner service
//! gets.

#![allow(clippy::unwrap_used)]

mod common;

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::{Future, pending},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use common::{
    bell::Polled,
    desk::policy,
    feed::{Broken, FedBody, Feed},
    json,
};
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use tower::{Layer, Service, service_fn, util::BoxCloneSyncService};
use tower_policy_queue::{PolicyQueueLayer, RequestBody, ResponseBody, Usage};

type Answer = Response<ResponseBody<FedBody>>;
type Guest = Polled<Pin<Box<dyn Future<Output = Answer> + Send>>>;

/// An inner service that keeps the bodies it gets, behind a layer with one slot.
struct Shelf<B: Body> {
    layer: PolicyQueueLayer,
    service: BoxCloneSyncService<Request<B>, Answer, Infallible>,
    bodies: Arc<Mutex<VecDeque<RequestBody<B>>>>,
}

impl<B> Shelf<B>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Send,
{
    fn new(yaml: &str) -> Self {
        let dominion = "dominions: [{id: pool, kind: remote, max_concurrency: 1}]";
        Self::behind(&format!("{dominion}\n{yaml}"))
    }

    fn behind(yaml: &str) -> Self {
        let layer = PolicyQueueLayer::new(policy(yaml));
        let bodies = Arc::<Mutex<VecDeque<_>>>::default();
        let shelf = Arc::clone(&bodies);
        let inner = service_fn(move |request: Request<RequestBody<B>>| {
            shelf.lock().unwrap().push_back(request.into_body());
            pending::<Result<Response<FedBody>, Infallible>>()
        });
        Self {
            service: BoxCloneSyncService::new(layer.layer(inner)),
            layer,
            bodies,
        }
    }

    /// A request with this body arrives, and is polled once.
    fn send(&mut self, body: B) -> Guest {
        let future = self.service.call(Request::new(body));
        let mut guest: Guest =
            Polled::new(Box::pin(async move { future.await.unwrap() }) as Pin<Box<_>>);
        assert!(guest.poll().is_pending());
        guest
    }

    /// The body that the inner service got next.
    fn take(&self) -> Polled<RequestBody<B>> {
        let body = self.bodies.lock().unwrap().pop_front();
        Polled::new(body.expect("a request reached the inner service"))
    }

    fn reached(&self) -> usize {
        self.bodies.lock().unwrap().len()
    }

    fn usage(&self) -> Usage {
        self.layer.handle().usage()
    }

    /// Bytes read ahead now.
    fn ahead(&self) -> usize {
        self.usage().read_ahead_bytes
    }
}

/// A parked request with a body that is fed, behind one that has the slot.
fn parked(yaml: &str) -> (Shelf<FedBody>, Guest, Guest, Feed) {
    let mut shelf = Shelf::new(yaml);
    let running = shelf.send(FedBody::empty());
    let _ = shelf.take();
    let feed = Feed::new();
    let guest = shelf.send(feed.body());
    (shelf, running, guest, feed)
}

/// Polls a guest that was woken since it was polled last.
fn wake(guest: &mut Guest, rings: usize) {
    assert_eq!(
        guest.rings(),
        rings,
        "it is woken by what it waits for, each time once"
    );
    assert!(guest.poll().is_pending());
}

/// What comes next of a body: its data, `(trailers)`, `(error)`, `(end)`, or `(nothing yet)`.
fn next<B>(body: &mut Polled<RequestBody<B>>) -> String
where
    B: Body<Data = Bytes>,
{
    match body.poll_frame() {
        Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
            Ok(data) => String::from_utf8(data.to_vec()).unwrap(),
            Err(_) => "(trailers)".to_owned(),
        },
        Poll::Ready(Some(Err(_))) => "(error)".to_owned(),
        Poll::Ready(None) => "(end)".to_owned(),
        Poll::Pending => "(nothing yet)".to_owned(),
    }
}

/// A body of a known length, which counts how often it is polled.
struct Exact {
    feed: FedBody,
    left: u64,
    polls: Arc<AtomicUsize>,
}

impl Body for Exact {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        self.polls.fetch_add(1, Ordering::SeqCst);
        let frame = Pin::new(&mut self.feed).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            self.left -= frame.data_ref().map_or(0, Bytes::len) as u64;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

fn exact(feed: &Feed, length: u64) -> (Exact, Arc<AtomicUsize>) {
    let polls = Arc::<AtomicUsize>::default();
    let body = Exact {
        feed: feed.body(),
        left: length,
        polls: Arc::clone(&polls),
    };
    (body, polls)
}

fn hint<B: Body>(body: &Polled<RequestBody<B>>) -> (u64, Option<u64>) {
    let hint = body.inner.size_hint();
    (hint.lower(), hint.upper())
}

#[test]
fn the_inner_service_gets_the_same_frames_in_the_same_order() {
    let (shelf, running, mut guest, feed) = parked("");
    feed.data("one");
    wake(&mut guest, 1);
    assert_eq!(shelf.ahead(), 3, "it is read as it comes");
    feed.data("two");
    feed.data("");
    feed.trailers();
    wake(&mut guest, 2);
    assert_eq!(shelf.ahead(), 6);
    feed.end();
    wake(&mut guest, 3);

    drop(running);
    wake(&mut guest, 4);
    let mut body = shelf.take();
    assert_eq!(shelf.ahead(), 6, "it is still held");
    for frame in ["one", "two", "", "(trailers)", "(end)", "(end)"] {
        assert_eq!(next(&mut body), frame);
    }
    assert_eq!(shelf.ahead(), 0, "and no more once it was handed on");
}

#[test]
fn what_comes_after_the_grant_follows_what_was_read_before() {
    let (shelf, running, mut guest, feed) = parked("");
    feed.data("early");
    wake(&mut guest, 1);
    drop(running);
    wake(&mut guest, 2);
    let mut body = shelf.take();
    feed.data("late");
    feed.trailers();
    assert_eq!(next(&mut body), "early");
    assert_eq!(shelf.ahead(), 0);
    assert_eq!(next(&mut body), "late");
    assert_eq!(next(&mut body), "(trailers)");
    assert_eq!(next(&mut body), "(nothing yet)");
    feed.end();
    assert_eq!(body.rings(), 1, "it is the inner service that is woken now");
    assert_eq!(next(&mut body), "(end)");
    assert_eq!(shelf.ahead(), 0, "nothing of that was read ahead");
}

#[test]
fn a_body_read_to_its_end_tells_its_length_and_its_end() {
    let (shelf, running, mut guest, feed) = parked("");
    feed.data("12345");
    feed.data("678");
    feed.end();
    wake(&mut guest, 1);
    drop(running);
    wake(&mut guest, 2);
    let mut body = shelf.take();
    for (left, frame) in [(8, "12345"), (3, "678")] {
        assert_eq!(hint(&body), (left, Some(left)));
        assert!(!body.inner.is_end_stream(), "{frame} is to come");
        assert_eq!(next(&mut body), frame);
    }
    assert_eq!(hint(&body), (0, Some(0)));
    assert!(body.inner.is_end_stream());
    assert_eq!(next(&mut body), "(end)");
}

#[test]
fn trailers_that_were_read_are_still_to_come() {
    let (shelf, running, mut guest, feed) = parked("");
    feed.trailers();
    feed.end();
    wake(&mut guest, 1);
    drop(running);
    wake(&mut guest, 2);
    let mut body = shelf.take();
    assert!(
        !body.inner.is_end_stream(),
        "a body with trailers has not ended"
    );
    assert_eq!(
        hint(&body),
        (0, None),
        "who sends a length in HTTP/1 sends no trailers"
    );
    assert_eq!(next(&mut body), "(trailers)");
    assert_eq!(hint(&body), (0, Some(0)));
    assert!(body.inner.is_end_stream());
}

#[test]
fn a_body_of_unknown_length_promises_no_more_than_was_read() {
    let (shelf, running, mut guest, feed) = parked("");
    feed.data("12345");
    wake(&mut guest, 1);
    drop(running);
    wake(&mut guest, 2);
    let mut body = shelf.take();
    assert_eq!(hint(&body), (5, None));
    assert_eq!(next(&mut body), "12345");
    assert_eq!(hint(&body), (0, None));
    assert!(!body.inner.is_end_stream());
}

#[test]
fn a_body_of_known_length_keeps_it_however_much_was_read() {
    let mut shelf = Shelf::<Exact>::new("");
    let running = shelf.send(exact(&Feed::new(), 0).0);
    drop(shelf.take());
    let feed = Feed::new();
    let mut guest = shelf.send(exact(&feed, 10).0);
    feed.data("1234");
    wake(&mut guest, 1);
    drop(running);
    wake(&mut guest, 2);
    let mut body = shelf.take();
    feed.data("567890");
    for (left, frame) in [(10, "1234"), (6, "567890")] {
        assert_eq!(hint(&body), (left, Some(left)));
        assert!(!body.inner.is_end_stream());
        assert_eq!(next(&mut body), frame);
    }
    assert_eq!(hint(&body), (0, Some(0)));
    assert!(body.inner.is_end_stream());
}

#[test]
fn a_request_that_starts_at_once_is_not_read_ahead() {
    let mut shelf = Shelf::<Exact>::new("");
    let feed = Feed::new();
    let (body, polls) = exact(&feed, 3);
    feed.data("abc");
    let _running = shelf.send(body);
    let mut body = shelf.take();
    assert_eq!(polls.load(Ordering::SeqCst), 0, "its body is untouched");
    assert_eq!((shelf.ahead(), hint(&body)), (0, (3, Some(3))));
    assert_eq!(next(&mut body), "abc");
    assert!(body.inner.is_end_stream());
}

#[test]
fn a_body_that_has_ended_already_is_never_polled() {
    let mut shelf = Shelf::<Exact>::new("");
    let running = shelf.send(exact(&Feed::new(), 0).0);
    drop(shelf.take());
    let (body, polls) = exact(&Feed::new(), 0);
    let mut guest = shelf.send(body);
    drop(running);
    wake(&mut guest, 1);
    let body = shelf.take();
    assert_eq!(polls.load(Ordering::SeqCst), 0);
    assert!(body.inner.is_end_stream());
    assert_eq!(hint(&body), (0, Some(0)));
}

#[test]
fn no_more_of_one_request_is_read_than_its_limit_and_the_frame_that_crosses_it() {
    let (shelf, running, mut guest, feed) = parked("read_ahead_bytes: 8");
    for _ in 0..4 {
        feed.data("12345");
    }
    wake(&mut guest, 1);
    assert_eq!(shelf.ahead(), 10, "5 are not enough, 10 are");
    feed.data("12345");
    assert_eq!(guest.rings(), 1, "nobody listens to it any more");
    drop(running);
    wake(&mut guest, 2);
    let mut body = shelf.take();
    feed.end();
    for _ in 0..5 {
        assert_eq!(next(&mut body), "12345", "nothing is lost");
    }
    assert_eq!(next(&mut body), "(end)");
    assert_eq!(shelf.ahead(), 0);
}

#[test]
fn a_limit_that_is_reached_exactly_is_reached() {
    let (shelf, _running, mut guest, feed) = parked("read_ahead_bytes: 5");
    feed.data("12345");
    feed.data("6");
    wake(&mut guest, 1);
    assert_eq!(shelf.ahead(), 5);
}

#[test]
fn a_limit_of_nothing_turns_it_off() {
    let mut shelf = Shelf::<Exact>::new("read_ahead_bytes: 0");
    let running = shelf.send(exact(&Feed::new(), 0).0);
    drop(shelf.take());
    let feed = Feed::new();
    let (body, polls) = exact(&feed, 3);
    feed.data("abc");
    let mut guest = shelf.send(body);
    assert_eq!(polls.load(Ordering::SeqCst), 0);
    assert_eq!(shelf.ahead(), 0);
    drop(running);
    wake(&mut guest, 1);
    assert_eq!(next(&mut shelf.take()), "abc");
}

#[test]
fn small_frames_are_read_up_to_a_number_of_them() {
    for (text, least) in [("x", 1), ("", 0)] {
        let (shelf, running, mut guest, feed) = parked("");
        for _ in 0..5000 {
            feed.data(text);
        }
        wake(&mut guest, 1);
        assert_eq!(
            shelf.ahead(),
            1024 * least,
            "each takes up more memory than its bytes"
        );
        drop(running);
        wake(&mut guest, 2);
        let mut body = shelf.take();
        feed.end();
        for _ in 0..5000 {
            assert_eq!(next(&mut body), text, "nothing is lost");
        }
        assert_eq!(next(&mut body), "(end)");
    }
}

#[test]
fn beyond_the_total_reading_pauses_and_goes_on_as_room_returns() {
    let (mut shelf, _running, mut first, first_feed) = parked("read_ahead_total_bytes: 8");
    first_feed.data("12345678");
    wake(&mut first, 1);
    let second_feed = Feed::new();
    second_feed.data("abc");
    second_feed.data("def");
    let mut second = shelf.send(second_feed.body());
    assert_eq!(shelf.ahead(), 8, "there is no room for it");
    assert_eq!(second.rings(), 0);
    drop(first);
    wake(&mut second, 1);
    assert_eq!(shelf.ahead(), 6, "there is now");
    drop(second);
    assert_eq!(shelf.ahead(), 0);
}

#[test]
fn room_returns_with_each_frame_that_the_inner_service_takes() {
    let (mut shelf, running, mut first, first_feed) = parked("read_ahead_total_bytes: 4");
    first_feed.data("12");
    first_feed.data("34");
    wake(&mut first, 1);
    let second_feed = Feed::new();
    second_feed.data("ab");
    second_feed.data("cd");
    let mut second = shelf.send(second_feed.body());
    assert_eq!(shelf.ahead(), 4);
    drop(running);
    wake(&mut first, 2);
    assert_eq!(second.rings(), 0, "a grant alone makes no room");
    let mut body = shelf.take();
    assert_eq!(next(&mut body), "12");
    wake(&mut second, 1);
    assert_eq!(shelf.ahead(), 4, "34 and ab");
    assert_eq!(next(&mut body), "34");
    wake(&mut second, 2);
    assert_eq!(shelf.ahead(), 4, "ab and cd");
}

#[test]
fn room_goes_to_who_waits_for_it_longest() {
    let (mut shelf, _running, mut full, full_feed) = parked("read_ahead_total_bytes: 4");
    full_feed.data("full");
    wake(&mut full, 1);
    let feeds: Vec<_> = (0..3).map(|_| Feed::new()).collect();
    let mut readers: Vec<_> = feeds
        .iter()
        .map(|feed| {
            feed.data("1234");
            shelf.send(feed.body())
        })
        .collect();
    drop(full);
    let rings = |readers: &[Guest]| -> Vec<usize> { readers.iter().map(Polled::rings).collect() };
    assert_eq!(rings(&readers), [1, 0, 0]);
    assert!(readers[0].poll().is_pending());
    assert_eq!(shelf.ahead(), 4);
    assert_eq!(rings(&readers), [1, 0, 0], "the room is used up");
    drop(readers.remove(0));
    assert_eq!(rings(&readers), [1, 0]);
    assert!(readers[0].poll().is_pending());
    drop(readers.remove(0));
    assert_eq!(rings(&readers), [1]);
    assert!(readers[0].poll().is_pending());
    assert_eq!(shelf.ahead(), 4);
    readers.clear();
    assert_eq!(shelf.ahead(), 0);
}

#[test]
fn a_reader_that_goes_away_leaves_the_room_to_the_next() {
    for woken_before in [true, false] {
        let (mut shelf, _running, mut full, full_feed) = parked("read_ahead_total_bytes: 4");
        full_feed.data("full");
        wake(&mut full, 1);
        let feeds: Vec<_> = (0..3).map(|_| Feed::new()).collect();
        let mut readers: Vec<_> = feeds
            .iter()
            .map(|feed| {
                feed.data("1234");
                shelf.send(feed.body())
            })
            .collect();
        let mut full = Some(full);
        if woken_before {
            full = None;
            assert_eq!(readers[0].rings(), 1);
        }
        drop(readers.remove(0));
        drop(full);
        assert_eq!(
            readers[0].rings(),
            1,
            "woken before it left: {woken_before}"
        );
        assert_eq!(readers[1].rings(), 0);
        assert!(readers[0].poll().is_pending());
        assert_eq!(shelf.ahead(), 4);
    }
}

#[test]
fn a_reader_without_anything_to_read_passes_the_room_on() {
    let (mut shelf, _running, mut full, full_feed) = parked("read_ahead_total_bytes: 4");
    full_feed.data("full");
    wake(&mut full, 1);
    let mut idle = shelf.send(Feed::new().body());
    let feed = Feed::new();
    feed.data("1234");
    let mut eager = shelf.send(feed.body());
    drop(full);
    wake(&mut idle, 1);
    wake(&mut eager, 1);
    assert_eq!(shelf.ahead(), 4);
}

#[test]
fn a_total_of_nothing_reads_nothing_and_loses_nothing() {
    let (shelf, running, mut guest, feed) = parked("read_ahead_total_bytes: 0");
    feed.data("abc");
    feed.end();
    assert!(guest.poll().is_pending());
    assert_eq!(shelf.ahead(), 0);
    drop(running);
    wake(&mut guest, 1);
    let mut body = shelf.take();
    assert_eq!(next(&mut body), "abc");
    assert_eq!(next(&mut body), "(end)");
}

#[test]
fn a_body_that_fails_while_it_waits_ends_the_wait() {
    for (extra, status) in [("", 400), ("statuses: {request_body_error: 418}", 418)] {
        let mut shelf = Shelf::behind(&format!(
            "dominions: [{{id: pool, kind: remote, max_concurrency: 1, max_queue: 1}}]\n{extra}"
        ));
        let running = shelf.send(FedBody::empty());
        drop(shelf.take());
        let feed = Feed::new();
        let mut guest = shelf.send(feed.body());
        feed.data("half of");
        wake(&mut guest, 1);
        feed.error();
        assert_eq!(guest.rings(), 2);
        let Poll::Ready(response) = guest.poll() else {
            panic!("there is nothing to wait for");
        };
        assert_eq!(response.status(), status);
        assert_eq!(
            response.headers()["x-policy-queue-reason"],
            "request_body_error"
        );
        assert!(
            !response.headers().contains_key("retry-after"),
            "a retry fails as well"
        );
        let error = &json(response.into_body())["error"];
        assert_eq!(error["code"], "request_body_error");
        assert_eq!(error["type"], "invalid_request_error");
        assert_eq!(
            (shelf.usage().waiting, shelf.ahead()),
            (0, 0),
            "its place is free"
        );

        let mut next = shelf.send(FedBody::empty());
        drop(running);
        wake(&mut next, 1);
        assert_eq!(
            shelf.reached(),
            1,
            "the broken one never reached the inner service"
        );
    }
}

#[test]
fn a_body_that_fails_before_the_first_poll_ends_the_wait_too() {
    let (mut shelf, _running, guest, _feed) = parked("");
    drop(guest);
    let feed = Feed::new();
    feed.error();
    let future = shelf.service.call(Request::new(feed.body()));
    let mut guest = Polled::new(future);
    assert_eq!(shelf.usage().waiting, 1);
    let Poll::Ready(Ok(response)) = guest.poll() else {
        panic!("there is nothing to wait for");
    };
    assert_eq!(response.status(), 400);
    assert_eq!(shelf.usage().waiting, 0);
}

#[test]
fn an_error_after_the_grant_is_the_inner_service_s() {
    let (shelf, running, mut guest, feed) = parked("");
    feed.data("half of");
    wake(&mut guest, 1);
    drop(running);
    feed.error();
    assert!(guest.poll().is_pending(), "the grant came first");
    let mut body = shelf.take();
    assert_eq!(next(&mut body), "half of");
    assert_eq!(next(&mut body), "(error)");
}

#[test]
fn an_error_beyond_the_limit_is_the_inner_service_s_too() {
    let (shelf, running, mut guest, feed) = parked("read_ahead_bytes: 4");
    feed.data("1234");
    feed.error();
    wake(&mut guest, 1);
    drop(running);
    wake(&mut guest, 2);
    let mut body = shelf.take();
    assert_eq!(next(&mut body), "1234");
    assert_eq!(next(&mut body), "(error)");
}

#[test]
fn what_was_read_is_counted_back_however_the_request_ends() {
    // It leaves while it waits.
    let (shelf, _running, mut guest, feed) = parked("");
    feed.data("abc");
    wake(&mut guest, 1);
    assert_eq!(shelf.ahead(), 3);
    drop(guest);
    assert_eq!(shelf.ahead(), 0);

    // The queue is closed.
    let (shelf, _running, mut guest, feed) = parked("");
    feed.data("abc");
    wake(&mut guest, 1);
    shelf.layer.handle().shutdown();
    assert!(guest.poll().is_ready());
    assert_eq!(shelf.ahead(), 0, "though its future is still there");

    // The inner service drops it unread, or half read.
    for frames in 0..2 {
        let (shelf, running, mut guest, feed) = parked("");
        feed.data("abc");
        feed.data("def");
        wake(&mut guest, 1);
        drop(running);
        wake(&mut guest, 2);
        let mut body = shelf.take();
        for _ in 0..frames {
            next(&mut body);
        }
        assert_eq!(shelf.ahead(), 6 - 3 * frames);
        drop(body);
        assert_eq!(shelf.ahead(), 0);
    }

    // It is granted and leaves before it is polled.
    let (shelf, running, mut guest, feed) = parked("");
    feed.data("abc");
    wake(&mut guest, 1);
    drop(running);
    drop(guest);
    assert_eq!(shelf.usage(), Usage::default());
}

#[tokio::test(start_paused = true)]
async fn what_was_read_is_counted_back_when_its_request_times_out() {
    let (shelf, _running, mut guest, feed) = parked("max_queue_wait_ms: 100");
    feed.data("abc");
    wake(&mut guest, 1);
    tokio::time::advance(std::time::Duration::from_millis(100)).await;
    assert!(guest.poll().is_ready());
    assert_eq!(shelf.ahead(), 0);
}

#[test]
fn reading_ahead_does_not_cost_the_grant_its_wake() {
    let (shelf, running, mut guest, feed) = parked("");
    for n in 1..=50 {
        feed.data("x");
        wake(&mut guest, n);
    }
    drop(running);
    assert_eq!(guest.rings(), 51);
    assert!(guest.poll().is_pending());
    assert_eq!(shelf.reached(), 1);
}

/// A body that is there at once, and can be cloned.
#[derive(Clone)]
struct Ready {
    data: VecDeque<Bytes>,
    trailers: Option<HeaderMap>,
}

impl Body for Ready {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = self.data.pop_front().map(Frame::data);
        let frame = data.or_else(|| self.trailers.take().map(Frame::trailers));
        Poll::Ready(frame.map(Ok))
    }
}

fn ready(data: &[&'static str]) -> Ready {
    let trailers = HeaderMap::from_iter([(http::header::ETAG, "x".parse().unwrap())]);
    Ready {
        data: data
            .iter()
            .map(|data| Bytes::from_static(data.as_bytes()))
            .collect(),
        trailers: Some(trailers),
    }
}

#[test]
fn a_clone_has_the_same_frames_read_ahead_or_not() {
    for (yaml, ahead) in [
        ("", 9),
        ("read_ahead_bytes: 4", 6),
        ("read_ahead_bytes: 0", 0),
    ] {
        let mut shelf = Shelf::<Ready>::new(yaml);
        let running = shelf.send(ready(&[]));
        drop(shelf.take());
        let mut guest = shelf.send(ready(&["abc", "def", "ghi"]));
        assert_eq!(shelf.ahead(), ahead, "{yaml}");
        drop(running);
        wake(&mut guest, 1);
        let mut body = shelf.take();
        let untouched = Polled::new(RequestBody::clone(&body.inner));
        assert_eq!(shelf.ahead(), 2 * ahead, "a clone takes up room too");
        assert_eq!(next(&mut body), "abc");
        let half_read = Polled::new(RequestBody::clone(&body.inner));
        for (mut body, frames) in [
            (untouched, &["abc", "def", "ghi", "(trailers)", "(end)"][..]),
            (half_read, &["def", "ghi", "(trailers)", "(end)"]),
            (body, &["def", "ghi", "(trailers)", "(end)"]),
        ] {
            for frame in frames {
                assert_eq!(next(&mut body), *frame, "{yaml}");
            }
        }
        assert_eq!(shelf.ahead(), 0, "{yaml}");
    }
}

/// A body that cannot be cloned, whatever it says.
struct Single(Ready);

impl Clone for Single {
    fn clone(&self) -> Self {
        panic!("broken on purpose")
    }
}

impl Body for Single {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.0).poll_frame(cx)
    }
}

#[test]
fn a_clone_that_panics_keeps_no_room() {
    let mut shelf = Shelf::<Single>::new("");
    let running = shelf.send(Single(ready(&[])));
    drop(shelf.take());
    let mut guest = shelf.send(Single(ready(&["abc"])));
    drop(running);
    wake(&mut guest, 1);
    let body = shelf.take();
    let clone = AssertUnwindSafe(|| RequestBody::clone(&body.inner));
    assert!(catch_unwind(clone).is_err());
    assert_eq!(shelf.ahead(), 3);
    drop(body);
    assert_eq!(shelf.ahead(), 0);
}

#[test]
fn a_body_does_not_show_what_it_holds() {
    let (shelf, running, mut guest, feed) = parked("");
    feed.data("secret");
    wake(&mut guest, 1);
    drop(running);
    wake(&mut guest, 2);
    let shown = format!("{:?}", shelf.take().inner);
    assert!(!shown.contains("secret"), "{shown}");
}
