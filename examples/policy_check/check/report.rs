//! What a policy says: which requests get which class, what the classes are promised, what queues may take.

use tower_policy_queue::{ClassView, PolicyConfig, ProfileView};

use super::{
    MaxCost, heading, line,
    rings::{Rings, costs},
    table::{Table, bytes, or_dash, percent},
};

/// What the layer itself holds for a parked request, in bytes, in addition to the request.
const WAITER_BYTES: u128 = 512;

pub(super) fn print<'a>(
    out: &mut String,
    config: &'a PolicyConfig,
    rings: &Rings<'a>,
    max_cost: &MaxCost,
) {
    heading(out, "Which class a request gets");
    for profile in config.profiles() {
        print_matrix(out, config, profile);
    }
    heading(out, "What the classes are promised");
    print_promises(out, config, rings, max_cost);
    heading(out, "What can wait");
    print_queues(out, config, rings);
}

fn print_matrix(out: &mut String, config: &PolicyConfig, profile: ProfileView<'_>) {
    match profile.model() {
        Some(model) => line(out, format_args!("model {model}")),
        None if config.profiles().len() > 1 => line(out, "all other models"),
        None => line(out, "all models"),
    }
    let default = profile.default_family();
    let Some(default) = default else {
        return line(out, "  one class for all requests: default\n");
    };
    let mut table = Table::new(4, ["family", "uncached tokens", "bucket", "class"]);
    for family in profile.families() {
        let mut name = family.to_owned();
        if family == default {
            name += " (default)";
        }
        for bucket in profile.buckets() {
            let end = bucket.max_tokens();
            let range = match end {
                Some(end) => format!("{} to {end}", bucket.min_tokens()),
                None => format!("{} or more", bucket.min_tokens()),
            };
            let class = config.class_for(profile.model(), Some(family), bucket.min_tokens());
            let cells = [&*name, &range, bucket.name(), class.name()];
            table.row(cells.map(str::to_owned));
            name.clear();
        }
    }
    line(out, &table);
    let explicit: Vec<_> = profile
        .classes()
        .filter(|class| class.policy_family().is_none())
        .map(ClassView::name)
        .collect();
    if !explicit.is_empty() {
        line(
            out,
            format_args!("  explicit classes, by name: {}\n", explicit.join(", ")),
        );
    }
}

fn print_promises<'a>(
    out: &mut String,
    config: &'a PolicyConfig,
    rings: &Rings<'a>,
    max_cost: &MaxCost,
) {
    let MaxCost { tokens, why } = *max_cost;
    let several = config.profiles().len() > 1;
    let mut table = Table::new(
        1,
        [
            "class",
            "order",
            "quantum",
            "share",
            "smallest",
            "passed by",
            "largest",
            "passed by",
        ],
    );
    for class in config.classes() {
        let name = match class.profile() {
            Some(model) if several => format!("{} ({model})", class.name()),
            _ => class.name().to_owned(),
        };
        let (smallest, largest) = costs(class, tokens);
        let bound = |cost| or_dash(rings.bound(class, cost, tokens));
        table.row([
            name,
            class.queue_policy().to_owned(),
            class.quantum().to_string(),
            rings
                .share(class)
                .map_or("-".to_owned(), |share| percent(share, 1.0)),
            smallest.to_string(),
            bound(smallest),
            largest.to_string(),
            bound(largest),
        ]);
    }
    line(out, &table);
    line(
        out,
        format_args!(
            "  The largest request is assumed to have {tokens} uncached tokens ({why}).\n  \
             share: the least share of a dominion's tokens, while every class that can wait there does.\n  \
             passed by: how many tokens of other classes can be served before the smallest or largest \
             request of\n  the class, once it is the head of its class and a worker may take it: the sum \
             over the other classes\n  of ceil(cost / quantum) · their quantum + their largest cost - 1."
        ),
    );
    if config
        .classes()
        .any(|class| class.output_token_weight() > 0.0)
    {
        line(
            out,
            "  Output tokens are charged too, afterwards: shares then cover both, and a class may wait longer.",
        );
    }
}

fn print_queues(out: &mut String, config: &PolicyConfig, rings: &Rings<'_>) {
    let mut table = Table::new(
        1,
        [
            "dominion", "workers", "slots", "waiting", "entries", "bodies",
        ],
    );
    let each = config.read_ahead_bytes() as u128;
    let all = config.read_ahead_total_bytes() as u128;
    let bodies = |room: Option<u128>| match room {
        Some(room) => room.saturating_mul(each).min(all),
        None => all,
    };
    let row = |name: &str, workers: String, slots: String, room: Option<u128>| {
        let entries = room.map(|room| bytes(room.saturating_mul(WAITER_BYTES)));
        [
            name.to_owned(),
            workers,
            slots,
            room.map_or("any number".to_owned(), |room| room.to_string()),
            entries.unwrap_or("any".to_owned()),
            bytes(bodies(room)),
        ]
    };
    let mut total = Some(0u128);
    for ring in rings.iter() {
        let room = ring.room(config);
        total = total.zip(room).map(|(sum, room)| sum.saturating_add(room));
        table.row(match ring.dominion {
            Some(dominion) => row(
                dominion.id(),
                dominion.workers().count().to_string(),
                or_dash(dominion.max_concurrency()),
                room,
            ),
            None => {
                let workers = config.workers();
                let workers = workers.filter(|worker| worker.dominion().is_none());
                row("(none)", workers.count().to_string(), "-".to_owned(), room)
            }
        });
    }
    table.row(row("all", String::new(), String::new(), total));
    line(out, &table);
    line(
        out,
        format_args!(
            "  entries: {WAITER_BYTES} bytes per waiting request for the layer itself; the request comes on top.\n  \
             bodies: how much of the requests' bodies is read ahead, at most {} each and {} in all.",
            bytes(each),
            bytes(all)
        ),
    );
}
