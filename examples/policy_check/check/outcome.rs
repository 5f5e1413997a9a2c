//! What became of the promises.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;
use tower_policy_queue::{ClassView, PolicyConfig};

use super::{
    heading,
    ledger::{Ledger, Start},
    line,
    table::{Table, or_dash, percent},
};

pub(super) fn print(out: &mut String, config: &PolicyConfig, ledger: &Ledger) {
    heading(out, "What happened, by class");
    print_classes(out, config, ledger);
    heading(out, "What happened, by dominion");
    print_dominions(out, config, ledger);
}

fn print_classes(out: &mut String, config: &PolicyConfig, ledger: &Ledger) {
    let mut table = Table::new(
        1,
        [
            "class", "arrived", "served", "rejected", "promised", "share", "longest", "p50", "p90",
            "p99", "max",
        ],
    );
    let mut codes = BTreeMap::new();
    for class in config.classes() {
        let of_class = || {
            let all = ledger.records.iter();
            all.filter(move |record| record.class == class.index())
        };
        let rejected = of_class().filter_map(|record| record.turned_away);
        let mut count = 0usize;
        for code in rejected {
            count += 1;
            *codes.entry((class.index(), code)).or_insert(0usize) += 1;
        }
        let served = of_class().filter(|record| record.turned_away.is_none());
        let mut waits: Vec<_> = served
            .filter_map(|record| record.started.as_ref())
            .map(|start| start.waited)
            .collect();
        waits.sort_unstable();
        let tally = &ledger.tallies[class.index()];
        let quantiles = [50, 90, 99, 100].map(|percent| or_dash(quantile(&waits, percent)));
        let cells = [
            name(class),
            of_class().count().to_string(),
            waits.len().to_string(),
            count.to_string(),
            percent(tally.promised, tally.contended),
            percent(tally.served, tally.contended),
            tally.longest.to_string(),
        ];
        table.row(cells.into_iter().chain(quantiles));
    }
    line(out, &table);
    line(
        out,
        "  promised, share: of the tokens that were served while both the class and others waited. They agree\n  \
         if the class waits for long. It gets more if it is emptied each time it is served, and less if\n  \
         no worker could take its requests.\n  \
         longest: the most requests that waited at once. p50 to max: how long served requests waited, in seconds.",
    );
    let classes: Vec<_> = config.classes().collect();
    for ((class, code), count) in codes {
        let name = name(classes[class]);
        line(out, format_args!("  {name}: {count} × {code}"));
    }
    let cut = ledger.records.iter().filter(|record| record.cut).count();
    if cut > 0 {
        line(
            out,
            format_args!("  responses cut off at max_hold_ms: {cut}"),
        );
    }
    if config
        .classes()
        .any(|class| class.output_token_weight() > 0.0)
    {
        line(
            out,
            "  The log has no output tokens, so no class was charged for any.",
        );
    }
}

fn print_dominions(out: &mut String, config: &PolicyConfig, ledger: &Ledger) {
    let mut table = Table::new(1, ["dominion", "slots", "served", "in use", "utilisation"]);
    let first = ledger.records.first().map(|record| record.arrived);
    let started = || {
        let all = ledger.records.iter();
        all.filter_map(|record| record.started.as_ref().map(|start| (record, start)))
    };
    let last = started().filter_map(|(_, start)| start.ended).max();
    let span = first.zip(last).map(|(first, last)| last - first);
    let span = span.unwrap_or_default().as_secs_f64();
    let classes: Vec<_> = config.classes().collect();

    let dominions = config.dominions().map(Some).chain([None]);
    for (place, dominion) in dominions.enumerate() {
        let here = || started().filter(move |(record, _)| record.place == place);
        let Some(dominion) = dominion.map(Some).or(here().next().map(|_| None)) else {
            // No request was outside all dominions.
            continue;
        };
        let held = here().map(|(record, start)| held(classes[record.class], start));
        let held: f64 = held.map(|held| held.as_secs_f64()).sum();
        let slots = dominion.and_then(|dominion| dominion.max_concurrency());
        table.row([
            dominion
                .map_or("(none)", |dominion| dominion.id())
                .to_owned(),
            or_dash(slots),
            here().count().to_string(),
            if span > 0.0 {
                format!("{:.2}", held / span)
            } else {
                "-".to_owned()
            },
            slots.map_or("-".to_owned(), |slots| percent(held, span * slots as f64)),
        ]);
    }
    line(out, &table);
    line(
        out,
        format_args!(
            "  in use: the average number of slots taken, over the {span:.1} s from the first arrival to the last end."
        ),
    );
}

/// How long a request held its slot.
fn held(class: ClassView<'_>, start: &Start) -> Duration {
    let end = match class.hold_until() {
        "body_end" => start.ended,
        // The head comes with the first byte.
        _ => start.first_byte.or(start.ended),
    };
    let since = |end: Instant| end.saturating_duration_since(start.at);
    end.map_or(Duration::ZERO, since)
}

fn name(class: ClassView<'_>) -> String {
    match class.profile() {
        Some(model) => format!("{} ({model})", class.name()),
        None => class.name().to_owned(),
    }
}

/// The wait that `percent` of all waits did not exceed, in seconds.
fn quantile(sorted: &[Duration], percent: usize) -> Option<String> {
    let rank = (sorted.len() * percent).div_ceil(100);
    let wait = sorted.get(rank.checked_sub(1)?)?;
    Some(format!("{:.3}", wait.as_secs_f64()))
}
