//! How long a newcomer would wait.

use super::*;

/// The backlog of all classes, arranged so that what is served before a newcomer is quickly computed for each
/// class.
#[derive(Debug)]
pub(in crate::pool) struct Queues {
    /// How many rounds it takes to serve all that each backlogged class has, in ascending order.
    rounds: Vec<f64>,
    /// The tokens that the first n of those classes have, by n.
    tokens: Vec<u128>,
    /// The tokens that all but the first n of those classes are credited in each round, by n.
    quanta: Vec<u128>,
}

impl Queues {
    /// From what each class has, and is credited in each round, in tokens. O(C log C).
    fn new(classes: impl Iterator<Item = (u64, u64)>) -> Self {
        let rounds = |(tokens, quantum): (u64, u64)| tokens as f64 / quantum as f64;
        let mut classes: Vec<(u64, u64)> = classes.collect();
        classes.sort_unstable_by(|&a, &b| rounds(a).total_cmp(&rounds(b)));
        let (mut tokens, mut quanta) = (0, 0);
        let mut this = Self {
            rounds: classes.iter().copied().map(rounds).collect(),
            tokens: vec![0],
            quanta: vec![0],
        };
        for &(has, _) in &classes {
            tokens += u128::from(has);
            this.tokens.push(tokens);
        }
        for &(_, quantum) in classes.iter().rev() {
            quanta += u128::from(quantum);
            this.quanta.push(quanta);
        }
        this.quanta.reverse();
        this
    }

    /// The tokens that all of them together are credited in each round.
    pub(in crate::pool) fn quanta(&self) -> u128 {
        self.quanta[0]
    }

    /// The tokens that they are served in this many rounds: each class its quanta, or all that it has if that
    /// is less.
    fn served(&self, rounds: f64) -> f64 {
        let done = self.rounds.partition_point(|&needed| needed <= rounds);
        self.tokens[done] as f64 + rounds * self.quanta[done] as f64
    }
}

/// What a backlog costs, in tokens, as far as its sums tell: at least 1 for each request.
fn cost_of(backlog: Backlog) -> u64 {
    let uncached = backlog.raw_tokens.saturating_sub(backlog.cached_tokens);
    uncached.max(backlog.requests)
}

impl State {
    /// When a newcomer of the class with this cost, in tokens, should retry.
    pub(in crate::pool) fn retry_after(&mut self, class: usize, cost: u64) -> Duration {
        let ahead = self.ahead(class, cost as f64);
        self.drain.retry_after(ahead)
    }

    /// The backlog of all classes.
    pub(in crate::pool) fn queues(&self) -> Queues {
        let backlogged = self.schedule.backlogged();
        Queues::new(backlogged.map(|class| {
            let backlog = self.schedule.backlog(class);
            (cost_of(backlog), self.classes[class].quantum)
        }))
    }

    /// How long a newcomer of the class with an average cost would wait.
    pub(in crate::pool) fn estimated_wait(
        &self,
        class: usize,
        queues: &Queues,
    ) -> Option<Duration> {
        if self.closed {
            return None;
        }
        let nobody_waits = self.schedule.backlog(class).requests == 0;
        if nobody_waits && self.has_slot() && self.workers.open_to(class) {
            return Some(Duration::ZERO);
        }
        let cost = self.drain.mean_cost()?;
        let own = cost_of(self.schedule.backlog(class)) as f64 + cost;
        let rounds = own / self.classes[class].quantum as f64;
        // `served` includes its own class, with its whole backlog.
        let ahead = self.as_ahead(cost + queues.served(rounds));
        let seconds = self.drain.seconds(ahead)?;
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// What is served until a newcomer of the class with this cost, in tokens, is done.
    fn ahead(&self, class: usize, cost: f64) -> Ahead {
        let costs = |backlog: Backlog| cost_of(backlog) as f64;
        let own = costs(self.schedule.backlog(class)) + cost;
        let rounds = own / self.classes[class].quantum as f64;
        // Meanwhile each other class is served its quanta, or all that it has if that is less.
        let others = self
            .schedule
            .backlogged()
            .filter(|&other| other != class)
            .map(|other| {
                let share = rounds * self.classes[other].quantum as f64;
                costs(self.schedule.backlog(other)).min(share)
            });
        self.as_ahead(own + others.sum::<f64>())
    }

    fn as_ahead(&self, tokens: f64) -> Ahead {
        let slots = self.max_concurrency.unwrap_or(self.in_use);
        Ahead { tokens, slots }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{pool::fixtures::arrival, schedule::deterministic};

    proptest! {
        #![proptest_config(deterministic(256))]

        #[test]
        fn what_all_are_served_is_the_sum_of_what_each_is(
            classes in prop::collection::vec((1..1000u64, 1..50u64), 0..20),
            rounds in 0.0..100.0f64,
        ) {
            let each = classes.iter().map(|&(has, quantum)| {
                (has as f64).min(rounds * quantum as f64)
            });
            let (sum, quanta): (f64, u64) = (each.sum(), classes.iter().map(|it| it.1).sum());
            let queues = Queues::new(classes.iter().copied());
            prop_assert_eq!(queues.quanta(), u128::from(quanta));
            let served = queues.served(rounds);
            prop_assert!((served - sum).abs() <= sum * 1e-12, "{} {}", served, sum);
        }
    }

    const POLICY: &str = "
default_policy_family: a
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: a, policy_family: a, cache_bucket: all, quantum: 7}
  - {name: b, policy_family: b, cache_bucket: all, quantum: 3}
  - {name: c, policy_family: c, cache_bucket: all, quantum: 100}
  - {name: d, policy_family: d, cache_bucket: all, quantum: 1}
dominions: [{id: pool, kind: remote, max_concurrency: 1}]
";

    #[tokio::test(start_paused = true)]
    async fn the_waits_of_all_classes_are_those_of_each_one_alone() {
        let policy: PolicyConfig = POLICY.parse().unwrap();
        let pool = Pool::new(Arc::new(policy), Some(0));
        let enter = |class, tokens| pool.enter(&arrival(class, tokens, 0));
        let mut all = vec![enter(0, 11)];
        tokio::time::advance(Duration::from_secs(1)).await;
        all.push(enter(0, 50));
        // The second one has the slot then, and how long it takes is known.
        all.remove(0);
        for (class, tokens) in [(0, 30), (0, 1), (1, 70), (2, 5), (2, 200)] {
            all.push(enter(class, tokens));
            let state = pool.lock();
            let cost = state.drain.mean_cost().unwrap();
            for class in 0..4 {
                let alone = state.drain.seconds(state.ahead(class, cost)).unwrap();
                let wait = state.estimated_wait(class, &state.queues()).unwrap();
                assert!(alone > 0.5, "it waits");
                assert!(
                    (wait.as_secs_f64() - alone).abs() < 1e-8,
                    "{wait:?} {alone}"
                );
            }
        }
    }
}
