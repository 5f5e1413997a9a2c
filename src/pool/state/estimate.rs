//! How long a newcomer would wait.

use super::*;

impl State {
    /// When a newcomer of the class, that costs this many tokens, had better come again.
    pub(in crate::pool) fn retry_after(&mut self, class: usize, cost: u64) -> Duration {
        let ahead = self.ahead(class, cost as f64);
        self.drain.retry_after(ahead)
    }

    /// How long a newcomer of the class, of average cost, would wait.
    pub(in crate::pool) fn estimated_wait(&self, class: usize) -> Option<Duration> {
        if self.closed {
            return None;
        }
        let nobody_waits = self.schedule.backlog(class).requests == 0;
        if nobody_waits && self.has_slot() && self.workers.open_to(class) {
            return Some(Duration::ZERO);
        }
        let cost = self.drain.mean_cost()?;
        let seconds = self.drain.seconds(self.ahead(class, cost))?;
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// What is served before a newcomer of the class is done, that costs this many tokens.
    fn ahead(&self, class: usize, cost: f64) -> Ahead {
        // Each request costs a token at least.
        let costs = |backlog: Backlog| {
            let uncached = backlog.raw_tokens.saturating_sub(backlog.cached_tokens);
            uncached.max(backlog.requests) as f64
        };
        let own = costs(self.schedule.backlog(class)) + cost;
        let rounds = own / self.classes[class].quantum as f64;
        // Meanwhile each other class is served its quanta, or all that it has.
        let others = self
            .schedule
            .backlogged()
            .filter(|&other| other != class)
            .map(|other| {
                let share = rounds * self.classes[other].quantum as f64;
                costs(self.schedule.backlog(other)).min(share)
            });
        let tokens = own + others.sum::<f64>();
        let slots = self.max_concurrency.unwrap_or(self.in_use);
        Ahead { tokens, slots }
    }
}
