//! Which classes compete with each other, and what the round robin promises them.
//!
//! Every dominion has its own ring over all classes. Some of them can never have a request there: those of
//! a model that is served elsewhere. They do not count in what the others are promised.

use tower_policy_queue::{ClassView, DominionView, PolicyConfig};

/// The classes that can wait in one dominion, or outside all dominions.
pub(super) struct Ring<'a> {
    pub(super) dominion: Option<DominionView<'a>>,
    pub(super) classes: Vec<ClassView<'a>>,
}

/// All rings. If requests can be without a dominion, the ring for them is the last.
pub(super) struct Rings<'a>(Vec<Ring<'a>>);

impl<'a> Rings<'a> {
    pub(super) fn new(config: &'a PolicyConfig) -> Self {
        let default = config.default_dominion().map(DominionView::index);
        let mut of_class: Vec<Vec<Option<usize>>> = Vec::new();
        for class in config.classes() {
            of_class.push(match class.profile() {
                Some(model) => dominions_of(config, default, |served| served == model),
                None => root_dominions(config, default),
            });
        }
        let ring = |dominion: Option<DominionView<'a>>| {
            let index = dominion.map(DominionView::index);
            let classes = config
                .classes()
                .filter(|class| of_class[class.index()].contains(&index))
                .collect();
            Ring { dominion, classes }
        };
        let bound = config.dominions().map(|dominion| ring(Some(dominion)));
        let mut rings: Vec<_> = bound.collect();
        let unbound = ring(None);
        if !unbound.classes.is_empty() {
            rings.push(unbound);
        }
        Self(rings)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Ring<'a>> {
        self.0.iter()
    }

    /// The rings in which a class can wait.
    pub(super) fn of(&self, class: ClassView<'a>) -> impl Iterator<Item = &Ring<'a>> {
        self.iter().filter(move |ring| ring.contains(class))
    }

    /// The least share of the tokens that a class is promised, from 0 to 1, while all classes wait that can.
    /// It may get more, as the others share what a class without waiting requests leaves.
    pub(super) fn share(&self, class: ClassView<'a>) -> Option<f64> {
        let shares = self.of(class).map(|ring| {
            let all: u128 = ring.classes.iter().map(|class| quantum(*class)).sum();
            quantum(class) as f64 / all as f64
        });
        shares.reduce(f64::min)
    }

    /// The most tokens of other classes that are served before a request of `cost` tokens that is next in
    /// its class, as long as some worker may take it. `max_cost` is the largest cost of any request.
    ///
    /// Before it is served, its class is credited fewer than `cost / Q` times; another class is
    /// credited at most once more, and has less credit left from before than its own largest request
    /// costs. So the others are served at most the sum of
    ///
    /// > ceil(cost / Q) · Q<sub>j</sub> + Max<sub>j</sub> - 1
    ///
    /// which is the bound that the library states,
    ///
    /// > |S<sub>i</sub>/Q<sub>i</sub> - S<sub>j</sub>/Q<sub>j</sub>| <=
    /// > 1 + Max/Q<sub>i</sub> + Max/Q<sub>j</sub>
    ///
    /// for S<sub>i</sub> = 0. It does not hold for a class in debt for its output.
    pub(super) fn bound(&self, class: ClassView<'a>, cost: u64, max_cost: u64) -> Option<u128> {
        let rounds = u128::from(cost).div_ceil(quantum(class));
        let of_other = |other: &ClassView<'_>| {
            let (_, largest) = costs(*other, max_cost);
            let credited = rounds.saturating_mul(quantum(*other));
            credited.saturating_add(u128::from(largest - 1))
        };
        let bounds = self.of(class).map(|ring| {
            let others = ring.classes.iter();
            let others = others.filter(|other| other.index() != class.index());
            others.map(of_other).fold(0, u128::saturating_add)
        });
        bounds.max()
    }
}

impl<'a> Ring<'a> {
    pub(super) fn contains(&self, class: ClassView<'a>) -> bool {
        let index = class.index();
        self.classes.iter().any(|class| class.index() == index)
    }

    /// True if a request may have to wait, for a slot or for a worker that is not busy.
    pub(super) fn can_wait(&self) -> bool {
        let slots = self
            .dominion
            .is_some_and(|dominion| dominion.max_concurrency().is_some());
        let nobody = self
            .dominion
            .is_some_and(|dominion| dominion.policy() == "reject" || !dominion.enforce());
        !nobody && (slots || self.classes.iter().any(|class| has_threshold(*class)))
    }

    /// The most requests that can wait: what the dominion allows, or its classes together. `None`: any
    /// number.
    pub(super) fn room(&self, config: &PolicyConfig) -> Option<u128> {
        if !self.can_wait() {
            return Some(0);
        }
        let own = self.dominion.map(|dominion| dominion.max_queue() as u128);
        let limits = self.class_limits(config);
        own.into_iter().chain(limits).min()
    }

    /// The most requests that the limits of the classes let wait, if all classes have one.
    pub(super) fn class_limits(&self, config: &PolicyConfig) -> Option<u128> {
        let mut all = 0u128;
        for class in &self.classes {
            all = all.saturating_add(self.limit_of(*class, config)?);
        }
        Some(all)
    }

    /// The most requests of a class that its limit lets wait.
    pub(super) fn limit_of(&self, class: ClassView<'_>, config: &PolicyConfig) -> Option<u128> {
        let limit = u128::from(class.request_queue_limit_per_worker()?);
        let index = self.dominion.map(DominionView::index);
        let workers = config.workers();
        let workers = workers
            .filter(|worker| worker.dominion().map(DominionView::index) == index)
            .count()
            .max(1);
        Some(limit.saturating_mul(workers as u128))
    }
}

/// The smallest and the largest cost of a request of this class, in tokens.
pub(super) fn costs(class: ClassView<'_>, max_cost: u64) -> (u64, u64) {
    let bucket = class.cache_bucket();
    let least = bucket.map_or(0, |bucket| bucket.min_tokens()).max(1);
    let most = bucket.and_then(|bucket| bucket.max_tokens());
    let most = most.unwrap_or(u64::MAX).min(max_cost).max(least);
    (least, most)
}

pub(super) fn has_threshold(class: ClassView<'_>) -> bool {
    class.prefill_busy_threshold().is_some() || class.prefill_busy_threshold_frac().is_some()
}

fn quantum(class: ClassView<'_>) -> u128 {
    class.quantum().into()
}

/// Where the `wanted` models are served; if nowhere, the default.
fn dominions_of(
    config: &PolicyConfig,
    default: Option<usize>,
    wanted: impl Fn(&str) -> bool,
) -> Vec<Option<usize>> {
    let workers = config.workers();
    let serving = workers.filter(|worker| worker.models().any(&wanted));
    let mut found: Vec<_> = serving
        .map(|worker| worker.dominion().map(DominionView::index))
        .collect();
    if found.is_empty() {
        found.push(default);
    }
    found
}

/// Where requests can be whose model has no policy of its own: in the default dominion, where such models
/// are served, and in dominions without workers, which only a route leads to.
fn root_dominions(config: &PolicyConfig, default: Option<usize>) -> Vec<Option<usize>> {
    let profiles = config.profiles();
    let own: Vec<_> = profiles.filter_map(|profile| profile.model()).collect();
    let mut found = dominions_of(config, default, |model| !own.contains(&model));
    found.push(default);
    let empty = config
        .dominions()
        .filter(|dominion| dominion.workers().next().is_none());
    found.extend(empty.map(|dominion| Some(dominion.index())));
    found
}
