//! What is reported during the run, and at the end.

use std::time::Duration;

use tokio::{
    sync::watch as channel,
    time::{Instant, interval},
};

use super::{backend::Backend, broken::Broken, changes::Counts, load, tally::Tally, watch::Watch};

/// How much more memory may be in use at the last quiet point than at the first: the allocator keeps what
/// tables and connections took at a later peak.
const GROWTH: u64 = 16 << 20;
const MIB: f64 = (1 << 20) as f64;

pub(crate) struct Report {
    watch: Watch,
    changes: channel::Receiver<Counts>,
    backend: Backend,
    began: Instant,
    load_began: Instant,
    under_load: Duration,
    /// At each quiet point.
    resident: Vec<u64>,
}

impl Report {
    pub(crate) fn new(watch: Watch, changes: channel::Receiver<Counts>, backend: Backend) -> Self {
        Self {
            watch,
            changes,
            backend,
            began: Instant::now(),
            load_began: Instant::now(),
            under_load: Duration::ZERO,
            resident: Vec::new(),
        }
    }

    /// Prints a line now and then.
    pub(crate) fn progress(&self) -> impl Future<Output = ()> + Send + 'static {
        let (watch, changes, began) = (self.watch.clone(), self.changes.clone(), self.began);
        async move {
            let mut ticks = interval(Duration::from_secs(5));
            ticks.tick().await;
            loop {
                ticks.tick().await;
                let (usage, counts) = (watch.handle.usage(), *changes.borrow());
                println!(
                    "{:4.0} s  {:7} requests, {:3} run, {:3} wait  {:4} reloads, {:5} changes  {:5.1} MiB",
                    began.elapsed().as_secs_f64(),
                    watch.tally.begun(),
                    usage.slots_in_use,
                    usage.waiting,
                    counts.reloads,
                    counts.workers + counts.conditions + counts.limits,
                    load::resident().unwrap_or(0) as f64 / MIB,
                );
            }
        }
    }

    /// Records that the load has ended.
    pub(crate) fn load_ended(&mut self) {
        self.under_load += self.load_began.elapsed();
    }

    /// Records that a quiet point is over and the load resumes.
    pub(crate) fn quiet(&mut self) {
        self.resident.extend(load::resident());
        self.load_began = Instant::now();
    }

    /// Prints the table.
    pub(crate) fn print(&self, broken: &Broken) {
        if let [first, .., last] = self.resident[..] {
            broken.check(last <= first + GROWTH, || {
                format!(
                    "memory grew from {:.1} to {:.1} MiB",
                    first as f64 / MIB,
                    last as f64 / MIB
                )
            });
        }
        let tally: &Tally = &self.watch.tally;
        let begun = tally.begun();
        println!("\nfor the clients");
        for (what, count) in tally.rows() {
            println!("  {count:8}  {what}");
        }
        println!("  {begun:8}  requests");
        println!("\nfor the layer, in the dominions that there are");
        for (what, count) in self.watch.totals() {
            println!("  {count:8}  {what}");
        }
        println!("\nwaits by class          requests   p50 ms   p99 ms");
        for (class, waits) in self.backend.waits() {
            let [p50, p99] = [0.5, 0.99].map(|it| waits.quantile(it).unwrap_or(0.0));
            println!("  {class:20} {:10} {p50:8.1} {p99:8.1}", waits.count());
        }
        let most = self.watch.ledger.most();
        let most = most.iter().filter(|(id, _)| !id.starts_with("c-"));
        let most: Vec<_> = most.map(|(id, most)| format!("{id} {most}")).collect();
        println!("\nmost at a time         {}", most.join(", "));
        let counts = *self.changes.borrow();
        println!(
            "changes                {} reloads, {} workers added or removed, {} drained, overloaded \
             or tainted, {} limits; {} refused",
            counts.reloads, counts.workers, counts.conditions, counts.limits, counts.refused
        );
        println!(
            "requests a second      {:.0} under load, {:.0} with {} quiet points",
            begun as f64 / self.under_load.as_secs_f64(),
            begun as f64 / self.began.elapsed().as_secs_f64(),
            self.resident.len(),
        );
        let mib = |bytes: Option<u64>| {
            bytes.map_or("?".to_owned(), |it| format!("{:.1}", it as f64 / MIB))
        };
        println!(
            "memory, MiB            {} at the peak, {} at the first quiet point, {} at the last",
            mib(load::peak_resident()),
            mib(self.resident.first().copied()),
            mib(self.resident.last().copied()),
        );
        let (told, count) = broken.all();
        println!("broken invariants      {count}");
        for line in told {
            println!("  {line}");
        }
    }
}
