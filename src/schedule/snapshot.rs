//! What a request costs, measured once.

/// The immutable cost of a request, in tokens, taken when it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    raw: u64,
    cached: u64,
}

impl Snapshot {
    /// A prompt of `raw` tokens of which `cached` need no prefill; more cached than raw counts as
    /// all of them.
    #[inline]
    pub(crate) fn new(raw: u64, cached: u64) -> Self {
        Self {
            raw,
            cached: cached.min(raw),
        }
    }

    /// All input tokens.
    #[inline]
    pub(crate) fn raw(self) -> u64 {
        self.raw
    }

    /// Input tokens found in a cache.
    #[inline]
    pub(crate) fn cached(self) -> u64 {
        self.cached
    }

    /// Input tokens to be computed: what picks the bucket and loads the worker.
    #[inline]
    pub(crate) fn uncached(self) -> u64 {
        self.raw - self.cached
    }

    /// What a class pays: at least 1, because a fully cached request still takes a turn.
    #[inline]
    pub(crate) fn cost(self) -> u64 {
        self.uncached().max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::Snapshot;

    #[test]
    fn cost_is_the_uncached_tokens_and_at_least_one() {
        for (raw, cached, uncached, cost) in [
            (0, 0, 0, 1),
            (100, 98, 2, 2),
            (100, 100, 0, 1),
            (100, 200, 0, 1),
            (u64::MAX, 0, u64::MAX, u64::MAX),
            (u64::MAX, u64::MAX, 0, 1),
        ] {
            let snapshot = Snapshot::new(raw, cached);
            assert_eq!(snapshot.uncached(), uncached, "{raw} - {cached}");
            assert_eq!(snapshot.cost(), cost, "{raw} - {cached}");
            assert_eq!(snapshot.cached(), cached.min(raw), "{raw} - {cached}");
        }
    }
}
