//! `hold_until` and `prefill_until`: the point at which a class gives its slots, and its prefill, back.

use std::task::Poll;

use tower_policy_queue::QueueHints;

use crate::{
    common::feed::FedBody,
    hall::{Hall, ONE_SLOT, chat, hinted},
    read,
};

fn hall(fields: &str) -> Hall {
    let mut hall = Hall::new(&chat(fields, ONE_SLOT));
    hall.arrive("first");
    hall.arrive("second");
    assert_eq!(hall.states(["first", "second"]), ["running", "waiting"]);
    hall
}

#[test]
fn until_headers_the_slot_goes_back_with_the_head() {
    let mut hall = hall("hold_until: headers");
    let (mut body, feed) = hall.stream("first");
    assert_eq!(hall.state("second"), "running", "the head is there");
    feed.data("token");
    assert_eq!(
        read(&mut body),
        "token",
        "and the body goes on without a slot"
    );
    hall.arrive("third");
    feed.end();
    assert!(matches!(body.poll_frame(), Poll::Ready(None)));
    drop(body);
    assert_eq!(
        hall.state("third"),
        "waiting",
        "it was not given back twice"
    );
    assert_eq!(hall.counts(), (1, 1));
}

#[test]
fn until_headers_a_request_without_a_head_keeps_its_slot() {
    let mut hall = hall("hold_until: headers");
    hall.scene.desk.fail("first");
    assert_eq!(hall.counts(), (1, 1), "nobody has polled the future since");
    hall.leave("first");
    assert_eq!(hall.state("second"), "running", "it goes with the future");
}

#[test]
fn until_the_first_byte_the_slot_goes_back_with_the_first_data_frame() {
    let mut hall = hall("hold_until: first_byte");
    let (mut body, feed) = hall.stream("first");
    assert_eq!(hall.state("second"), "waiting", "the head is not enough");
    assert!(body.poll_frame().is_pending());
    feed.data("token");
    assert_eq!(
        hall.state("second"),
        "waiting",
        "nor is a byte that nobody has read"
    );
    assert_eq!(read(&mut body), "token");
    assert_eq!(hall.state("second"), "running");
    hall.arrive("third");
    feed.data("token");
    assert_eq!(read(&mut body), "token");
    feed.error();
    assert!(matches!(body.poll_frame(), Poll::Ready(Some(Err(_)))));
    drop(body);
    assert_eq!(
        hall.state("third"),
        "waiting",
        "it was not given back twice"
    );
}

#[test]
fn until_the_first_byte_a_body_without_any_keeps_the_slot_to_its_end() {
    let mut trailers = hall("hold_until: first_byte");
    let (mut body, feed) = trailers.stream("first");
    feed.trailers();
    assert_eq!(read(&mut body), "(trailers)");
    assert_eq!(trailers.state("second"), "waiting", "trailers are no data");
    feed.end();
    assert!(matches!(body.poll_frame(), Poll::Ready(None)));
    assert_eq!(trailers.state("second"), "running");

    let mut fails = hall("hold_until: first_byte");
    let (mut body, feed) = fails.stream("first");
    feed.error();
    assert!(matches!(body.poll_frame(), Poll::Ready(Some(Err(_)))));
    assert_eq!(fails.state("second"), "running");

    let mut dropped = hall("hold_until: first_byte");
    drop(dropped.stream("first"));
    assert_eq!(dropped.state("second"), "running");

    let mut empty = hall("hold_until: first_byte");
    let _body = empty.answer("first", FedBody::empty());
    assert_eq!(empty.state("second"), "running");
}

#[test]
fn until_the_body_s_end_is_the_default() {
    for fields in ["", "hold_until: body_end"] {
        let mut hall = hall(fields);
        let (mut body, feed) = hall.stream("first");
        feed.data("token");
        assert_eq!(read(&mut body), "token");
        assert_eq!(hall.state("second"), "waiting", "{fields}");
        feed.end();
        assert!(matches!(body.poll_frame(), Poll::Ready(None)));
        assert_eq!(hall.state("second"), "running", "{fields}");
    }
}

