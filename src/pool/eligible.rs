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
    pub(super) tolerations: Box<[Box<str>]>,
    pub(super) preferred: Option<u32>,
}

/// Indexes into the dominion's workers or groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Among {
    /// This one only; its lane is its own.
    Pinned(u32),
    /// Any of a group.
    Group(u32),
    /// Any of these: a group less the workers outside the request's allow-list.
    Listed(Box<[u32]>),
}

impl Eligible {
    pub(super) fn lane(&self) -> LaneId {
        match self.among {
            Among::Pinned(worker) => LaneId::Worker(worker),
            Among::Group(_) | Among::Listed(_) => LaneId::Shared,
        }
    }

    /// The group, if that says it all: groups keep count of the workers that are open to everybody.
    pub(super) fn plain_group(&self) -> Option<u32> {
        match self.among {
            Among::Group(group) if self.tolerations.is_empty() => Some(group),
            _ => None,
        }
    }
}
