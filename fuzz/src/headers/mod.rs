//! Requests with headers of any kind, through a layer that believes them all.

mod answers;
mod policies;
mod request;

use std::time::Duration;

use arbitrary::Arbitrary;

use crate::stage::{Next, Plan, Stage};

use answers::Expected;
use policies::POLICIES;
use request::Sent;

const MAX_OPERATIONS: usize = 48;

/// A policy, and what happens under it.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case {
    policy: u8,
    operations: Vec<Operation>,
}

#[derive(Arbitrary, Clone, Debug)]
enum Operation {
    Send(Sent, Plan),
    Feed(u8, Next),
    Leave(u8),
    /// Milliseconds pass.
    Wait(u8),
}

pub fn run(case: &Case) {
    let policy = &POLICIES[usize::from(case.policy) % POLICIES.len()];
    let mut stage = Stage::new(policy.config());
    let mut expected: Vec<Expected> = Vec::new();
    for operation in case.operations.iter().take(MAX_OPERATIONS) {
        match operation {
            Operation::Send(sent, plan) => {
                let request = sent.request();
                expected.push(Expected::of(policy, &request));
                stage.send(request, *plan);
            }
            Operation::Feed(which, next) => stage.feed((*which).into(), *next),
            Operation::Leave(which) => stage.leave((*which).into()),
            Operation::Wait(time) => stage.advance(Duration::from_millis((*time).into())),
        }
        for answer in stage.answers() {
            expected[answer.of].check(policy, &answer);
        }
        answers::check_slots(policy, stage.reading());
        let usage = stage.usage();
        assert!(
            usage.waiting == 0 || usage.slots_in_use > 0 || usage.prefill_tokens > 0,
            "somebody waits for nothing: {usage:?} under {}",
            policy.yaml()
        );
    }
    stage.clear();
}
