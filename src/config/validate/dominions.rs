//! Dominions: pools of slots, and which kind of workers may be bound to them.

use std::{collections::HashMap, fmt, sync::Arc};

use super::{Findings, classes, numbers, unique::Unique};
use crate::config::{Dominion, FairUnit, names, path::Path, schema::RawDominion};

/// The default of `max_queue`.
const DEFAULT_MAX_QUEUE: usize = 100;

/// How many queues a policy may have. Each dominion has one for each class, so a small file could otherwise
/// ask for more memory than there is; this many take about 80 MB.
const MAX_QUEUES: usize = 1 << 18;

/// The kind of a dominion's workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Remote endpoints. This is the default.
    Remote,
    /// Models on this machine.
    Local,
}

/// All dominions.
pub(super) struct Dominions {
    pub(super) list: Vec<Entry>,
    pub(super) by_id: HashMap<String, usize>,
}

/// A dominion, and what only validation needs to know about it.
pub(super) struct Entry {
    pub(super) dominion: Dominion,
    /// `None` if it is neither of the two.
    pub(super) kind: Option<Kind>,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Remote => "remote",
            Kind::Local => "local",
        })
    }
}

impl Dominions {
    /// The defined ids, for a message about one that is not defined.
    pub(super) fn listed(&self) -> String {
        let ids = self.list.iter().map(|entry| &*entry.dominion.id);
        names::list(self.list.len(), ids)
    }
}

/// Reports if so many dominions with so many classes have too many queues.
pub(super) fn check_queues(found: &mut Findings, dominions: usize, classes: usize) {
    if dominions.saturating_mul(classes) > MAX_QUEUES {
        found.report(
            Path::Root.key("dominions"),
            format!(
                "{dominions} dominions, each with a queue for each of {classes} classes, are too many; a \
                 policy may have at most {MAX_QUEUES} queues"
            ),
        );
    }
}

pub(super) fn resolve(found: &mut Findings, raw: Vec<RawDominion>) -> Dominions {
    let root = Path::Root;
    let list = root.key("dominions");
    let mut unique = Unique::at_key(list, "id");
    let mut dominions = Vec::with_capacity(raw.len());
    for (index, mut raw) in raw.into_iter().enumerate() {
        let id = unique
            .require(found, index, raw.id.take())
            .unwrap_or_default();
        dominions.push(entry(found, list.index(index), id.into(), raw));
    }
    Dominions {
        list: dominions,
        by_id: unique.by_name(),
    }
}

fn entry(found: &mut Findings, path: Path<'_>, id: Arc<str>, raw: RawDominion) -> Entry {
    let kind = match raw.kind.as_deref() {
        None | Some("remote") => Some(Kind::Remote),
        Some("local") => Some(Kind::Local),
        Some(other) => {
            let other = names::quote(other);
            found.report(
                path.key("kind"),
                format!("is {other}; must be \"remote\" or \"local\""),
            );
            None
        }
    };
    if kind == Some(Kind::Remote) && raw.vram_gb.is_some() {
        let message = "is allowed only in a dominion with `kind: local`; this one is remote";
        found.report(path.key("vram_gb"), message);
    }
    let policy = path.key("policy");
    let reject = classes::one_of(
        found,
        policy,
        raw.policy.as_deref(),
        &[("queue", false), ("reject", true)],
    );
    let fair_unit = classes::one_of(
        found,
        path.key("fair_unit"),
        raw.fair_unit.as_deref(),
        &FairUnit::ALL.map(|unit| (unit.as_str(), unit)),
    );
    let enforce = numbers::flag(found, path.key("enforce"), raw.enforce);
    let fair_scheduling = numbers::flag(found, path.key("fair_scheduling"), raw.fair_scheduling);
    if fair_scheduling == Some(false) {
        let message = "has no effect: `fair_scheduling: false` does not distinguish clients";
        for (key, is_set) in [
            ("fair_unit", raw.fair_unit.is_some()),
            ("max_queue_per_client", raw.max_queue_per_client.is_some()),
        ] {
            if is_set {
                found.report(path.key(key), message);
            }
        }
    }
    let dominion = Dominion {
        id,
        local: kind == Some(Kind::Local),
        max_concurrency: numbers::positive_size(
            found,
            path.key("max_concurrency"),
            raw.max_concurrency,
        ),
        max_queue: numbers::positive_size(found, path.key("max_queue"), raw.max_queue)
            .unwrap_or(DEFAULT_MAX_QUEUE),
        max_queue_per_client: numbers::positive_size(
            found,
            path.key("max_queue_per_client"),
            raw.max_queue_per_client,
        ),
        reject,
        enforce: enforce.unwrap_or(true),
        fair_scheduling: fair_scheduling.unwrap_or(true),
        fair_unit,
        vram_gb: numbers::gigabytes(found, path.key("vram_gb"), raw.vram_gb),
    };
    Entry { dominion, kind }
}
