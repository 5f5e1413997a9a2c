//! Times that can be compared on a machine that does other things too.

use std::time::Instant;

/// Runs the sides in turns, each round in another order, and returns the median of each side: what
/// disturbs one side disturbs the others as well, and what disturbs few rounds disturbs nobody.
pub fn medians<const N: usize>(rounds: usize, sides: [&mut dyn FnMut() -> f64; N]) -> [f64; N] {
    let mut samples: [Vec<f64>; N] = std::array::from_fn(|_| Vec::with_capacity(rounds));
    for round in 0..rounds + 2 {
        for step in 0..N {
            let side = (round + step) % N;
            let sample = sides[side]();
            // The first two warm up.
            if round >= 2 {
                samples[side].push(sample);
            }
        }
    }
    samples.map(median)
}

/// The median, which sorts the samples.
pub fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Nanoseconds for each of `times` repetitions.
pub fn each(times: usize, mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..times {
        work();
    }
    nanos(start) / times as f64
}

/// Nanoseconds since then.
pub fn nanos(start: Instant) -> f64 {
    start.elapsed().as_nanos() as f64
}

/// Numbers that look random and are the same in each run (splitmix64).
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// What it takes to have a measurement begin with nothing at hand.
pub struct Caches {
    /// More than the caches of a core hold.
    other_things: Vec<u64>,
}

impl Default for Caches {
    fn default() -> Self {
        Self {
            other_things: vec![0; 4 << 20],
        }
    }
}

impl Caches {
    pub fn empty(&mut self) {
        self.other_things.iter_mut().for_each(|thing| *thing += 1);
        std::hint::black_box(&self.other_things);
    }
}
