//! A look ahead: who will be served in which order, if nobody comes or goes.

use slab::Slab;

use super::{Entry, Gate, Schedule, class::Class, heap::Positions, indices::Indices};

/// What a [`Schedule::preview`] knows of a waiting request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<P> {
    /// Whether the gate would let it through.
    open: bool,
    pub(crate) shown: P,
}

/// The gate as it was when the preview was taken.
struct Remembered;

impl<P> Gate<Seen<P>> for Remembered {
    fn open(&self, _: usize, seen: &Seen<P>) -> bool {
        seen.open
    }
}

/// A gate that nobody guards.
struct Open;

impl<P> Gate<Seen<P>> for Open {
    fn open(&self, _: usize, _: &Seen<P>) -> bool {
        true
    }
}

impl<T> Schedule<T> {
    /// Copies the queues, as far as it takes to tell the next `limit` requests and as many of the
    /// blocked ones. `show` says what is to be known of each.
    ///
    /// It copies no more than `limit` requests of each client in as many lanes of each class.
    pub(crate) fn preview<P>(
        &self,
        limit: usize,
        gate: &impl Gate<T>,
        mut show: impl FnMut(&Entry<T>) -> P,
    ) -> Schedule<Seen<P>> {
        let mut positions = Positions::default();
        let classes: Vec<Class> = self
            .classes
            .iter()
            .map(|class| class.first(limit, &mut positions))
            .collect();
        let keys = classes.iter().flat_map(Class::keys);
        let copies = keys.filter_map(|key| {
            let entry = self.entries.get(key.index())?;
            let seen = Seen {
                open: gate.open(entry.class, &entry.payload),
                shown: show(entry),
            };
            let Entry {
                class,
                lane,
                client,
                rank,
                snapshot,
                ..
            } = *entry;
            let copy = Entry {
                class,
                lane,
                client,
                rank,
                snapshot,
                payload: seen,
            };
            Some((key.index(), copy))
        });
        let entries: Slab<Entry<Seen<P>>> = copies.collect();
        let mut backlogged = Indices::new(classes.len());
        (0..classes.len())
            .filter(|&class| !classes[class].is_empty())
            .for_each(|class| backlogged.insert(class));
        Schedule {
            backlogged,
            ready: self.ready.clone(),
            entries,
            positions,
            classes,
            cursor: self.cursor,
            burst: self.burst,
        }
    }
}

impl<P> Schedule<Seen<P>> {
    /// The requests in the order of service, as if each were served as soon as its turn has come;
    /// the blocked ones after all others, as if they were blocked no longer then. The number is
    /// that of those that are not blocked.
    pub(crate) fn into_order(mut self) -> (Vec<Entry<Seen<P>>>, usize) {
        let mut order = Vec::with_capacity(self.len());
        while let Some(entry) = self.serve(&Remembered) {
            order.push(entry);
        }
        let open = order.len();
        let lanes: Vec<_> = self
            .entries()
            .map(|entry| (entry.class, entry.lane))
            .collect();
        for (class, lane) in lanes {
            self.recheck(class, lane, &Open);
        }
        while let Some(entry) = self.serve(&Open) {
            order.push(entry);
        }
        (order, open)
    }
}
