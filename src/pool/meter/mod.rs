//! Tells a metrics recorder what a pool counts.
//!
//! The pool's own counts are the truth. Under the lock, at the end of each change, they are compared with
//! what was told so far, and the differences are written to a [`Bulletin`], which whoever made the change
//! publishes once the lock is released. Each difference is on exactly one bulletin, as what was told is
//! brought up to date under the same lock, and each bulletin is published once. So what the recorder is told
//! adds up to the counts, in whatever order the bulletins are published, and without anybody waiting for
//! anybody: nothing is lost, and no counter goes backwards. This is why gauges are moved by differences
//! rather than set: of two values set at the same time, the older could come last.
//!
//! Without the feature `metrics`, `off.rs` takes the place of this module.

mod series;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use self::series::{
    CLASS, CLASS_COUNTERS, DOMINION, FORMER, Family, HOLD, Handles, Series, Unplaced, WAIT, WORKER,
};
use super::{
    Grant,
    state::State,
    tally::Code,
    wake::WakeList,
    workers::{WorkerLoad, Workers},
};
use crate::config::{PolicyClass, PolicyConfig};

/// What a recorder has been told about a pool, or will be by a bulletin.
#[derive(Debug)]
pub(super) struct Meter {
    /// The dominion's id.
    id: Arc<str>,
    dominion: Told<0, 3>,
    /// The policy that `classes` belong to.
    policy: Arc<PolicyConfig>,
    classes: Vec<ClassTold>,
    /// The removed classes, together; `None` until a reload removes one.
    former: Option<Told<CLASS_COUNTERS, 0>>,
    /// By index.
    workers: Vec<Told<0, 2>>,
    /// For the next bulletin.
    pending: Vec<Step>,
}

/// What was told of some series: `C` counters and `G` gauges.
#[derive(Debug)]
struct Told<const C: usize, const G: usize> {
    series: Arc<Series>,
    /// Whether nothing was told yet, not even that these series exist.
    fresh: bool,
    counters: [u64; C],
    gauges: [i64; G],
}

type ClassTold = Told<CLASS_COUNTERS, 4>;

/// What has changed, to be told once no lock is held.
#[derive(Debug)]
pub(super) struct Bulletin {
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    /// What the next steps are about. It comes alone, too: when the series are new, or are dropped.
    Of(Arc<Series>),
    Count(usize, u64),
    Move(usize, i64),
    Record(usize, Duration),
}

impl<const C: usize, const G: usize> Told<C, G> {
    fn nothing(series: Arc<Series>) -> Self {
        Self {
            series,
            fresh: true,
            counters: [0; C],
            gauges: [0; G],
        }
    }

    /// Writes down what is new, and counts it as told.
    fn tell(&mut self, counters: [u64; C], gauges: [i64; G], steps: &mut Vec<Step>) {
        if !self.fresh && self.counters == counters && self.gauges == gauges {
            return;
        }
        self.fresh = false;
        steps.push(Step::Of(Arc::clone(&self.series)));
        for (index, (told, now)) in self.counters.iter_mut().zip(counters).enumerate() {
            let by = now.saturating_sub(std::mem::replace(told, now));
            steps.extend((by > 0).then_some(Step::Count(index, by)));
        }
        for (index, (told, now)) in self.gauges.iter_mut().zip(gauges).enumerate() {
            let by = now - std::mem::replace(told, now);
            steps.extend((by != 0).then_some(Step::Move(index, by)));
        }
    }

    /// Takes the gauges back to 0, after which this may be dropped under a lock: the last step keeps the
    /// recorder's handles until it is published. Does nothing the second time.
    fn retract(&mut self, steps: &mut Vec<Step>) {
        if !self.fresh {
            self.tell(self.counters, [0; G], steps);
            steps.push(Step::Of(Arc::clone(&self.series)));
            self.fresh = true;
        }
    }
}

/// A gauge's value, at most 2^50 either way, so that sums and differences of a few are exact in an `f64`
/// however many tokens a client claims.
fn gauge(value: impl TryInto<i64>) -> i64 {
    const MOST: i64 = 1 << 50;
    value.try_into().unwrap_or(MOST).clamp(-MOST, MOST)
}

impl Meter {
    pub(super) fn new(policy: &Arc<PolicyConfig>, dominion: Option<usize>) -> Self {
        let id = dominion.map(|index| Arc::clone(&policy.dominions[index].id));
        Self::named(policy, id.unwrap_or_default())
    }

    /// The meter of what a dominion would be if it were enforced. No dominion can have its name.
    pub(super) fn imagined(policy: &Arc<PolicyConfig>, dominion: Option<usize>) -> Self {
        let id = dominion.map_or("", |index| &policy.dominions[index].id);
        Self::named(policy, format!("{id} (if enforced)").into())
    }

