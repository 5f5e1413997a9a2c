//! The permit: a slot, from the grant to the end of the response body.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    Pool,
    alarm::Alarm,
    meter::Stopwatch,
    output::Output,
    revocation::{Revocation, Revoked},
    shadow::ClaimId,
    tally::Stage,
    workers::Assigned,
};
use crate::{
    config::{PolicyClass, PolicyConfig, Worker},
    schedule::Snapshot,
    sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering},
    trace,
};

/// What was granted to a request, shared by its permit, its holds and its admission.
///
/// The slot is counted separately from the value: an admission that is kept around keeps no slot.
pub(crate) struct Grant {
    pool: Arc<Pool>,
    class: usize,
    pub(super) assigned: Assigned,
    pub(super) snapshot: Snapshot,
    /// Known at least where it matters: to end the hold, or to measure how fast a full dominion drains.
    pub(super) granted: Option<Instant>,
    queued_for: Duration,
    /// Started when the request went on.
    pub(super) stopwatch: Stopwatch,
    /// How far it has come: a [`Stage`].
    stage: AtomicU8,
    /// Whether the uncached tokens still load the worker.
    prefill: AtomicBool,
    /// Whether they continue to do so after the slot is given back: see [`Permit::into_prefill`].
    outlives: AtomicBool,
    /// How many hold the slot: the permit and its shares, the last of which gives it back. With
    /// [`TAKEN_BACK`] set once the pool has taken it back itself.
    holders: AtomicUsize,
    /// Its id in the shadow of a dominion that is not enforced; 0 if it is not followed there.
    pub(super) claim: ClaimId,
    /// In a box, as few grants have one.
    pub(super) revocation: Option<Box<Revocation>>,
}

/// Marks a count of holders whose slot was revoked.
const TAKEN_BACK: usize = 1 << (usize::BITS - 1);

impl Grant {
    pub(crate) fn class(&self) -> &PolicyClass {
        &self.pool.policy.classes[self.class]
    }

    /// The class's index in the policy of [`pool`](Self::pool).
    pub(super) fn class_index(&self) -> usize {
        self.class
    }

    pub(super) fn stage(&self) -> Stage {
        Stage::from_u8(self.stage.load(Ordering::Acquire))
    }

    /// The request has come this far. Once it is over, its stage is final.
    #[inline]
    pub(crate) fn reach(&self, stage: Stage) {
        if self.stage() < Stage::Completed {
            self.stage.store(stage as u8, Ordering::Release);
            if stage == Stage::Streaming && self.claim != 0 {
                self.tell_shadow_of_head();
            }
        }
    }

    fn tell_shadow_of_head(&self) {
        if let Some(shadow) = self.pool.lock().shadow_of(self.claim) {
            shadow.head(Instant::now(), self.claim);
        }
    }

    /// The policy that was in force when it was granted.
    pub(crate) fn policy(&self) -> &PolicyConfig {
        &self.pool.policy
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    pub(crate) fn dominion(&self) -> Option<&Arc<str>> {
        self.pool.id()
    }

    pub(crate) fn worker(&self) -> Option<&Worker> {
        self.assigned.worker.as_deref()
    }

    /// From the arrival to the grant.
    pub(crate) fn queued_for(&self) -> Duration {
        self.queued_for
    }

    /// Keeps the slot past the request's own permit; `None` if it was already given back.
    pub(crate) fn share(self: &Arc<Self>) -> Option<Share> {
        let one_more =
            |holders: usize| (holders > 0 && holders < TAKEN_BACK).then_some(holders + 1);
        let counted = self
            .holders
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
        counted.is_ok().then(|| Share {
            grant: Arc::clone(self),
        })
    }

    /// Takes the slot from its holders; false if they no longer have it.
    pub(super) fn take_back(&self) -> bool {
        let mark =
            |holders: usize| (holders > 0 && holders < TAKEN_BACK).then_some(holders | TAKEN_BACK);
        self.holders
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, mark)
            .is_ok()
    }

