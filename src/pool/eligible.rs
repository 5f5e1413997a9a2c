//! Which workers a request may go to.

use crate::schedule::LaneId;

/// What a request asks for, by name.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted<'a> {
    pub(crate) model: Option<&'a str>,
    /// The only worker that it may go to.
    pub(crate) worker: Option<&'a str>,
    pub(crate) allowed_workers: Option<&'a [&'a str]>,
    /// The taints that do not keep it away.
    pub(crate) tolerations: &'a [String],
    /// The worker that it goes to if that is eligible and not busy, whatever the load of the others.
    pub(crate) preferred: Option<&'a str>,
}

/// The workers a request may go to, resolved when it arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Eligible {
    pub(super) among: Among,
    /// Boxed, as many requests may wait and few of them have it.
    narrowed: Option<Box<Narrowed>>,
}

/// An index into the dominion's workers or groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Among {
    /// Only this worker, in its own lane.
    Pinned(u32),
    /// Any of a group.
    Group(u32),
}

/// What a request says besides its worker or its model.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Narrowed {
    listed: Option<Listed>,
    tolerations: Box<[Box<str>]>,
    preferred: Option<u32>,
}

/// A request's allow-list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// The workers of the group that are on it, each once.
    pub(super) now: Vec<u32>,
    /// The names as they were sent, kept once the request waits: workers that it names may be added.
    names: Box<[Box<str>]>,
}

/// Of an allow-list, the names beyond this many bytes are not kept: workers that are added while the request
/// waits are not found by them.
const MAX_LIST_BYTES: usize = 1024;

impl Listed {
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }
}

impl Eligible {
    pub(super) fn new(
        among: Among,
        listed: Option<Vec<u32>>,
        tolerations: &[String],
        preferred: Option<u32>,
    ) -> Self {
        let plain = listed.is_none() && tolerations.is_empty() && preferred.is_none();
        let narrowed = (!plain).then(|| {
            Box::new(Narrowed {
                listed: listed.map(|now| Listed {
                    now,
                    names: Box::default(),
                }),
                tolerations: tolerations
                    .iter()
                    .map(|taint| Box::from(&**taint))
                    .collect(),
                preferred,
            })
        });
        Self { among, narrowed }
    }

    pub(super) fn lane(&self) -> LaneId {
        match self.among {
            Among::Pinned(worker) => LaneId::Worker(worker),
            Among::Group(_) => LaneId::Shared,
        }
    }

    pub(super) fn listed(&self) -> Option<&[u32]> {
        let listed = self.narrowed.as_ref()?.listed.as_ref()?;
        Some(&listed.now)
    }

    /// The allow-list, to be brought up to date.
    pub(super) fn list_mut(&mut self) -> Option<&mut Listed> {
        self.narrowed.as_mut()?.listed.as_mut()
    }

    /// Keeps the names on the allow-list, for as long as the request waits.
    pub(super) fn keep_names(&mut self, allowed: &[&str]) {
        let Some(listed) = self.list_mut() else {
            return;
        };
        let mut left = MAX_LIST_BYTES;
        let fits = |name: &&&str| {
            let rest = left.checked_sub(name.len());
            left = rest.unwrap_or(0);
            rest.is_some()
        };
        let names = allowed.iter().take_while(fits).map(|&name| name.into());
        listed.names = names.collect();
    }

    /// Forgets the preferred worker unless it is one of those that the request asks for.
    pub(super) fn retain_preferred(&mut self, serves: impl FnOnce(u32) -> bool) {
        if let Some(narrowed) = &mut self.narrowed {
            let preferred = narrowed.preferred.filter(|&worker| serves(worker));
            let listed = narrowed.listed.as_ref();
            let on_list = |worker: &u32| listed.is_none_or(|listed| listed.now.contains(worker));
            narrowed.preferred = preferred.filter(on_list);
        }
    }

    /// The workers that it refers to by index.
    pub(super) fn named(&self) -> impl Iterator<Item = u32> + '_ {
        let pinned = match self.among {
            Among::Pinned(worker) => Some(worker),
            Among::Group(_) => None,
        };
        let listed = self.listed().unwrap_or_default();
        let named = pinned.into_iter().chain(listed.iter().copied());
        named.chain(self.preferred())
    }

    pub(super) fn tolerations(&self) -> &[Box<str>] {
        self.narrowed.as_ref().map_or(&[], |it| &it.tolerations)
    }

    pub(super) fn preferred(&self) -> Option<u32> {
        self.narrowed.as_ref()?.preferred
    }

    /// The group, if nothing narrows it down: what groups keep count of, the workers open to every request,
    /// then applies.
    pub(super) fn plain_group(&self) -> Option<u32> {
        match self.among {
            Among::Group(group) if self.listed().is_none() && self.tolerations().is_empty() => {
                Some(group)
            }
            _ => None,
        }
    }
}
