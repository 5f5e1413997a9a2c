//! Workers that are eligible together.

use std::collections::BTreeSet;

/// Which worker is taken first: the one with the least prefill in tokens (saturated at 64 bits), then the
/// fewest requests (at 32 bits), then the lowest index. Kept small, as there is an ordered set of them.
pub(super) type Load = (u64, u32, u32);

/// All workers of a dominion, or those that serve a model, with counts of those that are open to every
/// request.
#[derive(Debug)]
pub(super) struct Group {
    members: Vec<u32>,
    /// How many of the members are open to every request.
    open: usize,
    /// The open members, the least loaded first. With only one member there is no choice, and no order is
    /// kept.
    by_load: BTreeSet<Load>,
    /// How many of the open members are busy, by bar.
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

    /// Adds a member that is open, and is not counted as busy yet. `state` returns a member's load, and
    /// whether it is open.
    pub(super) fn add(&mut self, member: u32, state: impl Fn(u32) -> (Load, bool)) {
        self.members.push(member);
        self.open += 1;
        // With the second member there is a choice: the first one has not been put in order yet.
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

    /// A member is opened or shut.
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

    /// An open member has become busy by this bar, or is busy no longer.
    pub(super) fn count_busy(&mut self, bar: usize, busy: bool) {
        let count = &mut self.busy[bar];
        *count = if busy { *count + 1 } else { *count - 1 };
    }

    fn is_ordered(&self) -> bool {
        self.members.len() > 1
    }
}
