//! What tests check of a shadow.

use super::*;

impl Shadow {
    /// True if it follows no request, and no event is to come.
    pub(in crate::pool) fn is_empty(&self) -> bool {
        self.claims.is_empty()
            && self.waiting.is_empty()
            && self.due.is_empty()
            && self.state.waiters.is_empty()
    }

    /// Recounts what it keeps count of.
    pub(in crate::pool) fn recount(&self) {
        let audit = self.state.audit();
        let mut waiting = HashMap::new();
        let mut prefill = vec![0; audit.prefill.len()];
        let mut in_flight = vec![0; audit.in_flight.len()];
        for (&id, claim) in &self.claims {
            match claim.place {
                Place::Waiting(waiter) => {
                    waiting.insert(waiter, id);
                }
                Place::Running { worker, .. } => {
                    in_flight[worker as usize] += 1;
                    if claim.prefill {
                        prefill[worker as usize] += claim.snapshot.uncached();
                    }
                }
            }
        }
        assert_eq!(self.waiting, waiting, "who would wait");
        assert_eq!(self.state.waiters.len(), waiting.len());
        assert_eq!(audit.queued, waiting.len());
        let running = self.claims.len() - waiting.len();
        assert_eq!(audit.in_use, running, "slots that would be in use");
        assert_eq!(audit.prefill, prefill, "prefill by worker");
        assert_eq!(audit.in_flight, in_flight, "requests by worker");

        let totals = self.state.totals.iter().chain([&self.state.former]);
        let (arrived, settled) = totals.fold((0, 0), |(arrived, settled), class| {
            (arrived + class.arrived, settled + class.settled())
        });
        assert_eq!(
            arrived,
            settled + (audit.queued + audit.in_use) as u64,
            "every request would have one outcome, or none yet"
        );

        let slots = self.state.max_concurrency.unwrap_or(usize::MAX);
        assert!(
            audit.in_use >= slots || audit.dispatchable == 0,
            "a free slot would be beside a dispatchable head"
        );
        assert!(
            audit.workers_agree,
            "which workers would be open, busy and least loaded"
        );
    }
}
