//! What tests compare with their own counts.

use super::*;

/// Everything that tests compare with their own counts.
#[derive(Debug)]
pub(in crate::pool) struct Audit {
    pub(in crate::pool) in_use: usize,
    pub(in crate::pool) queued: usize,
    /// The workers of the waiters that were granted and have not asked since, by waiter.
    pub(in crate::pool) granted: std::collections::BTreeMap<usize, u32>,
    /// The waiters that were refused and have not asked since.
    pub(in crate::pool) refused: std::collections::BTreeSet<usize>,
    pub(in crate::pool) labels: usize,
    pub(in crate::pool) prefill: Vec<u64>,
    /// Requests, by worker.
    pub(in crate::pool) in_flight: Vec<u64>,
    /// Requests, raw tokens and cached tokens, by class.
    pub(in crate::pool) backlog: Vec<(u64, u64, u64)>,
    /// Heads that the gate lets through when each is asked anew.
    pub(in crate::pool) dispatchable: usize,
    /// Whether what is kept up to date about the workers agrees with computing it anew.
    pub(in crate::pool) workers_agree: bool,
    /// Whether some hold can expire.
    pub(in crate::pool) expires: bool,
    /// Whether the timekeeper, if there is one, is queued.
    pub(in crate::pool) timekeeper_queued: Option<bool>,
}

impl State {
    pub(in crate::pool) fn audit(&self) -> Audit {
        let granted = |(waiter, it): (usize, &Waiter)| match it.status {
            Status::Granted { worker, .. } => Some((waiter, worker)),
            _ => None,
        };
        let refused = |(waiter, it): (usize, &Waiter)| {
            matches!(it.status, Status::Refused(_)).then_some(waiter)
        };
        let queued = |waiter: usize| {
            let waiter = self.waiters.get(waiter);
            waiter.is_some_and(|it| matches!(it.status, Status::Queued(_)))
        };
        let backlog = |class| {
            let backlog = self.schedule.backlog(class);
            (backlog.requests, backlog.raw_tokens, backlog.cached_tokens)
        };
        Audit {
            in_use: self.in_use,
            queued: self.schedule.len(),
            granted: self.waiters.iter().filter_map(granted).collect(),
            refused: self.waiters.iter().filter_map(refused).collect(),
            labels: self.clients.labels(),
            prefill: self.workers.prefill().collect(),
            in_flight: self.workers.in_flight().collect(),
            backlog: (0..self.classes.len()).map(backlog).collect(),
            dispatchable: self.schedule.open_heads(&self.workers),
            workers_agree: self
                .schedule
                .entries()
                .all(|entry| self.workers.agree(entry.class, &entry.payload.eligible)),
            expires: self.revocables.next_expiry().is_some(),
            timekeeper_queued: self.timekeeper.map(|keeper| queued(keeper.waiter)),
        }
    }
}