    fn named(policy: &Arc<PolicyConfig>, id: Arc<str>) -> Self {
        Self {
            dominion: Told::nothing(Series::new(DOMINION, vec![("dominion", Arc::clone(&id))])),
            classes: policy
                .classes
                .iter()
                .map(|class| of_class(&id, CLASS, class.profile.clone(), &class.name))
                .collect(),
            former: None,
            workers: Vec::new(),
            pending: Vec::new(),
            policy: Arc::clone(policy),
            id,
        }
    }

    /// Writes down that nothing is left, after which this may be dropped under a lock.
    pub(super) fn retire(&mut self, wakes: &mut WakeList) {
        let steps = &mut wakes.bulletin.steps;
        steps.append(&mut self.pending);
        self.retract(steps);
    }

    fn retract(&mut self, steps: &mut Vec<Step>) {
        self.classes.iter_mut().for_each(|told| told.retract(steps));
        self.former.iter_mut().for_each(|told| told.retract(steps));
        self.workers.iter_mut().for_each(|told| told.retract(steps));
        self.dominion.retract(steps);
    }

    /// From here on the classes are those of `policy`. They are matched by name, as the counts are.
    fn follow(&mut self, policy: &Arc<PolicyConfig>) {
        if Arc::ptr_eq(&self.policy, policy) {
            return;
        }
        let name = |class: &PolicyClass| (class.profile.clone(), Arc::clone(&class.name));
        let known = std::mem::take(&mut self.classes);
        let mut known: HashMap<_, _> = self.policy.classes.iter().map(name).zip(known).collect();
        for class in &policy.classes {
            let told = known.remove(&name(class));
            let fresh = || of_class(&self.id, CLASS, class.profile.clone(), &class.name);
            self.classes.push(told.unwrap_or_else(fresh));
        }
        for mut told in known.into_values() {
            told.retract(&mut self.pending);
            // Its counters keep what they were told; from here on the class counts among the former ones.
            let former = self
                .former
                .get_or_insert_with(|| of_class(&self.id, FORMER, None, &Arc::from("(removed)")));
            for (all, one) in former.counters.iter_mut().zip(told.counters) {
                *all = all.saturating_add(one);
            }
        }
        self.policy = Arc::clone(policy);
    }

    /// Adds what is told for each new worker. An index keeps naming the same worker, except for those
    /// `renamed`.
    fn learn(&mut self, workers: &Workers, renamed: &[u32], steps: &mut Vec<Step>) {
        let told = |load: WorkerLoad<'_>| {
            let id = load.id.cloned().unwrap_or_default();
            let labels = vec![("dominion", Arc::clone(&self.id)), ("worker", id)];
            Told::nothing(Series::new(WORKER, labels))
        };
        for index in renamed.iter().map(|&index| index as usize) {
            if let Some((known, load)) = self.workers.get_mut(index).zip(workers.load_at(index)) {
                let mut former = std::mem::replace(known, told(load));
                former.retract(steps);
            }
        }
        while let Some(load) = workers.load_at(self.workers.len()) {
            self.workers.push(told(load));
        }
    }

    fn record(&mut self, class: Option<usize>, which: usize, duration: Duration) {
        let series = match class {
            Some(class) => self.classes.get(class).map(|told| &told.series),
            None => self.former.as_ref().map(|told| &told.series),
        };
        if let Some(series) = series {
            self.pending.push(Step::Of(Arc::clone(series)));
            self.pending.push(Step::Record(which, duration));
        }
    }
}

fn of_class<const G: usize>(
    dominion: &Arc<str>,
    family: Family,
    profile: Option<Arc<str>>,
    name: &Arc<str>,
) -> Told<CLASS_COUNTERS, G> {
    Told::nothing(Series::new(
        family,
        vec![
            ("dominion", Arc::clone(dominion)),
            ("profile", profile.unwrap_or_default()),
            ("class", Arc::clone(name)),
        ],
    ))
}

impl Drop for Meter {
    fn drop(&mut self) {
        let mut bulletin = Bulletin::default();
        self.retract(&mut bulletin.steps);
        bulletin.publish();
    }
}

impl State {
    /// A request of the class got a slot after waiting this long.
    pub(super) fn note_wait(&mut self, class: usize, wait: Duration) {
        self.meter.follow(&self.policy);
        self.meter.record(Some(class), WAIT, wait);
    }

    /// A request gives its slot back.
    pub(super) fn note_hold(&mut self, grant: &Grant) {
        let class = self.class_now(grant.pool(), grant.class_index());
        self.meter.follow(&self.policy);
        self.meter.record(class, HOLD, grant.stopwatch.0.elapsed());
    }

    /// A request would have held its slot for this long if the dominion were enforced.
    pub(super) fn note_imagined_hold(&mut self, class: Option<usize>, held: Duration) {
        self.meter.follow(&self.policy);
        self.meter.record(class, HOLD, held);
    }

