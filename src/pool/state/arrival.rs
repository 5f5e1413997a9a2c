//! The decision about an arrival.

use super::*;
use crate::pool::eligible::Eligible;

/// An arrival that was let in.
pub(in crate::pool) enum Entered {
    Started {
        assigned: Assigned,
        granted: Option<Instant>,
        /// Its id in the shadow of a dominion that is not enforced; 0 if it is not followed there.
        claim: ClaimId,
    },
    Parked {
        waiter: usize,
        deadline: Option<Instant>,
    },
}

impl State {
    /// The one decision about an arrival. Its class is an index into the policy of this generation.
    pub(in crate::pool) fn enter(
        &mut self,
        epoch: Instant,
        generation: u64,
        arrival: &Arrival<'_>,
        wakes: &mut WakeList,
    ) -> Result<Entered, Refusal> {
        if self.generation != generation {
            return Err(Refusal::Reloaded);
        }
        let entered = match self.shadow {
            Some(_) => self.admit_regardless(epoch, arrival),
            None => self.decide(epoch, arrival, wakes),
        };
        let totals = &mut self.totals[arrival.class];
        totals.arrived += 1;
        match &entered {
            Ok(Entered::Started { .. }) => {
                totals.admit(arrival.snapshot.cost());
                self.note_wait(arrival.class, Duration::ZERO);
            }
            Ok(Entered::Parked { .. }) => {}
            Err(refusal) => refusal
                .code()
                .into_iter()
                .for_each(|code| totals.rejected.add(code)),
        }
        entered
    }

    /// Admits a request to a dominion that is not enforced, and follows it in the shadow.
    fn admit_regardless(
        &mut self,
        epoch: Instant,
        arrival: &Arrival<'_>,
    ) -> Result<Entered, Refusal> {
        let Arrival {
            class, snapshot, ..
        } = *arrival;
        let mut claim = 0;
        if let Some(shadow) = &mut self.shadow {
            let next = self.claims + 1;
            if shadow.arrive(Instant::now(), epoch, arrival, next) {
                self.claims = next;
                claim = next;
            }
        }
        if self.closed {
            return Err(Refusal::Closed);
        }
        let eligible = self.workers.eligible(&arrival.wanted);
        let worker = self.workers.choose_regardless(class, eligible.as_ref());
        self.start(worker, snapshot.uncached());
        Ok(Entered::Started {
            assigned: self.workers.assigned(worker),
            granted: None,
            claim,
        })
    }

    fn decide(
        &mut self,
        epoch: Instant,
        arrival: &Arrival<'_>,
        wakes: &mut WakeList,
    ) -> Result<Entered, Refusal> {
        if self.closed {
            return Err(Refusal::Closed);
        }
        let Arrival {
            class, snapshot, ..
        } = *arrival;
        let eligible = self
            .workers
            .eligible(&arrival.wanted)
            .ok_or(Refusal::NoEligibleWorker)?;

        let nobody_waits = self.schedule.backlog(class).requests == 0;
        if nobody_waits && self.has_slot() {
            if let Some(worker) = self.workers.choose_dispatchable(class, &eligible) {
                // This may make a worker busy, never less busy: it makes nobody else dispatchable.
                self.start(worker, snapshot.uncached());
                // The drain rate matters only once slots run out: with some to spare, it is no reason to read
                // the clock.
                let timed = self.classes[class].max_hold || !self.has_slot();
                return Ok(Entered::Started {
                    assigned: self.workers.assigned(worker),
                    granted: timed.then(|| self.now()),
                    claim: 0,
                });
            }
        }
        self.park(epoch, arrival, eligible, wakes)
    }

    /// Queues an arrival that cannot start at once.
    fn park(
        &mut self,
        epoch: Instant,
        arrival: &Arrival<'_>,
        mut eligible: Eligible,
        wakes: &mut WakeList,
    ) -> Result<Entered, Refusal> {
        if self.reject {
            return Err(Refusal::Rejected);
        }
        let Arrival {
            class, snapshot, ..
        } = *arrival;
        // Checked before the other limits: it is the one that a client can do something about.
        let reached = |&max: &usize| self.clients.waiting(arrival.client) >= max;
        if let Some(max_queue_per_client) = self.max_queue_per_client.filter(reached) {
            return Err(Refusal::ClientLimit {
                max_queue_per_client,
            });
        }
        self.check_limits(class)?;
        if let Some(max_queue) = self.max_queue.filter(|&max| self.schedule.len() >= max) {
            return Err(Refusal::Full { max_queue });
        }

        if let Some(allowed) = arrival.wanted.allowed_workers {
            eligible.keep_names(allowed);
        }
        let lane = eligible.lane();
        let client = if self.fair {
            self.clients.join(arrival.client)
        } else {
            ClientId::SHARED
        };
        let rules = &self.classes[class];
        let arrived = self.now();
        let since_epoch = arrived.saturating_duration_since(epoch);
        let score = Score::new(
            rules.order,
            since_epoch,
            arrival.priority_jump,
            snapshot.cost(),
        );
        let wait = rules
            .max_queue_wait
            .into_iter()
            .chain(arrival.max_queue_wait)
            .min();
        self.arrivals += 1;
        let rank = Rank::new(arrival.strict_priority, score, self.arrivals);
        let waiter = self.waiters.vacant_key();
        let payload = Parked { waiter, eligible };
        let entry = Entry {
            class,
            lane,
            client,
            rank,
            snapshot,
            payload,
        };
        let key = self.schedule.push(entry, &self.workers);
        self.waiters.insert(Waiter {
            status: Status::Queued(key),
            waker: None,
            arrived,
            asked: Asked::new(arrival),
        });
        self.seniority.push(waiter);
        self.shares.mark(arrived, &self.totals);
        self.arbitrate(wakes);
        Ok(Entered::Parked {
            waiter,
            deadline: wait.and_then(|wait| arrived.checked_add(wait)),
        })
    }

    /// Compares a class's limits with what is already queued: the request that crosses one is still accepted.
    fn check_limits(&self, class: usize) -> Result<(), Refusal> {
        let queued = self.schedule.backlog(class);
        let limits = self.classes[class].limits;
        let workers = self.workers.count();
        for (kind, current, per_worker) in [
            (LimitKind::Requests, queued.requests, limits.requests),
            (
                LimitKind::RawIslTokens,
                queued.raw_tokens,
                limits.raw_isl_tokens,
            ),
            (
                LimitKind::CachedTokens,
                queued.cached_tokens,
                limits.cached_tokens,
            ),
        ] {
            if let Some(limit) = per_worker.map(|limit| limit.saturating_mul(workers)) {
                if current >= limit {
                    return Err(Refusal::ClassLimit {
                        kind,
                        current,
                        limit,
                    });
                }
            }
        }
        Ok(())
    }
}
