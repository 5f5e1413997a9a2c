//! Records what becomes of the requests of a replay, as it happens.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use tower_policy_queue::{Admission, DominionView, PolicyConfig};

use super::log::Entry;

/// Everything that is known about a replay.
pub(super) struct Ledger {
    pub(super) records: Vec<Record>,
    /// By class.
    pub(super) tallies: Vec<Tally>,
    /// Requests that wait, by place and class. A place is a dominion; the last place is for requests without
    /// one.
    waiting: Vec<Vec<usize>>,
    quanta: Vec<u64>,
}

/// What became of one request.
pub(super) struct Record {
    /// The index of its class.
    pub(super) class: usize,
    /// The index of its dominion; for a request without one, the number of dominions.
    pub(super) place: usize,
    /// In tokens.
    pub(super) cost: u64,
    pub(super) arrived: Instant,
    pub(super) started: Option<Start>,
    /// The code of its rejection.
    pub(super) turned_away: Option<&'static str>,
    /// Its response broke off.
    pub(super) cut: bool,
    waits: bool,
}

/// A request at the backend.
pub(super) struct Start {
    pub(super) at: Instant,
    pub(super) waited: Duration,
    pub(super) first_byte: Option<Instant>,
    pub(super) ended: Option<Instant>,
}

/// What a class got in a replay.
#[derive(Clone, Default)]
pub(super) struct Tally {
    waiting: usize,
    /// The most that waited at a time.
    pub(super) longest: usize,
    /// Tokens of waiting requests, of any class, that were served while this class and another waited in
    /// the same place.
    pub(super) contended: f64,
    /// Those of them that this class was served.
    pub(super) served: f64,
    /// Those of them that its quantum promised it.
    pub(super) promised: f64,
}

/// A ledger that the replay's tasks write into.
#[derive(Clone)]
pub(super) struct SharedLedger(Arc<Mutex<Ledger>>);

impl SharedLedger {
    pub(super) fn new(ledger: Ledger) -> Self {
        Self(Arc::new(Mutex::new(ledger)))
    }

    pub(super) fn with(&self, write: impl FnOnce(&mut Ledger)) {
        write(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// What has been recorded so far.
    pub(super) fn take(&self) -> Ledger {
        let mut ledger = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let empty = Ledger {
            records: Vec::new(),
            tallies: Vec::new(),
            waiting: Vec::new(),
            quanta: Vec::new(),
        };
        std::mem::replace(&mut ledger, empty)
    }
}

impl Ledger {
    pub(super) fn new(config: &PolicyConfig, log: &[Entry], begin: Instant) -> Self {
        let places = Places::new(config);
        let record = |entry: &Entry| {
            let (model, policy) = (entry.model.as_deref(), entry.policy.as_deref());
            Record {
                class: config.class_for(model, policy, entry.uncached()).index(),
                place: places.of(entry),
                cost: entry.cost(),
                arrived: begin,
                started: None,
                turned_away: None,
                cut: false,
                waits: false,
            }
        };
        let quanta: Vec<_> = config.classes().map(|class| class.quantum()).collect();
        Self {
            records: log.iter().map(record).collect(),
            tallies: vec![Tally::default(); quanta.len()],
            waiting: vec![vec![0; quanta.len()]; config.dominions().len() + 1],
            quanta,
        }
    }

    pub(super) fn arrived(&mut self, index: usize) {
        self.records[index].arrived = Instant::now();
    }

    /// It was polled and has no answer yet: it runs or waits.
    pub(super) fn pending(&mut self, index: usize) {
        let record = &mut self.records[index];
        if record.started.is_some() {
            return;
        }
        record.waits = true;
        self.waiting[record.place][record.class] += 1;
        let tally = &mut self.tallies[record.class];
        tally.waiting += 1;
        tally.longest = tally.longest.max(tally.waiting);
    }

    pub(super) fn started(&mut self, index: usize, admission: &Admission) {
        if self.records[index].waits {
            self.share_out(index);
        }
        self.leaves(index);
        self.records[index].started = Some(Start {
            at: Instant::now(),
            waited: admission.queued_for(),
            first_byte: None,
            ended: None,
        });
    }

    /// Accounts for a request that waited and is served: its cost counts for its class, and is divided
    /// into what the quanta promise each class that waits in the same place.
    fn share_out(&mut self, index: usize) {
        let Record {
            class, place, cost, ..
        } = self.records[index];
        let waiting = &self.waiting[place];
        let contenders: Vec<_> = (0..waiting.len())
            .filter(|&class| waiting[class] > 0)
            .collect();
        if contenders.len() < 2 {
            return;
        }
        let all: f64 = contenders
            .iter()
            .map(|&class| self.quanta[class] as f64)
            .sum();
        for other in contenders {
            let tally = &mut self.tallies[other];
            tally.contended += cost as f64;
            tally.promised += cost as f64 * self.quanta[other] as f64 / all;
        }
        self.tallies[class].served += cost as f64;
    }

    fn leaves(&mut self, index: usize) {
        let record = &mut self.records[index];
        if std::mem::take(&mut record.waits) {
            self.waiting[record.place][record.class] -= 1;
            self.tallies[record.class].waiting -= 1;
        }
    }

    pub(super) fn turned_away(&mut self, index: usize, code: &'static str) {
        self.leaves(index);
        self.records[index].turned_away = Some(code);
    }

    pub(super) fn first_byte(&mut self, index: usize) {
        if let Some(start) = &mut self.records[index].started {
            start.first_byte = Some(Instant::now());
        }
    }

    pub(super) fn ended(&mut self, index: usize) {
        if let Some(start) = &mut self.records[index].started {
            start.ended = Some(Instant::now());
        }
    }

    pub(super) fn cut(&mut self, index: usize) {
        self.records[index].cut = true;
    }
}

/// Which dominion a request waits in, decided as the layer does for routes that are bound to none.
struct Places<'a> {
    workers: HashMap<&'a str, usize>,
    models: HashMap<&'a str, usize>,
    default: usize,
    none: usize,
}

impl<'a> Places<'a> {
    fn new(config: &'a PolicyConfig) -> Self {
        let none = config.dominions().len();
        let index = |dominion: Option<DominionView<'_>>| dominion.map_or(none, DominionView::index);
        let mut models = HashMap::new();
        for worker in config.workers() {
            for model in worker.models() {
                models.insert(model, index(worker.dominion()));
            }
        }
        let workers = config.workers();
        Self {
            workers: workers
                .map(|worker| (worker.id(), index(worker.dominion())))
                .collect(),
            models,
            default: index(config.default_dominion()),
            none,
        }
    }

    fn of(&self, entry: &Entry) -> usize {
        let model = entry.model.as_deref();
        match entry.worker.as_deref() {
            // A request for a worker that does not exist is turned away, and waits nowhere.
            Some(worker) => self.workers.get(worker).copied().unwrap_or(self.none),
            None => model
                .and_then(|model| self.models.get(model))
                .copied()
                .unwrap_or(self.default),
        }
    }
}
