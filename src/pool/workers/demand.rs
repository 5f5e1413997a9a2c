//! What the classes demand of their workers: how much prefill makes one busy for them.

use super::Workers;
use crate::config::{BusyThreshold, PolicyConfig};

/// A threshold that classes share, and which workers exceed it.
#[derive(Debug)]
pub(super) struct Bar {
    pub(super) threshold: BusyThreshold,
    pub(super) busy: Vec<bool>,
}

/// What a class demands of its workers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    /// Index of its bar; if `None`, no worker is ever busy for it.
    pub(super) bar: Option<usize>,
    pub(super) ratio: f64,
}

impl Workers {
    /// Replaces the demands by those of the classes of `policy`. Which workers are busy is not known yet.
    pub(super) fn set_demands(&mut self, policy: &PolicyConfig) {
        self.bars.clear();
        self.demands.clear();
        for class in &policy.classes {
            let demand = self.demand(class.busy);
            self.demands.push(demand);
        }
    }

    fn demand(&mut self, threshold: BusyThreshold) -> Demand {
        let ratio = threshold.ratio.unwrap_or(1.0);
        if threshold.tokens.is_none() && threshold.fraction.is_none() {
            return Demand { bar: None, ratio };
        }
        // Classes that differ only in their ratio share a bar.
        let threshold = BusyThreshold {
            ratio: None,
            ..threshold
        };
        let known = self.bars.iter().position(|bar| bar.threshold == threshold);
        let bar = known.unwrap_or_else(|| {
            self.bars.push(Bar {
                threshold,
                busy: Vec::new(),
            });
            self.bars.len() - 1
        });
        Demand {
            bar: Some(bar),
            ratio,
        }
    }
}