    /// Writes down what has changed, to be published with the wakes. Must be called before the lock is
    /// released.
    pub(super) fn report(&mut self, wakes: &mut WakeList) {
        let Self { meter, workers, .. } = self;
        meter.follow(&self.policy);
        // A closed dominion promises nothing to anybody.
        let open = u64::from(!self.closed);
        let steps = &mut wakes.bulletin.steps;
        steps.append(&mut meter.pending);
        for (index, (told, totals)) in meter.classes.iter_mut().zip(&self.totals).enumerate() {
            let backlog = self.schedule.backlog(index);
            let gauges = [
                gauge(backlog.requests),
                gauge(backlog.raw_tokens),
                gauge(
                    self.schedule
                        .deficit(index)
                        .clamp(i64::MIN.into(), i64::MAX.into()),
                ),
                gauge(self.classes[index].quantum * open),
            ];
            told.tell(series::counts(totals), gauges, steps);
        }
        if let Some(former) = &mut meter.former {
            former.tell(series::counts(&self.former), [], steps);
        }
        let known = meter.workers.len();
        let touched = std::mem::take(&mut workers.touched);
        meter.learn(workers, &touched.renamed, steps);
        for index in touched.indexes(known).chain(known..meter.workers.len()) {
            if let Some((told, load)) = meter.workers.get_mut(index).zip(workers.load_at(index)) {
                told.tell([], [gauge(load.in_flight), gauge(load.prefill)], steps);
            }
        }
        let dominion = [
            gauge(self.max_concurrency.unwrap_or(0) as u64 * open),
            gauge(self.in_use),
            gauge(self.idling.total().as_nanos()),
        ];
        meter.dominion.tell([], dominion, steps);
        if let Some(shadow) = &mut self.shadow {
            shadow.state.report(wakes);
        }
    }
}

impl Default for Bulletin {
    fn default() -> Self {
        // Allocated before the lock is taken, with room for the steps of most changes.
        Self {
            steps: Vec::with_capacity(16),
        }
    }
}

impl Bulletin {
    /// Must not be called under a lock: it runs the recorder.
    pub(super) fn publish(&mut self) {
        let mut steps = std::mem::take(&mut self.steps).into_iter();
        let mut about = None;
        // Whoever publishes may not have put a slot into its owner's hands yet, so no panic gets out: a
        // recorder that panics loses one step, and nothing else is lost.
        while shielded(|| steps.by_ref().for_each(|step| step.apply(&mut about))).is_none() {}
    }
}

impl Step {
    fn apply(self, about: &mut Option<Arc<Series>>) {
        if let Self::Of(series) = self {
            *about = None;
            series.handles();
            *about = Some(series);
        } else if let Some(series) = about {
            self.tell(series.handles());
        }
    }

    fn tell(self, handles: &Handles) {
        match self {
            Self::Of(_) => {}
            Self::Count(which, by) => handles.counters[which].increment(by),
            Self::Move(which, by) => {
                let (gauge, unit) = &handles.gauges[which];
                if by < 0 {
                    gauge.decrement(-by as f64 * unit);
                } else {
                    gauge.increment(by as f64 * unit);
                }
            }
            Self::Record(which, duration) => handles.histograms[which].record(duration),
        }
    }
}

/// Runs a recorder; `None` if it panics.
fn shielded<T>(run: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(run)).ok()
}

/// The indices of the workers whose loads have changed since this was last read. If they are more than a few,
/// all count as changed: this never grows, and a change costs no more where there are many workers.
#[derive(Debug, Default)]
pub(super) struct Touched {
    some: [u32; 8],
    count: usize,
    /// Workers whose index was another worker's before.
    renamed: Vec<u32>,
}

impl Touched {
    pub(super) fn add(&mut self, worker: u32) {
        if let Some(place) = self.some.get_mut(self.count) {
            *place = worker;
        }
        self.count = self.count.saturating_add(1);
    }

    /// An index belongs to another worker from now on.
    pub(super) fn rename(&mut self, worker: u32) {
        self.renamed.push(worker);
        self.add(worker);
    }

    /// The workers that have changed, of this many.
    fn indexes(&self, all: usize) -> impl Iterator<Item = usize> {
        let (some, all) = match self.some.get(..self.count) {
            Some(some) => (some, 0..0),
            None => (&[][..], 0..all),
        };
        some.iter().map(|&index| index as usize).chain(all)
    }
}

/// Measures how long a slot is held.
#[derive(Debug)]
pub(super) struct Stopwatch(Instant);

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }
}

/// Counts the requests that get no class.
#[derive(Debug)]
pub(crate) struct UnplacedMeter(Option<Unplaced>);

impl Default for UnplacedMeter {
    fn default() -> Self {
        // Described here because there is one of these for each layer.
        Self(shielded(|| {
            series::describe();
            Unplaced::register()
        }))
    }
}

impl UnplacedMeter {
    pub(crate) fn rejected(&self, code: Code) {
        self.add(|series| series.rejected[code as usize].increment(1));
    }

    pub(crate) fn bypassed(&self) {
        self.add(|series| series.bypassed.increment(1));
    }

    pub(crate) fn nested(&self) {
        self.add(|series| series.nested.increment(1));
    }

    fn add(&self, add: impl FnOnce(&Unplaced)) {
        if let Some(series) = &self.0 {
            shielded(|| add(series));
        }
    }
}
