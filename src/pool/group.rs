//! Workers that are eligible together.

use std::collections::BTreeSet;

/// Which worker is taken first: the least prefill, in tokens up to 2^64, then the fewest requests, up to
/// 2^32, then file order. In few bytes, as there is an order of them.
pub(super) type Load = (u64, u32, u32);

/// All workers of a dominion, or those that serve a model; with what can be said of those of them
/// that anybody may go to.
#[derive(Debug)]
pub(super) struct Group {
    members: Vec<u32>,
    /// How many of the members are open to everybody.
    open: usize,
    /// Those, the least loaded first. Where there is one member there is no choice, and no order is
    /// kept.
    by_load: BTreeSet<Load>,
    /// How many of those are busy, by bar.
    busy: Vec<usize>,
}

impl Group {
    pub(super) fn new(bars: usize) -> Self {
        Self {
            members: Vec::new(),
            open: 0,
            by_load: BTreeSet::new(),
            busy: vec![0; bars],
        }
    }

    pub(super) fn members(&self) -> &[u32] {
        &self.members
    }

    pub(super) fn open(&self) -> usize {
        self.open
    }

    pub(super) fn busy(&self, bar: usize) -> usize {
        self.busy[bar]
    }

    /// The least loaded of the open members for which `fits` holds.
    pub(super) fn least_loaded(&self, mut fits: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.is_ordered() {
            let mut by_load = self.by_load.iter().map(|&(_, _, worker)| worker);
            return by_load.find(|&worker| fits(worker));
        }
        let only = self.members.first().copied().filter(|_| self.open > 0);
        only.filter(|&worker| fits(worker))
    }

    /// Adds a member that is open, and not counted as busy. `state` tells a member's load, and whether it is open.
    pub(super) fn add(&mut self, member: u32, state: impl Fn(u32) -> (Load, bool)) {
        self.members.push(member);
        self.open += 1;
        // The second one is when a choice begins.
        let unordered = if self.members.len() == 2 {
            0
        } else {
            self.members.len() - 1
        };
        if self.is_ordered() {
            let states = self.members[unordered..]
                .iter()
                .map(|&member| state(member));
            self.by_load
                .extend(states.filter(|(_, open)| *open).map(|(load, _)| load));
        }
    }

    /// Removes a member that is shut.
    pub(super) fn remove(&mut self, member: u32) {
        self.members.retain(|&other| other != member);
        if !self.is_ordered() {
            self.by_load.clear();
        }
    }

    /// A member opens, or shuts.
    pub(super) fn set_open(&mut self, load: Load, open: bool) {
        if open {
            self.open += 1;
            if self.is_ordered() {
                self.by_load.insert(load);
            }
        } else {
            self.open -= 1;
            self.by_load.remove(&load);
        }
    }

    /// The load of an open member changes.
    pub(super) fn reorder(&mut self, old: Load, new: Load) {
        if self.is_ordered() {
            self.by_load.remove(&old);
            self.by_load.insert(new);
        }
    }

    /// An open member is busy by this bar from now on, or not any more.
    pub(super) fn count_busy(&mut self, bar: usize, busy: bool) {
        let count = &mut self.busy[bar];
        *count = if busy { *count + 1 } else { *count - 1 };
    }

    fn is_ordered(&self) -> bool {
        self.members.len() > 1
    }
}