    /// True once its holders have lost the slot.
    pub(super) fn is_taken_back(&self) -> bool {
        self.holders.load(Ordering::Acquire) >= TAKEN_BACK
    }

    /// The prefill that ends with the slot, in tokens.
    pub(super) fn prefill_at_release(&self) -> u64 {
        if self.outlives.load(Ordering::Acquire) {
            return 0;
        }
        self.take_prefill()
    }

    /// Takes the prefill that is left, in tokens; from then on the result is 0.
    fn take_prefill(&self) -> u64 {
        // A load first: most calls come after the first byte.
        let pending =
            self.prefill.load(Ordering::Acquire) && self.prefill.swap(false, Ordering::AcqRel);
        if pending { self.snapshot.uncached() } else { 0 }
    }

    fn end_prefill(&self) {
        let uncached = self.take_prefill();
        if uncached > 0 {
            let worker = self.assigned.index;
            self.pool.with_state(|state, wakes| {
                if let Some(shadow) = state.shadow_of(self.claim) {
                    shadow.first_byte(Instant::now(), self.claim);
                }
                state.end_prefill(worker, uncached, wakes);
            });
        }
    }

    /// Removes one holder; true if that was the last.
    fn release_one(&self) -> bool {
        let before = self.holders.fetch_sub(1, Ordering::AcqRel);
        if before == 1 {
            let ended = self.granted.map(|_| Instant::now());
            self.pool
                .with_state(|state, wakes| state.release(self, ended, wakes));
            if let Some(stage) = self.stage().cancelled() {
                trace::cancelled(stage, &self.class().name, self.dominion().map(|id| &**id));
            }
        }
        before == 1
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant")
            .field("class", &self.class().name)
            .field("dominion", &self.dominion())
            .field("worker", &self.worker().map(|worker| &worker.id))
            .field("queued_for", &self.queued_for)
            .finish_non_exhaustive()
    }
}

/// A request's slot, from its grant to the end of its response.
#[derive(Debug)]
pub(crate) struct Permit {
    grant: Arc<Grant>,
    /// Ends the hold if its class limits it.
    alarm: Alarm,
    /// The hold has expired: its other holders lose the slot, too.
    expired: bool,
    /// Counts the output that its class is charged for; `None` if it is charged for nothing.
    output: Option<Box<Output>>,
}

/// A request's prefill after its slot was given back, until its first byte or its end.
#[derive(Debug)]
pub(crate) struct Prefill {
    grant: Arc<Grant>,
}

impl Prefill {
    /// The first data frame has come.
    pub(crate) fn end(&self) {
        self.grant.end_prefill();
    }
}

impl Drop for Prefill {
    fn drop(&mut self) {
        self.grant.end_prefill();
    }
}

/// A further claim on a request's slot, which may outlive the request.
#[derive(Debug)]
pub(crate) struct Share {
    grant: Arc<Grant>,
}

impl Permit {
    /// The permit of a slot that the pool has just counted as taken.
    pub(super) fn new(
        pool: &Arc<Pool>,
        class: usize,
        snapshot: Snapshot,
        assigned: Assigned,
        granted: Option<Instant>,
        queued_for: Option<Duration>,
        claim: ClaimId,
    ) -> Self {
        let rules = &pool.policy.classes[class];
        // A request that did not wait took nobody's turn: its class is charged for nothing.
        let charged = queued_for.is_some() && rules.output_token_weight > 0.0;
        let expires = granted
            // Where nothing is enforced, no hold expires.
            .filter(|_| pool.policy.enforces(pool.dominion))
            .zip(rules.max_hold)
            .and_then(|(granted, hold)| granted.checked_add(hold));
        let local = assigned
            .worker
            .as_ref()
            .is_some_and(|worker| worker.endpoint.is_none());
        let revocable = expires.is_some() || local;
        let grant = Arc::new(Grant {
            pool: Arc::clone(pool),
            class,
            assigned,
            snapshot,
            granted,
            queued_for: queued_for.unwrap_or_default(),
            stopwatch: Stopwatch::start(),
            stage: AtomicU8::new(Stage::Granted as u8),
            prefill: AtomicBool::new(true),
            outlives: AtomicBool::new(false),
            holders: AtomicUsize::new(1),
            claim,
            revocation: revocable.then(|| Box::new(Revocation::new(expires))),
        });
        let permit = Self {
            grant,
            alarm: Alarm::default(),
            expired: false,
            output: charged.then(Box::default),
        };
        if revocable {
            pool.with_state(|state, wakes| state.register(&permit.grant, wakes));
        }
        permit
    }

