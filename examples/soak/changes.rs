//! Changes to the layer while it is under load.

use std::time::Duration;

use fastrand::Rng;
use tokio::{sync::watch, time::sleep};
use tower_policy_queue::{ChangeError, PolicyQueueHandle, WorkerSpec};

use super::{
    broken::Broken,
    ledger::{Cap, Ledger},
    load::BoxError,
    policies::{Plan, WORKERS},
};

const TAINT: &str = "hot";

/// Makes the changes, one after the other.
pub(crate) struct Operator {
    pub(crate) handle: PolicyQueueHandle,
    pub(crate) ledger: Ledger,
    pub(crate) broken: Broken,
    rng: Rng,
    plan: Plan,
    /// Workers that were added and not yet removed.
    added: Vec<String>,
    counts: Counts,
    told: watch::Sender<Counts>,
}

/// Changes made so far.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) reloads: u64,
    pub(crate) workers: u64,
    pub(crate) conditions: u64,
    pub(crate) limits: u64,
    /// Those that were refused, such as changes to a worker that does not exist.
    pub(crate) refused: u64,
}

impl Operator {
    /// An operator that starts from the policy of `plan`, which must be in force.
    pub(crate) fn new(
        handle: PolicyQueueHandle,
        ledger: Ledger,
        broken: Broken,
        rng: Rng,
        plan: Plan,
    ) -> (Self, watch::Receiver<Counts>) {
        let (told, counts) = watch::channel(Counts::default());
        let operator = Self {
            handle,
            ledger,
            broken,
            rng,
            plan,
            added: Vec::new(),
            counts: Counts::default(),
            told,
        };
        (operator, counts)
    }

    /// Makes changes until the load is off.
    pub(crate) async fn disturb(&mut self, load: &watch::Receiver<bool>) -> Result<(), BoxError> {
        let mut until_reload = 0;
        while *load.borrow() {
            if until_reload == 0 {
                self.reload()?;
                until_reload = self.rng.usize(6..18);
            } else {
                self.change();
                until_reload -= 1;
            }
            self.told.send_replace(self.counts);
            sleep(Duration::from_millis(self.rng.u64(20..220))).await;
        }
        // Reopens all workers, so that no request waits long for one that takes none.
        for worker in WORKERS
            .iter()
            .copied()
            .chain(self.added.iter().map(String::as_str))
        {
            for open in [
                self.handle.drain_worker(worker, false),
                self.handle.set_overloaded(worker, false),
                self.handle.set_taint(worker, TAINT, false),
            ] {
                if let Err(error) = open {
                    self.broken
                        .check(matches!(error, ChangeError::UnknownWorker { .. }), || {
                            format!("a worker cannot be opened: {error}")
                        });
                }
            }
        }
        Ok(())
    }

    fn reload(&mut self) -> Result<(), BoxError> {
        let number = usize::try_from(self.counts.reloads)? + 1;
        let plan = Plan::new(&mut self.rng, number);
        let config = plan.config()?;
        self.ledger
            .change(&caps(&plan), || self.handle.reload(config))?;
        self.plan = plan;
        self.counts.reloads += 1;
        Ok(())
    }

    fn change(&mut self) {
        let (worker, yes) = (self.any_worker(), self.rng.u8(..5) == 0);
        let changed = match self.rng.u8(..20) {
            0..=1 => self.add(),
            2 => {
                self.added.retain(|id| *id != worker);
                self.counts.workers += 1;
                self.handle.remove_worker(&worker)
            }
            3..=7 => self.condition(|handle| handle.drain_worker(&worker, yes)),
            8..=9 => self.condition(|handle| handle.set_overloaded(&worker, yes)),
            10..=11 => self.condition(|handle| handle.set_taint(&worker, TAINT, yes)),
            12..=17 => self.slots(),
            _ => {
                let (dominion, places) = (self.any_dominion(), self.rng.usize(1..100));
                self.counts.limits += 1;
                self.handle.set_max_queue(&dominion, places)
            }
        };
        self.counts.refused += u64::from(changed.is_err());
    }

    fn add(&mut self) -> Result<(), ChangeError> {
        self.counts.workers += 1;
        let id = format!("added-{}", self.counts.workers);
        let (dominion, model) = [("a", "m-a"), ("b", "m-b")][self.rng.usize(..2)];
        let worker = WorkerSpec::new(&id).dominion(dominion).models([model]);
        self.handle.add_worker(worker)?;
        self.added.push(id);
        Ok(())
    }

    fn condition(
        &mut self,
        change: impl FnOnce(&PolicyQueueHandle) -> Result<(), ChangeError>,
    ) -> Result<(), ChangeError> {
        self.counts.conditions += 1;
        change(&self.handle)
    }

    fn slots(&mut self) -> Result<(), ChangeError> {
        self.counts.limits += 1;
        let dominion = self.any_dominion();
        let slots: Cap = (self.rng.u8(..12) > 0).then(|| self.rng.usize(1..14));
        let caps = [(&*dominion, slots)];
        // In a dominion that is not enforced, the limit applies only to what would be.
        let enforced = !self.plan.lenient.contains(&dominion);
        let caps = if enforced { &caps[..] } else { &[] };
        self.ledger
            .change(caps, || self.handle.set_max_concurrency(&dominion, slots))
    }

    fn any_worker(&mut self) -> String {
        let all = WORKERS.len() + self.added.len();
        let index = self.rng.usize(..all);
        match WORKERS.get(index) {
            Some(worker) => (*worker).to_owned(),
            None => self.added[index - WORKERS.len()].clone(),
        }
    }

    fn any_dominion(&mut self) -> String {
        let index = self.rng.usize(..self.plan.caps.len());
        self.plan.caps[index].0.clone()
    }
}

/// The slots of a policy's dominions.
pub(crate) fn caps(plan: &Plan) -> Vec<(&str, Cap)> {
    let caps = plan.caps.iter();
    caps.map(|(dominion, cap)| (&**dominion, *cap)).collect()
}
