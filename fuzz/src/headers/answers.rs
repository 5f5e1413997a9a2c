//! What an answer may be.

use std::collections::HashMap;

use http::{HeaderMap, Request};
use tower_policy_queue::{Admission, Reason, Rejection};

use super::policies::Policy;
use crate::stage::Answer;

/// The documented answers: code, status and type.
const ANSWERS: [(&str, u16, &str); 11] = [
    ("queue_rejected", 429, "rate_limit_error"),
    ("queue_full", 503, "server_error"),
    ("client_queue_limit", 429, "rate_limit_error"),
    ("policy_class_queue_limit", 529, "overloaded_error"),
    ("queue_timeout", 503, "server_error"),
    ("queue_unavailable", 503, "server_error"),
    ("profile_switch", 503, "server_error"),
    ("no_eligible_worker", 503, "server_error"),
    ("hold_timeout", 504, "server_error"),
    ("request_body_error", 400, "invalid_request_error"),
    ("invalid_queue_header", 400, "invalid_request_error"),
];

/// What is known of a request's answer from what it asks.
pub struct Expected {
    bypassed: bool,
    /// The trusted headers that cannot be read.
    unreadable: Vec<&'static str>,
    worker: Option<String>,
    allowed: Option<Vec<String>>,
    model: Option<String>,
}

impl Expected {
    pub fn of<B>(policy: &Policy, request: &Request<B>) -> Self {
        let headers = request.headers();
        let bypassed = policy.bypass.iter().any(|entry| {
            request.method() == *entry
                || entry.starts_with('/') && request.uri().path().starts_with(entry)
        });
        let unreadable = [
            ("x-raw", is_integer as fn(&str) -> bool),
            ("x-cached", is_integer),
            ("x-wait", is_integer),
            ("x-tier", |text| text.parse::<u32>().is_ok()),
            ("x-jump", |text| text.parse().is_ok_and(f64::is_finite)),
            ("x-model", |_| true),
            ("x-worker", |_| true),
        ]
        .into_iter()
        .filter(|(name, readable)| match &texts(headers, name)[..] {
            [] => false,
            [Some(text)] => !readable(text),
            _ => true,
        })
        .map(|(name, _)| name)
        .chain(
            texts(headers, "x-allowed")
                .contains(&None)
                .then_some("x-allowed"),
        )
        .collect();
        let name = |header| {
            let text = texts(headers, header).pop()??;
            (!text.is_empty()).then(|| text.to_owned())
        };
        Self {
            bypassed,
            unreadable,
            worker: name("x-worker"),
            model: name("x-model"),
            allowed: headers.contains_key("x-allowed").then(|| {
                let lists = texts(headers, "x-allowed").into_iter().flatten();
                lists
                    .flat_map(|list| list.split(','))
                    .map(|name| name.trim().to_owned())
                    .collect()
            }),
        }
    }

    pub fn check(&self, policy: &Policy, answer: &Answer) {
        match (&answer.admission, &answer.rejection) {
            (Some(admission), None) => self.check_admission(policy, answer, admission),
            (None, Some(rejection)) => self.check_rejection(policy, answer, rejection),
            (None, None) => assert!(self.bypassed, "it went past the layer: {answer:?}"),
            (Some(_), Some(_)) => panic!("both: {answer:?}"),
        }
    }

    fn check_admission(&self, policy: &Policy, answer: &Answer, admission: &Admission) {
        assert!(!self.bypassed, "it should have gone past the layer");
        assert_eq!(self.unreadable, [""; 0], "it was believed: {admission:?}");
        assert_eq!(answer.status, 200);
        let class = (admission.profile(), admission.class());
        assert!(policy.classes.contains(&class), "no class: {class:?}");
        let profile = policy
            .classes
            .iter()
            .find_map(|(profile, _)| profile.filter(|known| self.model.as_deref() == Some(*known)));
        assert_eq!(admission.profile(), profile, "the model's own profile");
        if let Some(id) = admission.dominion() {
            assert!(policy.dominions.iter().any(|(known, _)| *known == id));
        }
        match admission.worker() {
            Some(id) => {
                let place = (id, admission.dominion());
                assert!(policy.workers.contains(&place), "no worker: {place:?}");
                if let Some(allowed) = &self.allowed {
                    assert!(allowed.iter().any(|known| known == id), "not allowed: {id}");
                }
                let endpoint = admission.endpoint();
                assert!(endpoint.is_none_or(|endpoint| endpoint.id() == id));
            }
            None => assert_eq!(self.worker, None, "it is pinned"),
        }
        if let Some(worker) = &self.worker {
            assert_eq!(admission.worker(), Some(&**worker), "it is pinned");
        }
    }

    fn check_rejection(&self, policy: &Policy, answer: &Answer, rejection: &Rejection) {
        assert!(!self.bypassed, "it should have gone past the layer");
        let code = rejection.code();
        let known = ANSWERS.iter().find(|(known, _, _)| *known == code);
        let (_, status, kind) = known.unwrap_or_else(|| panic!("not documented: {code}"));
        let own = policy.statuses.iter().find(|(known, _)| *known == code);
        let status = own.map_or(*status, |(_, status)| *status);
        assert_eq!(answer.status, status, "{code}");
        assert_eq!(rejection.status().as_u16(), status);
        assert_eq!(rejection.error_type(), *kind);
        assert_eq!(answer.headers["x-policy-queue-reason"], code);

        let body: serde_json::Value =
            serde_json::from_slice(&answer.body).expect("an answer is JSON");
        assert_eq!(body["error"]["code"], code);
        assert_eq!(body["error"]["type"], *kind);
        match rejection.reason() {
            Reason::InvalidHeader { name, .. } => {
                assert!(self.unreadable.contains(&name.as_str()), "{name} is fine");
                assert_eq!(body["error"]["header"], name.as_str());
            }
            Reason::ClassLimit { policy_class, .. } => {
                let known = |(_, class): &(Option<&str>, &str)| *class == &**policy_class;
                assert!(policy.classes.iter().any(known), "{policy_class}");
            }
            reason => assert_eq!(self.unreadable, [""; 0], "it was believed: {reason:?}"),
        }
    }
}

/// No dominion has more bodies under way than slots.
pub fn check_slots<'a>(policy: &Policy, reading: impl Iterator<Item = &'a Admission>) {
    let mut taken: HashMap<&str, usize> = HashMap::new();
    for dominion in reading.filter_map(Admission::dominion) {
        *taken.entry(dominion).or_default() += 1;
    }
    for (dominion, slots) in policy.dominions {
        let taken = taken.get(dominion).copied().unwrap_or_default();
        let slots = slots.unwrap_or(usize::MAX);
        assert!(taken <= slots, "{taken} in the {slots} slots of {dominion}");
    }
}

/// The values of a header, trimmed; none where they are not UTF-8.
fn texts<'a>(headers: &'a HeaderMap, name: &str) -> Vec<Option<&'a str>> {
    let values = headers.get_all(name).iter();
    values
        .map(|value| std::str::from_utf8(value.as_bytes()).ok().map(str::trim))
        .collect()
}

fn is_integer(text: &str) -> bool {
    text.parse::<u64>().is_ok()
}
