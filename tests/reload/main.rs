//! Another policy, while requests wait and run.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/hall.rs"]
mod hall;

mod classes;
mod dominions;
mod meanwhile;
mod profiles;
mod workers;

use common::desk::policy;
use hall::Hall;

/// Two families, `a` and `b`, with these fields, and whatever else is to be in the policy.
fn families(a: &str, b: &str, rest: &str) -> String {
    format!(
        "
default_policy_family: b
uncached_isl_buckets: [{{min_tokens: 0, bucket: any}}]
policy_classes:
  - {{name: a, policy_family: a, cache_bucket: any, {a}}}
  - {{name: b, policy_family: b, cache_bucket: any, {b}}}
headers: {{raw_isl_tokens: x-tokens}}
{rest}
"
    )
}

const ONE: &str = "dominions: [{id: pool, kind: remote, max_concurrency: 1}]";

impl Hall {
    fn reload(&mut self, yaml: &str) {
        self.handle.reload(policy(yaml)).unwrap();
        self.settle();
    }

    /// A request of a family, of 100 tokens.
    fn ask(&mut self, id: &str, family: &str) {
        let headers = [("x-dynamo-meta-policy-class", family), ("x-tokens", "100")];
        self.send(id, hall::with(id, &headers));
    }

    /// Ends the one that runs of these, as often as one of them does; the answer is the order.
    fn drain(&mut self, ids: &[&str]) -> String {
        let mut order = Vec::new();
        let mut left = ids.to_vec();
        while let Some(index) = left.iter().position(|id| self.state(id) == "running") {
            let id = left.remove(index);
            self.finish(id);
            order.push(id);
        }
        order.join(" ")
    }
}
