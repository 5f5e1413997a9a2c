//! Numbers from headers that the policy trusts: read exactly, or refused; never a crash, and never a
//! count that stays behind.

use std::task::Poll;

use tower_policy_queue::{Reason, Rejection};

use crate::{
    common::{
        self,
        desk::{Scene, get, policy},
    },
    crowd::Crowd,
    hall::with,
};

const POLICY: &str = "
default_policy_family: a
uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
policy_classes:
  - {name: a, policy_family: a, cache_bucket: any, quantum: 7, prefill_busy_threshold: 1000}
  - {name: b, policy_family: b, cache_bucket: any, quantum: 1, queue_policy: wspt}
dominions: [{id: pool, kind: remote, max_concurrency: 1}]
endpoints: [{id: w1, dominion: pool}, {id: w2, dominion: pool}]
headers:
  raw_isl_tokens: x-raw
  cached_tokens: x-cached
  strict_priority: x-tier
  priority_jump: x-jump
  max_queue_wait_ms: x-wait
";

const HEADERS: [&str; 5] = ["x-raw", "x-cached", "x-tier", "x-jump", "x-wait"];

/// Values, and by which of `HEADERS` each is accepted.
const VALUES: &[(&str, [bool; 5])] = &[
    ("0", [true; 5]),
    ("+5", [true; 5]),
    (" 5 ", [true; 5]),
    ("00000000000000000000000005", [true; 5]),
    ("4294967295", [true; 5]),
    ("4294967296", [true, true, false, true, true]),
    ("18446744073709551615", [true, true, false, true, true]),
    ("18446744073709551616", [false, false, false, true, false]),
    ("-5", [false, false, false, true, false]),
    ("1.5", [false, false, false, true, false]),
    ("1e300", [false, false, false, true, false]),
    ("1e-400", [false, false, false, true, false]),
    ("1e400", [false; 5]),
    ("-1e400", [false; 5]),
    ("NaN", [false; 5]),
    ("-nan", [false; 5]),
    ("inf", [false; 5]),
    ("-Infinity", [false; 5]),
    ("", [false; 5]),
    ("   ", [false; 5]),
    ("5 5", [false; 5]),
    ("5,5", [false; 5]),
    ("5_000", [false; 5]),
    ("0x5", [false; 5]),
    ("+", [false; 5]),
    ("++5", [false; 5]),
    ("\u{665}", [false; 5]),
];

#[test]
fn each_number_is_read_or_refused_by_name_and_the_queue_works_on() {
    for (value, accepted) in VALUES {
        for (header, accepted) in HEADERS.into_iter().zip(accepted) {
            let mut scene = Scene::new(policy(POLICY));
            let what = format!("{header}: {value:?}");
            let mut client = scene.call_with("asked", with("asked", &[(header, value)]));
            match client.polled.poll() {
                Poll::Pending => assert!(*accepted, "{what}"),
                Poll::Ready(response) => {
                    assert!(!accepted, "{what}");
                    names_the_header(response.unwrap(), header);
                }
            }
            drop(client);
            goes_on(&mut scene, &what);
        }
    }
}

#[test]
fn a_number_that_comes_twice_is_refused_by_name_and_the_queue_works_on() {
    for header in HEADERS {
        for second in ["5", "6", ""] {
            let mut scene = Scene::new(policy(POLICY));
            let twice = with("asked", &[(header, "5"), (header, second)]);
            let mut client = scene.call_with("asked", twice);
            names_the_header(client.response(), header);
            drop(client);
            goes_on(&mut scene, header);
        }
    }
}

fn names_the_header<B>(response: http::Response<B>, header: &str)
where
    B: http_body::Body<Data = bytes::Bytes, Error: std::fmt::Debug>,
{
    assert_eq!(response.status(), 400, "{header}");
    let rejection: &Rejection = response.extensions().get().unwrap();
    assert!(
        matches!(rejection.reason(), Reason::InvalidHeader { name, .. } if name == header),
        "{rejection:?}"
    );
    let error = &common::json(response.into_body())["error"];
    assert_eq!(error["code"], "invalid_queue_header");
    assert_eq!(error["header"], header);
}

/// Nothing is left behind, and the next request starts at once.
fn goes_on(scene: &mut Scene, what: &str) {
    assert_eq!(scene.layer.handle().usage(), Default::default(), "{what}");
    let next = scene.send("next");
    assert!(scene.desk.has("next"), "{what}");
    drop(next);
    assert_eq!(scene.layer.handle().usage(), Default::default(), "{what}");
}

#[tokio::test(start_paused = true)]
async fn the_largest_numbers_are_queued_served_and_forgotten() {
    const MOST: &str = "18446744073709551615";
    let mut crowd = Crowd::new(POLICY);
    crowd.occupy(get("running"));
    for n in 0..4 {
        let family = (
            "x-dynamo-meta-policy-class",
            if n % 2 == 0 { "a" } else { "b" },
        );
        let more = [
            family,
            ("x-raw", MOST),
            ("x-jump", "1e300"),
            ("x-wait", MOST),
        ];
        crowd.park(with(&format!("huge-{n}"), &more));
        let cached = [family, ("x-raw", MOST), ("x-cached", MOST)];
        crowd.park(with(&format!("cached-{n}"), &cached));
        crowd.park(with(&format!("small-{n}"), &[family, ("x-raw", "1")]));
    }
    assert_eq!(crowd.usage().waiting, 12);
    assert_eq!(crowd.serve_all().len(), 12);
    assert_eq!(crowd.usage(), Default::default());

    // What saturated is not owed by those who come later.
    crowd.occupy(get("running"));
    crowd.park(get("late-1"));
    crowd.park(get("late-2"));
    assert_eq!(crowd.serve_all(), ["late-1", "late-2"]);
    assert_eq!(crowd.usage(), Default::default());
}

#[test]
fn a_count_of_any_size_takes_its_own_tokens_with_it() {
    let limited = crate::hall::chat(
        "raw_isl_token_queue_limit_per_worker: 100",
        crate::hall::ONE_SLOT,
    );
    let mut hall =
        crate::hall::Hall::new(&format!("{limited}\nheaders: {{raw_isl_tokens: x-raw}}"));
    for (id, tokens) in [
        ("run", "1"),
        ("small", "99"),
        ("huge", "18446744073709551615"),
    ] {
        hall.send(id, with(id, &[("x-raw", tokens)]));
    }
    let queued =
        |hall: &crate::hall::Hall| hall.handle.snapshot().dominions[0].classes[0].queued_tokens;
    assert_eq!(queued(&hall), u64::MAX);
    hall.leave("huge");
    assert_eq!(queued(&hall), 99);
    for (id, state) in [("crosses", "waiting"), ("late", "policy_class_queue_limit")] {
        hall.send(id, with(id, &[("x-raw", "1")]));
        assert_eq!(hall.state(id), state);
    }
}
