//! Who has waited longest.

/// The waiters that are queued, in the order in which they came: a list through their keys, so that
/// whoever leaves, from anywhere, does it in O(1).
#[derive(Debug, Default)]
pub(super) struct Seniority {
    /// By waiter.
    links: Vec<Link>,
    oldest: Option<usize>,
    youngest: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Link {
    older: Option<usize>,
    younger: Option<usize>,
}

impl Seniority {
    /// A waiter came that is not in the list.
    pub(super) fn push(&mut self, waiter: usize) {
        if self.links.len() <= waiter {
            self.links.resize(waiter + 1, Link::default());
        }
        self.links[waiter] = Link {
            older: self.youngest,
            younger: None,
        };
        match self.youngest {
            Some(youngest) => self.links[youngest].younger = Some(waiter),
            None => self.oldest = Some(waiter),
        }
        self.youngest = Some(waiter);
    }

    /// A waiter that is in the list is queued no more.
    pub(super) fn remove(&mut self, waiter: usize) {
        let Link { older, younger } = self.links[waiter];
        match older {
            Some(older) => self.links[older].younger = younger,
            None => self.oldest = younger,
        }
        match younger {
            Some(younger) => self.links[younger].older = older,
            None => self.youngest = older,
        }
    }

    pub(super) fn oldest(&self) -> Option<usize> {
        self.oldest
    }
}

#[cfg(test)]
mod tests {
    use super::Seniority;

    #[test]
    fn the_oldest_is_the_first_of_those_that_are_left() {
        let mut seniority = Seniority::default();
        let mut queued: Vec<usize> = Vec::new();
        assert_eq!(seniority.oldest(), None);
        for step in 0..1000_usize {
            // Keys are used again, and leave from anywhere.
            let waiter = step * 7919 % 37;
            match queued.iter().position(|&known| known == waiter) {
                Some(index) => {
                    queued.remove(index);
                    seniority.remove(waiter);
                }
                None => {
                    queued.push(waiter);
                    seniority.push(waiter);
                }
            }
            assert_eq!(seniority.oldest(), queued.first().copied());
        }
        while let Some(waiter) = queued.pop() {
            seniority.remove(waiter);
            assert_eq!(seniority.oldest(), queued.first().copied());
        }
    }
}
