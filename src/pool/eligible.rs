//! Which workers a request may go to.

use crate::schedule::LaneId;

/// What a request asks for, by name.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted<'a> {
    pub(crate) model: Option<&'a str>,
    /// The one worker to go to.
    pub(crate) worker: Option<&'a str>,
    pub(crate) allowed_workers: Option<&'a [&'a str]>,
    /// Taints that do not keep it away.
    pub(crate) tolerations: &'a [String],
    /// The worker to go to if it is eligible and not busy, however loaded the others are.
    pub(crate) preferred: Option<&'a str>,
}

/// The workers a request may go to, resolved when it arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Eligible {
    pub(super) among: Among,
    /// In a box, as few requests have it, and many may wait.
    narrowed: Option<Box<Narrowed>>,
}

/// An index into the dominion's workers or groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Among {
    /// This one only; its lane is its own.
    Pinned(u32),
    /// Any of a group.
    Group(u32),
}

/// What a request says beside its worker or its model.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Narrowed {
    /// Those of the group that are on the request's allow-list.
    listed: Option<Box<[u32]>>,
    tolerations: Box<[Box<str>]>,
    preferred: Option<u32>,
}

impl Eligible {
    pub(super) fn new(
        among: Among,
        listed: Option<Box<[u32]>>,
        tolerations: &[String],
        preferred: Option<u32>,
    ) -> Self {
        let plain = listed.is_none() && tolerations.is_empty() && preferred.is_none();
        let narrowed = (!plain).then(|| {
            Box::new(Narrowed {
                listed,
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
        self.narrowed.as_ref()?.listed.as_deref()
    }

    pub(super) fn tolerations(&self) -> &[Box<str>] {
        self.narrowed.as_ref().map_or(&[], |it| &it.tolerations)
    }

    pub(super) fn preferred(&self) -> Option<u32> {
        self.narrowed.as_ref()?.preferred
    }

    /// The group, if that says it all: groups keep count of the workers that are open to everybody.
    pub(super) fn plain_group(&self) -> Option<u32> {
        match self.among {
            Among::Group(group) if self.listed().is_none() && self.tolerations().is_empty() => {
                Some(group)
            }
            _ => None,
        }
    }
}
