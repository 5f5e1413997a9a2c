//! The order of requests inside a class.

use std::{
    cmp::{Ordering, Reverse},
    time::Duration,
};

use crate::config::QueuePolicy;

/// Nanoseconds, and 146 years: a jump that goes further back than this is too far for exact integers.
const FAR: f64 = (1_u64 << 62) as f64;

/// The position of a request by its class's queue policy; the smallest goes first.
///
/// An integer whatever the policy, so that it is totally ordered and equal scores are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Score(u64);

impl Score {
    /// The score of a request that arrived `arrival` after the queue was made.
    ///
    /// A `priority_jump` is in seconds under FCFS, a weight under WSPT; one that is negative or
    /// not a number counts as 0.
    pub(crate) fn new(
        policy: QueuePolicy,
        arrival: Duration,
        priority_jump: f64,
        cost: u64,
    ) -> Self {
        let jump = priority_jump.max(0.0);
        match policy {
            QueuePolicy::Fcfs => {
                let arrival = i64::try_from(arrival.as_nanos()).unwrap_or(i64::MAX);
                let jump = (jump * 1e9).round();
                let ahead = jump - arrival as f64;
                let effective = if ahead < FAR {
                    arrival.saturating_sub(jump as i64)
                } else {
                    // By the float's bits: there are fewer floats beyond `FAR` than integers left below.
                    i64::MIN + (f64::INFINITY.to_bits() - ahead.to_bits()) as i64
                };
                // The offset keeps the order of signed values among unsigned ones.
                Self(effective.wrapping_sub(i64::MIN) as u64)
            }
            // The bits of positive floats are ordered like the floats themselves.
            QueuePolicy::Wspt => Self(!((1.0 + jump) / cost as f64).to_bits()),
        }
    }
}

/// The whole order of heads: the higher tier, then the score, then the arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    tier: Tier,
    place: Place,
}

/// A strict priority, the highest first.
pub(super) type Tier = Reverse<u32>;

/// The order inside a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    score: Score,
    sequence: u64,
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        // As one number: heap comparisons are unpredictable, and this takes no branch.
        let number = |place: &Self| u128::from(place.score.0) << 64 | u128::from(place.sequence);
        number(self).cmp(&number(other))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Rank {
    /// `sequence` numbers the arrivals of a dominion, and makes each rank unique.
    pub(crate) fn new(strict_priority: u32, score: Score, sequence: u64) -> Self {
        Self {
            tier: Reverse(strict_priority),
            place: Place { score, sequence },
        }
    }

    /// The same tier and arrival with another score.
    pub(crate) fn rescored(self, score: Score) -> Self {
        let place = Place {
            score,
            ..self.place
        };
        Self { place, ..self }
    }

    pub(crate) fn strict_priority(&self) -> u32 {
        self.tier.0
    }

    pub(super) fn tier(&self) -> Tier {
        self.tier
    }

    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// The rank of a place in a tier.
    pub(super) fn of(tier: Tier, place: Place) -> Self {
        Self { tier, place }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fcfs(arrival_ms: u64, jump: f64) -> Score {
        Score::new(
            QueuePolicy::Fcfs,
            Duration::from_millis(arrival_ms),
            jump,
            1,
        )
    }

    fn wspt(jump: f64, cost: u64) -> Score {
        Score::new(QueuePolicy::Wspt, Duration::ZERO, jump, cost)
    }

    #[test]
    fn a_priority_jump_of_n_counts_as_n_seconds_earlier_under_fcfs() {
        assert!(fcfs(4000, 5.0) < fcfs(0, 0.0));
        assert!(fcfs(4000, 3.0) > fcfs(0, 0.0));
        assert_eq!(fcfs(4000, 4.0), fcfs(0, 0.0));
        assert_eq!(fcfs(510, 0.5), fcfs(10, 0.0), "exact where floats are not");
    }

    #[test]
    fn the_largest_weight_for_its_cost_goes_first_under_wspt() {
        assert!(wspt(0.0, 3) < wspt(0.0, 30));
        assert_eq!(wspt(14.0, 30), wspt(0.0, 2));
        assert_eq!(wspt(2.0, 3), wspt(0.0, 1));
    }

    #[test]
    fn jumps_that_are_no_jumps_count_as_zero() {
        for jump in [-1.0, -0.0, f64::NAN, f64::NEG_INFINITY] {
            assert_eq!(fcfs(7, jump), fcfs(7, 0.0), "{jump}");
            assert_eq!(wspt(jump, 7), wspt(0.0, 7), "{jump}");
        }
    }

    #[test]
    fn extreme_values_saturate_and_stay_ordered() {
        let never = Score::new(QueuePolicy::Fcfs, Duration::MAX, 0.0, 1);
        assert!(fcfs(0, f64::MAX) < fcfs(0, 1.0));
        assert!(fcfs(u64::MAX / 2, 0.0) <= never);
        assert!(wspt(f64::MAX, u64::MAX) < wspt(0.0, u64::MAX));
    }

    #[test]
    fn of_two_jumps_beyond_all_clocks_the_larger_goes_first() {
        let ahead = FAR / 1e9;
        let jumps = [
            0.0,
            1e9,
            ahead * 0.999_999,
            ahead,
            ahead * 1.000_001,
            1e10,
            1e11,
            1e100,
            1e101,
        ];
        for pair in jumps.windows(2) {
            assert!(fcfs(9, pair[1]) < fcfs(9, pair[0]), "{pair:?}");
        }
        assert!(fcfs(9000, 1e10) > fcfs(0, 1e10 - 5.0), "also of such a one");
        assert_eq!(fcfs(0, f64::MAX), fcfs(9, f64::MAX), "too far to tell");
    }

    #[test]
    fn a_new_score_changes_neither_tier_nor_arrival() {
        let rank = Rank::new(7, fcfs(1, 0.0), 3);
        assert_eq!(rank.rescored(fcfs(9, 0.0)), Rank::new(7, fcfs(9, 0.0), 3));
        assert_eq!(rank.strict_priority(), 7);
    }

    #[test]
    fn tier_then_score_then_arrival() {
        let rank = |tier, score, sequence| Rank::new(tier, score, sequence);
        assert!(rank(9, fcfs(9, 0.0), 9) < rank(5, fcfs(0, 0.0), 0));
        assert!(rank(0, fcfs(1, 0.0), 9) < rank(0, fcfs(2, 0.0), 0));
        assert!(rank(0, fcfs(1, 0.0), 0) < rank(0, fcfs(1, 0.0), 1));
    }
}
