//! Which requests run in which dominion, counted where they run, independently of the layer's own counts.
//!
//! A limit may change while requests come and go, and lowering one revokes no slot. So this must hold for
//! each request when it begins: the number of requests that run, including this one, is at most the highest
//! limit that was in force at any time since it arrived. (When it got its slot, no more ran than the limit
//! of that moment, and since then the number has grown only under later limits.)

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use super::broken::{Broken, lock};

/// The slots of a dominion; `None` is unlimited.
pub(crate) type Cap = Option<usize>;

/// Clones share the books.
#[derive(Clone)]
pub(crate) struct Ledger {
    books: Arc<Mutex<Books>>,
    arrived: Arc<AtomicU64>,
    unplaced: Arc<AtomicU64>,
    broken: Broken,
}

#[derive(Default)]
struct Books {
    /// Counts the changes of limits so far, over all dominions.
    epoch: u64,
    accounts: HashMap<String, Account>,
    next: u64,
}

#[derive(Default)]
struct Account {
    /// Limits, each with the epoch in which it came into force.
    caps: Vec<(u64, Cap)>,
    /// By number, each with the time after which its slot may have been revoked.
    running: HashMap<u64, Option<Instant>>,
    begun: u64,
    failed: Failed,
    most: usize,
}

/// Requests that failed while they ran.
#[derive(Clone, Copy, Default)]
pub(crate) struct Failed {
    pub(crate) surely: u64,
    /// May have lost their slots before they failed.
    pub(crate) perhaps: u64,
}

/// When a request arrived at the layer.
#[derive(Clone, Copy)]
pub(crate) struct Arrived {
    epoch: u64,
    at: Instant,
}

/// A request that runs until this is dropped.
pub(crate) struct Running {
    books: Arc<Mutex<Books>>,
    dominion: String,
    number: u64,
    revocable: bool,
}

impl Ledger {
    pub(crate) fn new(broken: Broken) -> Self {
        Self {
            books: Arc::default(),
            arrived: Arc::default(),
            unplaced: Arc::default(),
            broken,
        }
    }

    /// Records that a request arrives.
    pub(crate) fn arrive(&self) -> Arrived {
        self.arrived.fetch_add(1, Ordering::Relaxed);
        Arrived {
            epoch: lock(&self.books).epoch,
            at: Instant::now(),
        }
    }

    /// Requests that have arrived.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    /// Puts limits in force by `change`. While it runs, the higher of the old and the new ones apply; if it
    /// fails, the old ones stay. Dominions that are not named keep theirs.
    pub(crate) fn change<T, E>(
        &self,
        caps: &[(&str, Cap)],
        change: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let mut before = Vec::new();
        {
            let books = &mut *lock(&self.books);
            books.epoch += 1;
            for &(dominion, cap) in caps {
                let account = books.accounts.entry(dominion.to_owned()).or_default();
                let old = account.caps.last().map_or(cap, |&(_, cap)| cap);
                account.caps.push((books.epoch, higher(old, cap)));
                before.push(old);
            }
        }
        let changed = change();
        let books = &mut *lock(&self.books);
        books.epoch += 1;
        for (&(dominion, cap), old) in caps.iter().zip(before) {
            if let Some(account) = books.accounts.get_mut(dominion) {
                let cap = if changed.is_ok() { cap } else { old };
                account.caps.push((books.epoch, cap));
            }
        }
        changed
    }

    /// Records that a request begins to run. Its slot may be revoked after `hold`.
    pub(crate) fn begin(
        &self,
        dominion: &str,
        arrived: Arrived,
        hold: Option<Duration>,
    ) -> Running {
        let books = &mut *lock(&self.books);
        let number = books.next;
        books.next += 1;
        let account = books.accounts.entry(dominion.to_owned()).or_default();
        account.begun += 1;
        // A lower bound: it got its slot after its arrival, so it may also lose it later than this.
        let until = hold.map(|hold| arrived.at + hold);
        account.running.insert(number, until);
        let now = Instant::now();
        let holding = account.running.values();
        let holding = holding
            .filter(|until| until.is_none_or(|until| now < until))
            .count();
        account.most = account.most.max(holding);
        let cap = account.highest_since(arrived.epoch);
        self.broken.check(cap.is_none_or(|cap| holding <= cap), || {
            format!("{holding} requests run in {dominion}, which has {cap:?} slots")
        });
        Running {
            books: Arc::clone(&self.books),
            dominion: dominion.to_owned(),
            number,
            revocable: hold.is_some(),
        }
    }

    /// Records that a request without a slot begins to run.
    pub(crate) fn begin_unplaced(&self) {
        self.unplaced.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests without a slot that ever began to run.
    pub(crate) fn unplaced(&self) -> u64 {
        self.unplaced.load(Ordering::Relaxed)
    }

    /// Requests that run now.
    pub(crate) fn running(&self) -> usize {
        let books = lock(&self.books);
        books.accounts.values().map(|it| it.running.len()).sum()
    }

    /// Requests that ever began to run in a dominion.
    pub(crate) fn begun(&self, dominion: &str) -> u64 {
        let books = lock(&self.books);
        books.accounts.get(dominion).map_or(0, |it| it.begun)
    }

    /// Requests that failed in a dominion.
    pub(crate) fn failed(&self, dominion: &str) -> Failed {
        let books = lock(&self.books);
        let account = books.accounts.get(dominion);
        account.map(|account| account.failed).unwrap_or_default()
    }

    /// The most that ran at a time, by dominion.
    pub(crate) fn most(&self) -> Vec<(String, usize)> {
        let books = lock(&self.books);
        let most = books.accounts.iter();
        let mut most: Vec<_> = most.map(|(id, it)| (id.clone(), it.most)).collect();
        most.sort();
        most
    }

    /// Forgets past limits. No request that arrived under them may still be under way.
    pub(crate) fn forget(&self) {
        for account in lock(&self.books).accounts.values_mut() {
            let gone = account.caps.len().saturating_sub(1);
            account.caps.drain(..gone);
        }
    }
}

impl Account {
    /// The highest limit that was in force in this epoch or later.
    fn highest_since(&self, epoch: u64) -> Cap {
        let first = self.caps.partition_point(|&(since, _)| since <= epoch);
        let caps = &self.caps[first.saturating_sub(1)..];
        caps.iter()
            .map(|&(_, cap)| cap)
            .reduce(higher)
            .unwrap_or_default()
    }
}

fn higher(one: Cap, other: Cap) -> Cap {
    one.zip(other).map(|(one, other)| one.max(other))
}

impl Running {
    /// Records that it fails.
    pub(crate) fn fail(&self) {
        let mut books = lock(&self.books);
        if let Some(account) = books.accounts.get_mut(&self.dominion) {
            *match self.revocable {
                true => &mut account.failed.perhaps,
                false => &mut account.failed.surely,
            } += 1;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut books = lock(&self.books);
        if let Some(account) = books.accounts.get_mut(&self.dominion) {
            account.running.remove(&self.number);
        }
    }
}
