//! The queues of a dominion: what waits, and what is served next.

use crate::config::FairUnit;

use super::{
    Backlog, Entry, Key, LaneId, class::Class, entries::Entries, indices::Indices, ring::Ring,
};

/// Says whether the head of a lane may go.
///
/// Asked when a lane gets a new head and on [`Schedule::recheck`]. The answer is cached in between: a change
/// to what it depends on must be followed by a recheck of the lanes concerned.
pub(crate) trait Gate<T> {
    fn open(&self, class: usize, payload: &T) -> bool;
}

/// The queues of a dominion, and whose turn it is.
#[derive(Debug)]
pub(crate) struct Schedule<T> {
    pub(super) entries: Entries<T>,
    pub(super) classes: Vec<Class>,
    /// Classes with backlog, dispatchable or not.
    pub(super) backlogged: Indices,
    pub(super) ring: Ring,
}

impl<T> Schedule<T> {
    /// A ring of classes with these quanta, in tokens, whose clients take turns by `unit`.
    pub(crate) fn new(quanta: impl IntoIterator<Item = u64>, unit: FairUnit) -> Self {
        Self::on(Ring::new(quanta), unit)
    }

    pub(super) fn on(ring: Ring, unit: FairUnit) -> Self {
        let classes = ring.len();
        Self {
            entries: Entries::new(),
            classes: (0..classes).map(|_| Class::new(unit)).collect(),
            backlogged: Indices::new(classes),
            ring,
        }
    }

    /// Waiting requests in all classes.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn backlog(&self, class: usize) -> Backlog {
        self.classes[class].backlog()
    }

    /// What a class has been credited and has not spent, in tokens.
    pub(crate) fn deficit(&self, class: usize) -> i128 {
        self.ring.deficit(class)
    }

    /// The heads that the gate lets through, asked again for each.
    #[cfg(test)]
    pub(crate) fn open_heads(&self, gate: &impl Gate<T>) -> usize {
        let heads = self
            .classes
            .iter()
            .enumerate()
            .flat_map(|(index, class)| class.heads().map(move |key| (index, key)));
        heads
            .filter(|&(class, key)| gate.open(class, &self.entries[key].payload))
            .count()
    }

    /// Where the next scan begins: the index of a class.
    pub(crate) fn cursor(&self) -> usize {
        self.ring.cursor()
    }

    /// The class in its burst.
    pub(crate) fn burst(&self) -> Option<usize> {
        self.ring.burst()
    }

    /// True if some head may go.
    pub(crate) fn is_dispatchable(&self) -> bool {
        self.ring.is_ready()
    }

    /// The classes with backlog, in ring order.
    pub(crate) fn backlogged(&self) -> impl Iterator<Item = usize> + '_ {
        self.backlogged.iter()
    }

    /// The waiting requests, in no order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry<T>> {
        self.entries.iter()
    }

    /// Adds a request. O(log n).
    pub(crate) fn push(&mut self, entry: Entry<T>, gate: &impl Gate<T>) -> Key {
        let key = self.entries.insert(entry);
        self.enqueue(key, gate);
        key
    }

    /// Puts an entry into the queue of its class.
    pub(super) fn enqueue(&mut self, key: Key, gate: &impl Gate<T>) {
        let Entry { class, lane, .. } = self.entries[key];
        if self.classes[class].is_empty() {
            self.backlogged.insert(class);
        }
        if self.classes[class].push(key, &mut self.entries) {
            self.recheck(class, lane, gate);
        }
    }

    /// Removes a request without serving it. O(log n).
    pub(crate) fn remove(&mut self, key: Key, gate: &impl Gate<T>) -> Option<Entry<T>> {
        let &Entry { class, lane, .. } = self.entries.get(key)?;
        if self.classes[class].remove(key, &mut self.entries) {
            self.recheck(class, lane, gate);
        }
        self.settle(class);
        self.entries.remove(key)
    }

    /// The payloads of the waiting requests, in no order. Heads about which the gate may answer differently
    /// afterwards must be rechecked.
    pub(crate) fn payloads_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.payloads_mut()
    }

    /// Asks the gate again about the head of a lane.
    pub(crate) fn recheck(&mut self, class: usize, lane: LaneId, gate: &impl Gate<T>) {
        let entries = &self.entries;
        let asked = &mut self.classes[class];
        asked.recheck(lane, |key| {
            let entry = &entries[key];
            gate.open(class, &entry.payload)
                .then(|| entry.snapshot.cost())
        });
        let price = asked.candidate().map(|(_, _, price)| price);
        self.ring.set_price(class, price);
    }

    /// Asks the gate again about all heads that a worker concerns: those of its own lanes and of the
    /// shared ones.
    pub(crate) fn recheck_worker(&mut self, worker: u32, gate: &impl Gate<T>) {
        let mut next = self.backlogged.next(0);
        while let Some(class) = next {
            self.recheck(class, LaneId::Worker(worker), gate);
            self.recheck(class, LaneId::Shared, gate);
            next = self.backlogged.next(class + 1);
        }
    }

    /// Takes tokens from a class's deficit for what it used beyond the cost of its requests, or, if
    /// they are negative, gives some back. It may go into debt, which it earns its way out of like
    /// out of any cost: by quanta, while it has backlog.
    pub(crate) fn charge(&mut self, class: usize, tokens: i128) {
        self.ring.charge(class, tokens);
        self.settle(class);
    }

    /// Removes and returns the request whose turn it is, if any may go.
    pub(crate) fn serve(&mut self, gate: &impl Gate<T>) -> Option<Entry<T>> {
        if !self.is_dispatchable() {
            return None;
        }
        let class = self.ring.turn()?;
        let (lane, key, price) = self.classes[class].candidate()?;
        self.ring.spend(class, price);
        self.classes[class].pop(lane, key, &mut self.entries);
        self.recheck(class, lane, gate);
        self.settle(class);
        self.entries.remove(key)
    }

    /// An emptied class leaves the ring.
    pub(super) fn settle(&mut self, class: usize) {
        if self.classes[class].is_empty() {
            self.backlogged.remove(class);
            self.ring.leave(class);
        }
    }
}
