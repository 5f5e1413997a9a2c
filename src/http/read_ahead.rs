//! The memory that a layer may spend on the bodies of parked requests.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Waker},
};

/// The bytes read ahead by all requests of a layer, and the readers that wait to read more.
///
/// A reader may exceed the limit by one frame, as a frame's size is known only once it is read.
#[derive(Debug)]
pub(super) struct Budget {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    limit: usize,
    used: usize,
    /// Paused readers, in the order in which they paused.
    paused: BTreeMap<u64, Waker>,
    next: u64,
}

impl State {
    fn has_room(&self) -> bool {
        self.used < self.limit
    }
}

/// A reader's place among the paused ones. It keeps the place if it is woken and finds no room.
#[derive(Debug, Default)]
pub(super) struct Place(Option<u64>);

impl Budget {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            state: Mutex::new(State {
                limit,
                ..State::default()
            }),
        }
    }

    /// True if there is room; otherwise the reader is woken when there may be.
    pub(super) fn has_room(&self, place: &mut Place, cx: &Context<'_>) -> bool {
        if self.lock().has_room() {
            return true;
        }
        // Wakers are cloned and dropped outside the lock, as they may run foreign code. So the room is
        // checked again below.
        let waker = cx.waker().clone();
        let mut state = self.lock();
        if state.has_room() {
            return true;
        }
        let id = *place.0.get_or_insert(state.next);
        state.next = state.next.max(id + 1);
        let replaced = state.paused.insert(id, waker);
        drop(state);
        drop(replaced);
        false
    }

    /// Changes how many bytes may be read ahead. Bytes already read stay.
    pub(super) fn set_limit(&self, limit: usize) {
        let mut state = self.lock();
        state.limit = limit;
        // Readers that find no room keep their places.
        let paused = std::mem::take(&mut state.paused);
        drop(state);
        paused.into_values().for_each(Waker::wake);
    }

    /// Counts bytes that were read.
    pub(super) fn take(&self, bytes: usize) {
        let mut state = self.lock();
        state.used = state.used.saturating_add(bytes);
    }

    /// Gives bytes back, and wakes the reader that has waited longest for room.
    pub(super) fn give_back(&self, bytes: usize) {
        if bytes == 0 {
            // No room was gained.
            return;
        }
        let mut state = self.lock();
        state.used = state.used.saturating_sub(bytes);
        self.wake_next(state);
    }

    /// The reader needs no more room; if it had paused, its turn passes to the next one.
    pub(super) fn leave(&self, place: &mut Place) {
        if let Some(id) = place.0.take() {
            let mut state = self.lock();
            let waker = state.paused.remove(&id);
            self.wake_next(state);
            drop(waker);
        }
    }

    fn wake_next(&self, mut state: MutexGuard<'_, State>) {
        let next = if state.has_room() {
            state.paused.pop_first()
        } else {
            None
        };
        drop(state);
        if let Some((_, waker)) = next {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes currently read ahead.
    pub(super) fn used(&self) -> usize {
        self.lock().used
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_test::task::spawn;

    #[test]
    fn room_goes_to_the_reader_that_waits_longest_and_on_to_the_next() {
        let budget = Budget::new(10);
        budget.take(10);
        let mut readers: Vec<_> = (0..3).map(|_| (spawn(()), Place::default())).collect();
        for (task, place) in &mut readers {
            assert!(!task.enter(|cx, _| budget.has_room(place, cx)));
        }
        budget.give_back(1);
        let woken: Vec<bool> = readers.iter().map(|(task, _)| task.is_woken()).collect();
        assert_eq!(woken, [true, false, false]);

        // It leaves before it reads: the room is not lost.
        budget.leave(&mut readers[0].1);
        assert!(readers[1].0.is_woken());
        budget.take(1);
        budget.leave(&mut readers[1].1);
        assert!(!readers[2].0.is_woken(), "there is no room left");
        budget.give_back(10);
        assert!(readers[2].0.is_woken());
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_reader_that_is_woken_in_vain_keeps_its_place() {
        let budget = Budget::new(1);
        budget.take(1);
        let (mut early, mut late) = ((spawn(()), Place::default()), (spawn(()), Place::default()));
        early
            .0
            .enter(|cx, _| assert!(!budget.has_room(&mut early.1, cx)));
        late.0
            .enter(|cx, _| assert!(!budget.has_room(&mut late.1, cx)));
        budget.give_back(1);
        budget.take(1);
        early
            .0
            .enter(|cx, _| assert!(!budget.has_room(&mut early.1, cx)));
        budget.give_back(1);
        assert!(early.0.is_woken() && !late.0.is_woken());
    }
}
