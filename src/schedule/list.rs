//! A doubly linked list over members that already have numbers, so that any of them can leave in O(1).

/// The ends of a list, which may be the same member.
#[derive(Debug, Default)]
pub(crate) struct List {
    ends: Option<(u32, u32)>,
}

/// The neighbours of a member, by number. `before` of a list's first member and `after` of its last one are
/// meaningless.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    before: u32,
    after: u32,
}

impl Link {
    /// The link of a member that was never in a list. A member that leaves one keeps its old link.
    pub(super) const APART: Self = Self {
        before: u32::MAX,
        after: u32::MAX,
    };

    pub(super) fn is_apart(self) -> bool {
        // No member can have this number.
        self.before == u32::MAX
    }
}

/// Stores the link of each member. Lists without common members can share one store.
pub(crate) trait Linked {
    fn link(&self, member: usize) -> Link;

    fn link_mut(&mut self, member: usize) -> &mut Link;
}

/// A store for the links of members that have no room for them.
#[derive(Debug, Default)]
pub(crate) struct Links {
    by_member: Vec<Link>,
}

impl Linked for Links {
    fn link(&self, member: usize) -> Link {
        self.by_member[member]
    }

    fn link_mut(&mut self, member: usize) -> &mut Link {
        if self.by_member.len() <= member {
            self.by_member.resize(member + 1, Link::APART);
        }
        &mut self.by_member[member]
    }
}

impl List {
    pub(crate) fn first(&self) -> Option<usize> {
        self.ends.map(|(first, _)| first as usize)
    }

    pub(crate) fn last(&self) -> Option<usize> {
        self.ends.map(|(_, last)| last as usize)
    }

    /// Appends a member that is in no list.
    pub(crate) fn push(&mut self, member: usize, links: &mut impl Linked) {
        // A list of 2^32 members does not fit in memory.
        let number = member as u32;
        let (first, last) = self.ends.unwrap_or((number, number));
        links.link_mut(member).before = last;
        links.link_mut(last as usize).after = number;
        self.ends = Some((first, number));
    }

    /// Removes a member of this list.
    pub(crate) fn remove(&mut self, member: usize, links: &mut impl Linked) {
        let Some((first, last)) = self.ends else {
            return;
        };
        let Link { before, after } = links.link(member);
        let number = member as u32;
        self.ends = match (number == first, number == last) {
            (true, true) => None,
            (true, false) => Some((after, last)),
            (false, true) => Some((first, before)),
            (false, false) => {
                links.link_mut(before as usize).after = after;
                links.link_mut(after as usize).before = before;
                self.ends
            }
        };
    }

    /// The members, from first to last.
    pub(super) fn iter<'a, L: Linked>(&self, links: &'a L) -> Iter<'a, L> {
        Iter {
            links,
            rest: self.ends,
        }
    }
}

/// The members of a list, from first to last.
#[derive(Debug)]
pub(super) struct Iter<'a, L> {
    links: &'a L,
    /// The next member, and the last.
    rest: Option<(u32, u32)>,
}

impl<L: Linked> Iterator for Iter<'_, L> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let (next, last) = self.rest?;
        let link = self.links.link(next as usize);
        self.rest = (next != last).then_some((link.after, last));
        Some(next as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::{Links, List};

    #[test]
    fn those_who_are_left_stand_in_the_order_in_which_they_came() {
        let mut links = Links::default();
        let mut lists = [(); 2].map(|()| (List::default(), Vec::new()));
        for step in 0..1000_usize {
            // Numbers are reused, and members leave from anywhere.
            let member = step * 7919 % 37;
            let (list, model) = &mut lists[member % 2];
            match model.iter().position(|&known| known == member) {
                Some(index) => {
                    model.remove(index);
                    list.remove(member, &mut links);
                }
                None => {
                    model.push(member);
                    list.push(member, &mut links);
                }
            }
            for (list, model) in &lists {
                assert_eq!(list.iter(&links).collect::<Vec<_>>(), *model);
                assert_eq!(list.first(), model.first().copied());
                assert_eq!(list.last(), model.last().copied());
            }
        }
        for (list, model) in &mut lists {
            while let Some(member) = model.pop() {
                list.remove(member, &mut links);
                assert_eq!(list.last(), model.last().copied());
            }
            assert_eq!(list.first(), None);
        }
    }
}
