//! `content-length` is the one number that any caller has a say in: it stands for the tokens of a
//! prompt that nobody has counted.

use http::Request;

use crate::{
    common::{NoBody, desk::get},
    crowd::Crowd,
    hall::with,
};

const POLICY: &str = "
default_policy_family: regular
uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
policy_classes:
  - {name: premium, policy_family: premium, cache_bucket: any, quantum: 4096}
  - {name: regular, policy_family: regular, cache_bucket: any, quantum: 1024}
dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 10000}]
";

fn sized(id: &str, family: &str, bytes: &str) -> Request<NoBody> {
    with(
        id,
        &[
            ("x-dynamo-meta-policy-class", family),
            ("content-length", bytes),
        ],
    )
}

#[test]
fn a_length_that_no_prompt_has_does_not_stop_its_class() {
    for claim in [
        "18446744073709551615",
        "4611686018427387904",
        "99999999999999",
    ] {
        let mut crowd = Crowd::new(POLICY);
        crowd.occupy(get("running"));
        crowd.park(sized("boaster", "regular", claim));
        crowd.park(sized("honest", "regular", "400"));
        // Premium requests of 4096 tokens each: one in a round.
        let mut premium = 0;
        let mut park_premium = |crowd: &mut Crowd<_>| {
            premium += 1;
            crowd.park(sized(&format!("premium-{premium}"), "premium", "16384"));
        };
        park_premium(&mut crowd);
        park_premium(&mut crowd);
        let mut turns = 0;
        while crowd.serve_next() != "honest" {
            turns += 1;
            // The other class never runs dry.
            park_premium(&mut crowd);
            // 2^21 tokens at 1024 a round, and what each class is owed.
            assert!(turns <= 2048 + 4, "{claim}: the class is starved");
        }
    }
}

#[test]
fn lengths_that_no_prompt_has_leave_no_count_behind() {
    let limited = POLICY.replace(
        "quantum: 1024",
        "quantum: 1024, raw_isl_token_queue_limit_per_worker: 18446744073709551615",
    );
    let mut crowd = Crowd::new(&limited);
    crowd.occupy(get("running"));
    for n in 0..20 {
        // Twenty of 2^62 tokens are more than the count of a class can hold.
        crowd.park(sized(&format!("{n}"), "regular", "18446744073709551615"));
    }
    assert_eq!(crowd.serve_all().len(), 20);
    assert_eq!(crowd.usage(), Default::default());
}
