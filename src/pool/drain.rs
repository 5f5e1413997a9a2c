//! How fast a dominion drains, and how long a newcomer would wait.

use std::time::Duration;

/// The weight of the newest sample in the running means, by which the last few dozen requests count.
const NEWEST: f64 = 1.0 / 16.0;

/// Running means over the requests that a dominion has finished.
#[derive(Debug, Default)]
pub(super) struct Drain {
    /// The tokens that a request costs, and the seconds for which it holds its slot; `None` before the first.
    means: Option<(f64, f64)>,
    /// How many estimates have been given so far.
    given: u32,
}

/// The work ahead of a newcomer of some class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    /// Tokens that are served until it is done, including its own.
    pub(super) tokens: f64,
    /// Requests that are served at the same time.
    pub(super) slots: usize,
}

impl Drain {
    /// A request of this cost, in tokens, gave its slot back.
    pub(super) fn finished(&mut self, cost: u64, held: Duration) {
        let sample = (cost as f64, held.as_secs_f64());
        let mean = |mean: f64, sample: f64| mean + NEWEST * (sample - mean);
        self.means = Some(match self.means {
            None => sample,
            Some((cost, held)) => (mean(cost, sample.0), mean(held, sample.1)),
        });
    }

    /// What an average request costs, in tokens; `None` before the first has finished.
    pub(super) fn mean_cost(&self) -> Option<f64> {
        self.means.map(|(cost, _)| cost)
    }

    /// How long a newcomer would wait, in seconds; `None` before the first request has finished.
    pub(super) fn seconds(&self, ahead: Ahead) -> Option<f64> {
        self.means.map(|(cost, held)| {
            let requests = ahead.tokens / cost.max(1.0);
            requests * held / ahead.slots.max(1) as f64
        })
    }

    /// When it is worth retrying: after 1 to 60 seconds, spread a little so that requests that were turned
    /// away together do not come back together.
    pub(super) fn retry_after(&mut self, ahead: Ahead) -> Duration {
        let seconds = self.seconds(ahead).unwrap_or(0.0);
        self.given = self.given.wrapping_add(1);
        // The fractions of multiples of the golden ratio spread evenly between 0 and 1, in a fixed order.
        let spread = (f64::from(self.given) * 0.618_033_988_75).fract();
        // Spread after the bounds, so that it is not lost at them.
        Duration::from_secs_f64(seconds.clamp(1.0, 48.0) * (1.0 + spread / 4.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(drain: &mut Drain, tokens: f64, slots: usize) -> f64 {
        drain.retry_after(Ahead { tokens, slots }).as_secs_f64()
    }

    #[test]
    fn the_estimate_is_the_tokens_ahead_over_the_rate_of_the_slots() {
        let mut drain = Drain::default();
        for _ in 0..100 {
            drain.finished(100, Duration::from_secs(2));
        }
        // Two slots of 100 tokens in 2 seconds: 100 tokens a second.
        let estimate = seconds(&mut drain, 1000.0, 2);
        assert!((10.0..=12.5).contains(&estimate), "{estimate}");
    }

    #[test]
    fn it_stays_between_one_and_sixty_seconds_whatever_was_measured() {
        let mut drain = Drain::default();
        let soon = seconds(&mut drain, 1e12, 1);
        assert!((1.0..1.25).contains(&soon), "nothing is known yet: {soon}");
        drain.finished(0, Duration::ZERO);
        let soon = seconds(&mut drain, 1e12, 0);
        assert!((1.0..1.25).contains(&soon), "{soon}");
        drain.finished(1, Duration::from_secs(1_000_000));
        let late = seconds(&mut drain, f64::MAX, 1);
        assert!((48.0..=60.0).contains(&late), "{late}");
    }

    #[test]
    fn it_is_spread_at_its_bounds_too() {
        let mut drain = Drain::default();
        let told: Vec<f64> = (0..20).map(|_| seconds(&mut drain, 1.0, 1)).collect();
        let (least, most) = (
            told.iter().cloned().fold(f64::MAX, f64::min),
            told.iter().cloned().fold(0.0, f64::max),
        );
        assert!(most - least > 0.2, "{least} to {most}");
    }

    #[test]
    fn neighbours_are_told_different_times() {
        let mut drain = Drain::default();
        drain.finished(1, Duration::from_secs(10));
        let first = seconds(&mut drain, 1.0, 1);
        let second = seconds(&mut drain, 1.0, 1);
        assert!((first - second).abs() > 0.1, "{first} {second}");
    }
}
