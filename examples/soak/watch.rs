//! What must hold at any time, and what must hold when there are no requests.

use std::time::Duration;

use tokio::time::{Instant, interval, sleep};
use tower_policy_queue::{DominionSnapshot, PolicyQueueHandle, Totals, Usage};

use super::{backend::Orders, broken::Broken, ledger::Ledger, policies::READ_AHEAD, tally::Tally};

/// How soon everything must be released once the last client has its answer or is gone. The server notices
/// that a client has gone at its next read.
const SETTLED_WITHIN: Duration = Duration::from_secs(20);

/// What may be read ahead beyond the limit: connections read a frame at a time, and each reader may exceed
/// the limit by one frame.
const FRAMES: usize = 128 * 16 * 1024;

#[derive(Clone)]
pub(crate) struct Watch {
    pub(crate) handle: PolicyQueueHandle,
    pub(crate) ledger: Ledger,
    pub(crate) tally: Tally,
    pub(crate) orders: Orders,
    pub(crate) broken: Broken,
}

impl Watch {
    /// Checks, ten times a second, what must hold at any time.
    pub(crate) async fn always(self) {
        let mut ticks = interval(Duration::from_millis(100));
        loop {
            ticks.tick().await;
            self.look();
        }
    }

    fn look(&self) {
        let snapshot = self.handle.snapshot_of(3);
        for dominion in &snapshot.dominions {
            let id = dominion.id.as_deref().unwrap_or("-");
            let idle = dominion.idle_beside_waiter_ms;
            self.broken.check(idle == 0, || {
                format!("in {id} a slot was free beside a waiter for {idle} ms")
            });
            let (arrived, settled) = (
                total(dominion, |it| it.arrived),
                total(dominion, Totals::settled),
            );
            let present = (dominion.in_use + dominion.waiting) as u64;
            self.broken.check(arrived == settled + present, || {
                format!(
                    "in {id} {arrived} requests arrived, {settled} are settled, {} run and {} wait",
                    dominion.in_use, dominion.waiting
                )
            });
            let queued: u64 = dominion.classes.iter().map(|class| class.queued).sum();
            let listed = dominion.waiters.len() + dominion.waiters_omitted;
            self.broken.check(
                queued == dominion.waiting as u64 && listed == dominion.waiting,
                || {
                    format!(
                        "in {id} {} wait, {queued} in classes, {listed} in line",
                        dominion.waiting
                    )
                },
            );
        }
        let ahead = snapshot.usage.read_ahead_bytes;
        self.broken.check(ahead <= READ_AHEAD + FRAMES, || {
            format!("{ahead} bytes are read ahead")
        });
    }

    /// Waits until there are no requests, and checks what must then hold.
    pub(crate) async fn quiet(&self) {
        // This ends, as each client gives up in time by itself (and then reports a broken invariant).
        while self.tally.under_way() > 0 {
            sleep(Duration::from_millis(5)).await;
        }
        let since = Instant::now();
        while (self.ledger.running() > 0 || self.handle.usage() != Usage::default())
            && since.elapsed() < SETTLED_WITHIN
        {
            sleep(Duration::from_millis(5)).await;
        }
        let (usage, running, orders) = (
            self.handle.usage(),
            self.ledger.running(),
            self.orders.len(),
        );
        self.broken.check(usage == Usage::default(), || {
            format!("nobody is there, and the layer has in hand {usage:?}")
        });
        self.broken.check(running == 0, || {
            format!("nobody is there, and {running} requests run")
        });
        self.broken.check(orders == 0, || {
            format!("nobody is there, and {orders} orders are open")
        });
        self.look();
        self.recount();
        self.ledger.forget();
    }

    /// Compares the layer's counts with those taken before and behind it.
    fn recount(&self) {
        let snapshot = self.handle.snapshot();
        let mut placed = snapshot.unplaced.rejected.total();
        for dominion in &snapshot.dominions {
            placed += total(dominion, |it| it.arrived);
            let id = dominion.id.as_deref().unwrap_or("-");
            let present = dominion.in_use + dominion.waiting + dominion.waiters.len();
            let prefill: u64 = dominion.workers.iter().map(|it| it.prefill_tokens).sum();
            let in_flight: u64 = dominion.workers.iter().map(|it| it.in_flight).sum();
            self.broken
                .check(present == 0 && prefill == 0 && in_flight == 0, || {
                    format!("nobody is in {id}, which looks like {dominion:?}")
                });

            let begun = self.ledger.begun(id);
            let admitted = total(dominion, |it| it.admitted);
            // These had a slot, but the service behind was not called.
            let unseen = total(dominion, |it| it.cancelled.granted);
            let late = total(dominion, |it| it.rejected.get("hold_timeout"));
            let expected = admitted.saturating_sub(unseen + late)..=admitted.saturating_sub(unseen);
            self.broken.check(expected.contains(&begun), || {
                format!("in {id} {begun} requests ran, and the layer says {expected:?}")
            });
            let failed = self.ledger.failed(id);
            let expected = failed.surely..=failed.surely + failed.perhaps;
            let counted = total(dominion, |it| it.failed);
            self.broken.check(expected.contains(&counted), || {
                format!("in {id} {expected:?} requests failed, and the layer says {counted}")
            });
        }
        let (unplaced, passed) = (snapshot.unplaced.rejected.total(), self.ledger.unplaced());
        self.broken.check(passed <= unplaced, || {
            format!("{passed} requests ran without a slot, and the layer knows of {unplaced}")
        });
        // At most, as removed dominions took their counts with them.
        let arrived = self.ledger.arrived();
        self.broken.check(placed <= arrived, || {
            format!("{arrived} requests came, and the layer counts {placed}")
        });
    }

    /// What became of the requests of existing dominions, by the layer's counts.
    pub(crate) fn totals(&self) -> Vec<(&'static str, u64)> {
        let snapshot = self.handle.snapshot_of(0);
        let sum = |count: fn(&Totals) -> u64| -> u64 {
            snapshot.dominions.iter().map(|it| total(it, count)).sum()
        };
        vec![
            ("admitted", sum(|it| it.admitted)),
            ("of these after waiting", sum(|it| it.waited)),
            ("completed", sum(|it| it.completed)),
            ("failed", sum(|it| it.failed)),
            ("cancelled while queued", sum(|it| it.cancelled.queued)),
            ("cancelled on the grant", sum(|it| it.cancelled.granted)),
            ("cancelled while running", sum(|it| it.cancelled.running)),
            ("turned away", sum(|it| it.rejected.total())),
            ("revoked", sum(|it| it.revoked)),
        ]
    }
}

/// The total over all classes of a dominion, including removed ones.
fn total(dominion: &DominionSnapshot, count: impl Fn(&Totals) -> u64) -> u64 {
    let classes = dominion.classes.iter().map(|class| &class.totals);
    classes.chain([&dominion.former_classes]).map(count).sum()
}
