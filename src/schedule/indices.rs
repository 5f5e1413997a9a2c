//! A set of class indices.

/// Indices below a fixed end, one bit each, iterated in order: a class that is not in the set costs a scan
/// next to nothing.
#[derive(Clone, Debug)]
pub(super) struct Indices {
    words: Vec<u64>,
}

impl Indices {
    /// An empty set of indices below `end`.
    pub(super) fn new(end: usize) -> Self {
        Self {
            words: vec![0; end.div_ceil(64)],
        }
    }

    pub(super) fn insert(&mut self, index: usize) {
        self.words[index / 64] |= 1 << (index % 64);
    }

    pub(super) fn remove(&mut self, index: usize) {
        self.words[index / 64] &= !(1 << (index % 64));
    }

    /// The least index that is at least `start`.
    pub(super) fn next(&self, start: usize) -> Option<usize> {
        let mut word = start / 64;
        let mut bits = self.words.get(word)? & (u64::MAX << (start % 64));
        while bits == 0 {
            word += 1;
            bits = *self.words.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.around(0)
    }

    /// Each index once, in ring order from `start` on.
    #[inline]
    pub(super) fn around(&self, start: usize) -> Around<'_> {
        let (word, above) = (start / 64, u64::MAX << (start % 64));
        Around {
            words: &self.words,
            word,
            bits: self.words.get(word).map_or(0, |bits| bits & above),
            below: !above,
            left: self.words.len(),
        }
    }
}

/// The indices of a set in ring order.
#[derive(Debug)]
pub(super) struct Around<'a> {
    words: &'a [u64],
    word: usize,
    /// What is left of the current word.
    bits: u64,
    /// The part of the first word that comes last.
    below: u64,
    /// How many words are to come, including the first one again.
    left: usize,
}

impl Iterator for Around<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.bits == 0 {
            self.left = self.left.checked_sub(1)?;
            self.word += 1;
            if self.word >= self.words.len() {
                self.word = 0;
            }
            self.bits = self.words[self.word];
            if self.left == 0 {
                self.bits &= self.below;
            }
        }
        let index = self.word * 64 + self.bits.trailing_zeros() as usize;
        self.bits &= self.bits - 1;
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::Indices;

    #[test]
    fn a_set_is_gone_around_in_order_from_any_place() {
        let mut set = Indices::new(200);
        for index in [199, 0, 64, 63, 130, 7] {
            set.insert(index);
        }
        set.remove(7);
        set.remove(8);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, 130, 199]);
        let next = [0, 1, 65, 131, 200].map(|start| set.next(start));
        assert_eq!(next, [Some(0), Some(63), Some(130), Some(199), None]);
        let around = |start| set.around(start).collect::<Vec<_>>();
        assert_eq!(around(0), [0, 63, 64, 130, 199]);
        assert_eq!(around(64), [64, 130, 199, 0, 63]);
        assert_eq!(around(131), [199, 0, 63, 64, 130]);
        assert_eq!(around(199), [199, 0, 63, 64, 130]);
    }

    #[test]
    fn an_empty_set_has_nothing_around_it() {
        assert_eq!(Indices::new(0).around(0).next(), None);
        assert_eq!(Indices::new(128).around(70).next(), None);
    }
}
