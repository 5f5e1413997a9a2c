//! Requests that run on the slots of others, some of them at other workers.

use super::*;

/// A request that runs on the slot of another one, but at another worker.
#[derive(Debug)]
pub(super) struct Visitor {
    visit: Box<Visit>,
    pub(super) share: Share,
    tokens: u64,
    first_byte: bool,
}

impl Visitor {
    /// A request for this worker, or for one of a list; `None` unless it goes to another worker than the
    /// slot's.
    pub(super) fn on(share: Share, worker: Option<&str>, tokens: u64) -> Option<Self> {
        let wanted = Wanted {
            worker,
            allowed_workers: worker.is_none().then_some(&["w1", "w3"]),
            ..Wanted::default()
        };
        let visit = share.visit(&wanted, Snapshot::new(tokens, 0))??;
        Some(Self {
            visit,
            share,
            tokens,
            first_byte: false,
        })
    }

    pub(super) fn first_byte(&mut self) {
        self.visit.end_prefill();
        self.first_byte = true;
    }

    /// Adds it to the recount of what its worker has. True if it was told to stop.
    pub(super) fn count(&self, state: &State, prefill: &mut [u64], in_flight: &mut [u64]) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let worker = state.visits.worker_of(&self.visit);
        if let Some(worker) = worker {
            prefill[worker as usize] += if self.first_byte { 0 } else { self.tokens };
            in_flight[worker as usize] += 1;
            assert!(
                !state.workers.is_unselected(worker),
                "nobody visits a model that is not loaded"
            );
        }
        let stops = self.visit.poll_revoked(&mut cx).is_ready();
        assert_eq!(stops, worker.is_none(), "who is gone is told so");
        stops
    }
}
