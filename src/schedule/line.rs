//! Requests that came in the order in which they go, as most do where the first to come is the
//! first to go: each knows its neighbours, so that one joins or leaves in O(1), from anywhere.

use super::{Key, order::Place};

/// A request and its place.
pub(super) type Standing = (Place, Key);

/// The first and the last of a line, which may be the same.
#[derive(Debug, Default)]
pub(super) struct Line {
    ends: Option<(Standing, Standing)>,
}

/// The neighbours of each request that stands in a line, by key.
#[derive(Debug, Default)]
pub(super) struct Links {
    by_key: Vec<Link>,
}

/// `before` of the first of a line and `after` of its last mean nothing, and are never read.
#[derive(Clone, Copy, Debug)]
struct Link {
    place: Place,
    before: Key,
    after: Key,
}

impl Links {
    fn set(&mut self, key: Key, link: Link) {
        if self.by_key.len() <= key.index() {
            self.by_key.resize(key.index() + 1, link);
        }
        self.by_key[key.index()] = link;
    }

    fn of(&mut self, key: Key) -> &mut Link {
        &mut self.by_key[key.index()]
    }

    fn standing(&self, key: Key) -> Standing {
        (self.by_key[key.index()].place, key)
    }
}

impl Line {
    pub(super) fn first(&self) -> Option<Standing> {
        self.ends.map(|(first, _)| first)
    }

    /// True if a request may join at the end.
    pub(super) fn ends_before(&self, place: Place) -> bool {
        self.ends.is_none_or(|(_, (last, _))| last < place)
    }

    /// Adds a request at the end.
    pub(super) fn push(&mut self, place: Place, key: Key, links: &mut Links) {
        let (mut first, mut before) = ((place, key), key);
        if let Some((known, (_, last))) = self.ends {
            (first, before) = (known, last);
            links.of(last).after = key;
        }
        links.set(
            key,
            Link {
                place,
                before,
                after: key,
            },
        );
        self.ends = Some((first, (place, key)));
    }

    /// Takes a request out that stands in this line.
    pub(super) fn remove(&mut self, key: Key, links: &mut Links) {
        let Some((first, last)) = self.ends else {
            return;
        };
        let Link { before, after, .. } = *links.of(key);
        self.ends = match (key == first.1, key == last.1) {
            (true, true) => None,
            (true, false) => Some((links.standing(after), last)),
            (false, true) => Some((first, links.standing(before))),
            (false, false) => {
                links.of(before).after = after;
                links.of(after).before = before;
                self.ends
            }
        };
    }

    /// Its requests, the first ones first.
    pub(super) fn iter<'a>(&self, links: &'a Links) -> Iter<'a> {
        Iter {
            links,
            rest: self.ends.map(|(first, (_, last))| (first, last)),
        }
    }
}

/// The requests of a line, the first ones first.
#[derive(Debug)]
pub(super) struct Iter<'a> {
    links: &'a Links,
    /// The next one, and the last.
    rest: Option<(Standing, Key)>,
}

impl Iterator for Iter<'_> {
    type Item = Standing;

    fn next(&mut self) -> Option<Standing> {
        let (next, last) = self.rest?;
        let (_, key) = next;
        self.rest = (key != last).then(|| {
            let after = self.links.by_key[key.index()].after;
            (self.links.standing(after), last)
        });
        Some(next)
    }
}