    #[inline]
    pub(crate) fn grant(&self) -> &Arc<Grant> {
        &self.grant
    }

    /// The first data frame has come: the worker's prefill of this request is over.
    pub(crate) fn end_prefill(&self) {
        self.grant.end_prefill();
    }

    /// Gives the slot back, but not what is left of the request's prefill.
    pub(crate) fn into_prefill(self) -> Prefill {
        let grant = Arc::clone(&self.grant);
        grant.outlives.store(true, Ordering::Release);
        // Made before the permit is dropped, as that wakes others, and a waker may panic.
        let prefill = Prefill { grant };
        drop(self);
        prefill
    }

    /// Reads bytes of the response as they pass.
    #[inline]
    pub(crate) fn read_output(&mut self, bytes: &[u8]) {
        if let Some(output) = &mut self.output {
            output.read(bytes);
        }
    }

    /// Charges the class for the output, or gives it the request's cost back if there was none. It does
    /// neither for a request that completed without output, be it that its response has no bytes, or that its
    /// slot was given back before they came.
    fn settle_output(&self, output: &Output) {
        let grant = &self.grant;
        let charge = match output.is_empty() {
            true if grant.stage() == Stage::Completed => return,
            true => -i128::from(grant.snapshot.cost()),
            // Float to integer casts saturate.
            false => (grant.class().output_token_weight * output.tokens() as f64).round() as i128,
        };
        grant.pool.with_state(|state, _| {
            if let Some(class) = state.class_now(&grant.pool, grant.class) {
                state.schedule.charge(class, charge);
            }
        });
    }

    /// Ready once the slot was taken back, or will be when the permit is dropped: whatever runs under it must
    /// stop before that.
    #[inline]
    pub(crate) fn poll_revoked(&mut self, cx: &mut Context<'_>) -> Poll<Revoked> {
        match self.grant.revocation {
            Some(_) => self.poll_revocation(cx),
            None => Poll::Pending,
        }
    }

    fn poll_revocation(&mut self, cx: &mut Context<'_>) -> Poll<Revoked> {
        let Some(revocation) = &self.grant.revocation else {
            return Poll::Pending;
        };
        if let Some(expires) = revocation.expires.filter(|_| !self.expired) {
            self.expired = self.alarm.poll(expires, cx).is_ready();
        }
        if self.expired {
            let reason = revocation.reason();
            return Poll::Ready(reason.unwrap_or(Revoked::HoldExpired));
        }
        revocation.poll(cx)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.grant.reach(Stage::Failed);
        }
        // Before the slot is passed on, so that the next decision knows of it.
        if let Some(output) = self.output.take() {
            self.settle_output(&output);
        }
        if self.expired {
            self.grant.pool.revoke(&self.grant, Revoked::HoldExpired);
        }
        if !self.grant.release_one() && !self.grant.outlives.load(Ordering::Acquire) {
            // A share keeps the slot, but the request is over.
            self.grant.end_prefill();
        }
    }
}

impl Clone for Share {
    fn clone(&self) -> Self {
        // `self` is a holder, so the count is not zero and stays so meanwhile.
        self.grant.holders.fetch_add(1, Ordering::AcqRel);
        Self {
            grant: Arc::clone(&self.grant),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.grant.release_one();
    }
}

impl Share {
    pub(crate) fn grant(&self) -> &Arc<Grant> {
        &self.grant
    }
}
