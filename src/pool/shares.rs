//! What share of the tokens each class has been served lately.
//!
//! The counts are sampled now and then, where the time is known anyway, and the samples are kept for a
//! minute. So a request that does not wait pays nothing for this.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

use super::tally::Totals;

/// How far back it looks.
const WINDOW: Duration = Duration::from_secs(60);

/// How often the counts are sampled.
const STEP: Duration = Duration::from_secs(5);

/// The tokens served by class, at some moments of the last minute and at one before it.
#[derive(Debug)]
pub(super) struct Shares {
    marks: VecDeque<Mark>,
    /// When the next mark is due: a step after the last one.
    due: Instant,
}

#[derive(Debug)]
struct Mark {
    at: Instant,
    tokens_served: Box<[u64]>,
}

impl Mark {
    fn new(at: Instant, totals: &[Totals]) -> Self {
        let tokens_served = totals.iter().map(|class| class.tokens_served).collect();
        Self { at, tokens_served }
    }
}

impl Shares {
    pub(super) fn new(now: Instant, totals: &[Totals]) -> Self {
        Self {
            marks: VecDeque::from([Mark::new(now, totals)]),
            due: now + STEP,
        }
    }

    /// Samples the counts, if it is time to.
    pub(super) fn mark(&mut self, now: Instant, totals: &[Totals]) {
        if now >= self.due {
            self.push(now, totals);
        }
    }

    /// Samples the counts in any case: so whoever looks now and then sees only the last minute, even where
    /// nobody waits.
    pub(super) fn look(&mut self, now: Instant, totals: &[Totals]) {
        // Replaces the last mark if the one before it is recent, so that they stay few.
        let before = self.marks.iter().nth_back(1).map(|mark| mark.at);
        if before.is_some_and(|before| now.saturating_duration_since(before) < STEP) {
            self.marks.pop_back();
        }
        self.push(now, totals);
    }

    fn push(&mut self, now: Instant, totals: &[Totals]) {
        self.marks.push_back(Mark::new(now, totals));
        self.due = now + STEP;
        // One mark at least as old as the window stays: there the window begins.
        let old = |mark: &Mark| now.saturating_duration_since(mark.at) >= WINDOW;
        while self.marks.get(1).is_some_and(old) {
            self.marks.pop_front();
        }
    }

    /// The tokens served by class since a moment about a minute ago, and how long ago that is.
    pub(super) fn served(&self, now: Instant, totals: &[Totals]) -> (Duration, Vec<u64>) {
        let window = |mark: &Mark| now.saturating_duration_since(mark.at);
        let recent = self.marks.iter().rev().find(|mark| window(mark) >= WINDOW);
        let Some(mark) = recent.or(self.marks.front()) else {
            return (Duration::ZERO, vec![0; totals.len()]);
        };
        let served = totals.iter().zip(&mark.tokens_served);
        let served = served.map(|(class, before)| class.tokens_served.saturating_sub(*before));
        (window(mark), served.collect())
    }

    /// The classes have changed: `former` holds the old index of each.
    pub(super) fn rearrange(&mut self, former: &[Option<usize>]) {
        for mark in &mut self.marks {
            let count = |class: &Option<usize>| class.map_or(0, |class| mark.tokens_served[class]);
            mark.tokens_served = former.iter().map(count).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(tokens: [u64; 2]) -> [Totals; 2] {
        tokens.map(|tokens_served| Totals {
            tokens_served,
            ..Totals::default()
        })
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_served_more_than_a_minute_ago_is_left_out() {
        let start = Instant::now();
        let mut shares = Shares::new(start, &totals([0, 0]));
        let after = |seconds| start + Duration::from_secs(seconds);
        for second in 0..=300_u64 {
            // A hundred tokens a second, of the one class first, then of the other.
            let tokens = [100 * second.min(150), 100 * second.saturating_sub(150)];
            shares.mark(after(second), &totals(tokens));
            assert!(shares.marks.len() <= 14, "it keeps a minute of marks");
        }
        let (window, served) = shares.served(after(300), &totals([15_000, 15_000]));
        assert_eq!((window.as_secs(), served), (60, vec![0, 6_000]));
    }

    #[tokio::test(start_paused = true)]
    async fn who_looks_often_keeps_no_more_marks() {
        let start = Instant::now();
        let mut shares = Shares::new(start, &totals([0, 0]));
        for look in 0..30_000_u64 {
            let now = start + Duration::from_millis(10 * look);
            shares.mark(now, &totals([look, 0]));
            shares.look(now, &totals([look, 1]));
            assert!(shares.marks.len() <= 2 * 14, "{}", shares.marks.len());
        }
        let end = start + Duration::from_secs(300);
        let (window, served) = shares.served(end, &totals([30_000, 1]));
        assert!((60..65).contains(&window.as_secs()), "{window:?}");
        assert_eq!(served[0], window.as_millis() as u64 / 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_younger_layer_says_how_much_it_has_seen() {
        let start = Instant::now();
        let shares = Shares::new(start, &totals([0, 0]));
        let (window, served) = shares.served(start + Duration::from_secs(7), &totals([3, 4]));
        assert_eq!((window.as_secs(), served), (7, vec![3, 4]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_class_keeps_its_share_wherever_it_moves() {
        let start = Instant::now();
        let mut shares = Shares::new(start, &totals([10, 20]));
        shares.rearrange(&[None, Some(1), Some(0)]);
        let now: Vec<Totals> = [5, 21, 12]
            .map(|tokens_served| Totals {
                tokens_served,
                ..Totals::default()
            })
            .into();
        let (_, served) = shares.served(start, &now);
        assert_eq!(served, vec![5, 1, 2]);
    }
}