#[test]
fn classes_of_one_dominion_may_differ_in_it() {
    let yaml = format!(
        "{}\n  - {{name: brief, quantum: 100, hold_until: headers}}\n{ONE_SLOT}",
        chat("", "").trim_end()
    );
    let brief = QueueHints {
        policy: Some("brief".to_owned()),
        ..QueueHints::default()
    };
    let mut hall = Hall::new(&yaml);
    hall.send("brief", hinted("brief", brief));
    hall.arrive("long");
    hall.arrive("next");
    let _brief = hall.stream("brief");
    assert_eq!(hall.state("long"), "running");
    let _long = hall.stream("long");
    assert_eq!(hall.state("next"), "waiting");
}

#[test]
fn a_hold_keeps_the_slot_past_the_point_where_the_class_gives_it_back() {
    for fields in ["hold_until: headers", "hold_until: first_byte"] {
        let mut hall = hall(fields);
        let hold = hall.scene.desk.admission("first").hold();
        let (mut body, feed) = hall.stream("first");
        feed.data("token");
        assert_eq!(read(&mut body), "token");
        drop(body);
        assert_eq!(hall.state("second"), "waiting", "{fields}");
        drop(hold);
        assert_eq!(hall.state("second"), "running", "{fields}");
    }
}

#[test]
fn a_hold_taken_past_that_point_is_empty() {
    let mut hall = hall("hold_until: headers");
    let admission = hall.scene.desk.admission("first");
    let (_body, _feed) = hall.stream("first");
    let hold = admission.hold();
    assert!(hold.is_empty(), "the slot went back with the head");
    drop(hold);
    assert_eq!(hall.counts(), (1, 0), "and is the second one's");
}

/// One worker that is busy above 10 tokens, and slots for everybody.
fn busy(fields: &str) -> Hall {
    let yaml = chat(
        &format!("prefill_busy_threshold: 10, {fields}"),
        "
dominions: [{id: pool, kind: remote, max_concurrency: 10}]
endpoints: [{id: w, dominion: pool}]
",
    );
    let sized = |id: &str| {
        let hints = QueueHints {
            raw_isl_tokens: Some(50),
            ..QueueHints::default()
        };
        hinted(id, hints)
    };
    let mut hall = Hall::new(&yaml);
    hall.send("first", sized("first"));
    hall.send("second", sized("second"));
    assert_eq!(hall.states(["first", "second"]), ["running", "waiting"]);
    assert_eq!(hall.handle.usage().prefill_tokens, 50);
    hall
}

#[test]
fn prefill_until_headers_is_over_with_the_head_and_the_slot_is_kept() {
    let mut hall = busy("prefill_until: headers");
    let (mut body, feed) = hall.stream("first");
    assert_eq!(
        hall.state("second"),
        "running",
        "the worker is busy no more"
    );
    assert_eq!(hall.counts(), (2, 0), "the first one runs on");
    assert_eq!(
        hall.handle.usage().prefill_tokens,
        50,
        "of the second one alone"
    );
    feed.data("token");
    assert_eq!(read(&mut body), "token");
    drop(body);
    assert_eq!(hall.handle.usage().prefill_tokens, 50, "it ended once");
    assert_eq!(hall.counts(), (1, 0));
}

#[test]
fn prefill_until_the_first_byte_is_the_default() {
    for fields in ["", "prefill_until: first_byte"] {
        let mut hall = busy(fields);
        let (mut body, feed) = hall.stream("first");
        assert_eq!(
            hall.state("second"),
            "waiting",
            "the head is not enough: {fields}"
        );
        feed.data("token");
        assert_eq!(read(&mut body), "token");
        assert_eq!(hall.state("second"), "running", "{fields}");
        assert_eq!(hall.counts(), (2, 0));
    }
}

#[test]
fn a_slot_that_goes_back_with_the_head_leaves_the_prefill_until_the_first_byte() {
    for first_byte in [true, false] {
        let mut hall = busy("hold_until: headers");
        let (mut body, feed) = hall.stream("first");
        assert_eq!(hall.counts(), (0, 1), "the slot went back");
        assert_eq!(
            hall.state("second"),
            "waiting",
            "its worker still computes the prompt"
        );
        assert_eq!(hall.handle.usage().prefill_tokens, 50);
        if first_byte {
            feed.data("token");
            assert_eq!(read(&mut body), "token");
        } else {
            drop(body);
        }
        assert_eq!(hall.state("second"), "running", "first byte: {first_byte}");
        assert_eq!(
            hall.handle.usage().prefill_tokens,
            50,
            "of the second one alone"
        );
    }
}
