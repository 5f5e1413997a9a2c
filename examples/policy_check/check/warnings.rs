//! What a policy may say, but rarely means.

use tower_policy_queue::{ClassView, DominionView, PolicyConfig};

use super::{
    heading, line,
    log::Entry,
    rings::{Ring, Rings, costs, has_threshold},
};

/// A quantum larger than this many of the largest requests makes bursts.
const BURSTY: u64 = 8;
/// If the largest request exceeds this many quanta, it takes many rounds.
const MANY_ROUNDS: u64 = 64;

/// A place in the policy, and what is wrong with it.
struct Warning {
    path: String,
    message: String,
}

pub(super) fn print<'a>(
    out: &mut String,
    config: &'a PolicyConfig,
    rings: &Rings<'a>,
    max_cost: u64,
    log: Option<&[Entry]>,
) {
    heading(out, "What looks unintended");
    let mut found = Found {
        config,
        rings,
        max_cost,
        warnings: Vec::new(),
    };
    for class in config.classes() {
        // The class that exists without any policy is nobody's mistake.
        if !class.path().is_empty() {
            found.quantum(class);
            found.threshold(class, log.and_then(|log| median(config, class, log)));
            found.reach(class);
            found.limit(class);
        }
    }
    found.models();
    for ring in rings.iter() {
        if let Some(dominion) = ring.dominion {
            found.dominion(dominion, ring);
        }
    }
    found.default_dominion();
    found.unlimited();
    found.variables();
    if found.warnings.is_empty() {
        line(out, "  nothing");
    }
    for Warning { path, message } in found.warnings {
        line(out, format_args!("  {path}: {message}"));
    }
}

struct Found<'a> {
    config: &'a PolicyConfig,
    rings: &'a Rings<'a>,
    /// The largest cost of a request, in tokens.
    max_cost: u64,
    warnings: Vec<Warning>,
}

impl Found<'_> {
    fn warn(&mut self, path: String, message: String) {
        self.warnings.push(Warning { path, message });
    }

    fn quantum(&mut self, class: ClassView<'_>) {
        let (quantum, max_cost) = (class.quantum(), self.max_cost);
        let path = || format!("{}.quantum", class.path());
        let alone = |ring: &Ring<'_>| ring.classes.len() == 1;
        if self.rings.of(class).all(alone) {
            // A class that competes with none has nothing to share.
        } else if quantum / BURSTY > max_cost {
            let message = format!(
                "is {} times the largest request: that many can go in a row before another class gets a turn",
                quantum / max_cost
            );
            self.warn(path(), message);
        } else if quantum.saturating_mul(MANY_ROUNDS) < max_cost {
            let rounds = max_cost.div_ceil(quantum);
            let message = format!(
                "is far below the largest request, which needs {rounds} rounds of credit. This is harmless: \
                 all rounds are credited at once, and the shares stay the same"
            );
            self.warn(path(), message);
        }
    }

    /// `typical` is a typical request of the class in the log, in uncached tokens.
    fn threshold(&mut self, class: ClassView<'_>, typical: Option<u64>) {
        let (least, most) = costs(class, self.max_cost);
        let (typical, what) = match typical {
            Some(median) => (median, "the median of the log"),
            None => (least + (most - least) / 2, "the middle of its range"),
        };
        let alone = |limit: &str| {
            format!(
                "is {limit} tokens, but a typical request of the class has {typical} ({what}): a single one makes its \
                 worker busy, so such requests are prefilled one at a time"
            )
        };
        if let Some(limit) = class.prefill_busy_threshold() {
            if limit < typical {
                let path = format!("{}.prefill_busy_threshold", class.path());
                self.warn(path, alone(&limit.to_string()));
            }
        }
        let Some(fraction) = class.prefill_busy_threshold_frac() else {
            return;
        };
        let path = format!("{}.prefill_busy_threshold_frac", class.path());
        let workers = self.config.workers();
        let batches = workers.filter_map(|worker| worker.max_num_batched_tokens());
        match batches.min() {
            None => {
                let message = "has no effect: no worker has a max_num_batched_tokens";
                self.warn(path, message.to_owned());
            }
            Some(batch) => {
                let limit = fraction * batch as f64;
                if limit < typical as f64 {
                    self.warn(path, alone(&format!("{fraction} · {batch} = {limit}")));
                }
            }
        }
    }

    fn reach(&mut self, class: ClassView<'_>) {
        let Some(bucket) = class.cache_bucket() else {
            // An explicit class: requests ask for it by name.
            return;
        };
        if bucket.min_tokens() > self.max_cost {
            let message = format!(
                "no request reaches this class: its bucket starts at {} uncached tokens, but the largest request \
                 has only {}",
                bucket.min_tokens(),
                self.max_cost
            );
            self.warn(class.path(), message);
        }
    }

    /// A request limit above what may wait at all, wherever the class waits.
    fn limit(&mut self, class: ClassView<'_>) {
        let mut most: Option<(u128, usize)> = None;
        for ring in self.rings.of(class) {
            let limit = ring.limit_of(class, self.config);
            let (Some(limit), Some(dominion)) = (limit, ring.dominion) else {
                return;
            };
            let max_queue = dominion.max_queue();
            if !ring.can_wait() || limit <= max_queue as u128 {
                return;
            }
            most = most.max(Some((limit, max_queue)));
        }
        if let Some((limit, max_queue)) = most {
            let message = format!(
                "lets {limit} requests wait, which is never reached: max_queue lets only {max_queue} wait over all \
                 classes"
            );
            let path = format!("{}.request_queue_limit_per_worker", class.path());
            self.warn(path, message);
        }
    }

    /// Policies of models that no worker serves.
    fn models(&mut self) {
        if self.config.workers().len() == 0 {
            return;
        }
        for profile in self.config.profiles() {
            let served = |model| self.config.models().any(|served| served == model);
            if profile.model().is_some_and(|model| !served(model)) {
                let message = "no worker serves this model: its requests go wherever requests go by default, \
                               to any worker there";
                self.warn(profile.path(), message.to_owned());
            }
        }
    }

    fn dominion(&mut self, dominion: DominionView<'_>, ring: &Ring<'_>) {
        let path = dominion.path();
        let others = self.config.workers().len() > 0;
        if others && dominion.workers().next().is_none() {
            let message = "no worker is bound to this dominion, although the policy has workers: requests are admitted \
                 here without one";
            self.warn(path.clone(), message.to_owned());
        }
        if !dominion.enforce() {
            let message = "is false: what the limits would do is only counted, and no request waits or is turned away";
            return self.warn(format!("{path}.enforce"), message.to_owned());
        }
        let max_queue = dominion.max_queue();
        let per_client = dominion.max_queue_per_client();
        if let Some(per_client) = per_client.filter(|&per_client| per_client >= max_queue) {
            let message = format!(
                "is {per_client}, which never turns anyone away: max_queue lets only {max_queue} requests wait over \
                 all clients"
            );
            self.warn(format!("{path}.max_queue_per_client"), message);
        }
        let waits = dominion.policy() == "queue";
        let slots = dominion.max_concurrency();
        let thresholds = ring.classes.iter().any(|class| has_threshold(*class));
        if slots.is_none() && !thresholds {
            let message =
                "is not set, and no class has a busy threshold: no request ever waits here";
            self.warn(format!("{path}.max_concurrency"), message.to_owned());
        } else if let Some(room) = ring.class_limits(self.config).filter(|_| waits) {
            if room < max_queue as u128 {
                let message = format!(
                    "is {max_queue}, which is never reached: the limits of the classes let only {room} requests wait"
                );
                self.warn(format!("{path}.max_queue"), message);
            }
        }
    }

    /// What takes no slot.
    fn unlimited(&mut self) {
        if self.config.dominions().len() == 0 {
            let message = "none are defined: nothing limits how many requests run at a time";
            return self.warn("dominions".to_owned(), message.to_owned());
        }
        for worker in self.config.workers() {
            if worker.dominion().is_none() {
                let message =
                    "is not set: requests to this worker take no slot and are not limited";
                self.warn(format!("{}.dominion", worker.path()), message.to_owned());
            }
        }
    }

    /// What looks like a variable but is not, and values with white space at an end. The value may be a key,
    /// so it is not shown.
    fn variables(&mut self) {
        const BARE: &str =
            "contains a `$` before a name, which is not replaced: write a variable as ${NAME}";
        const ELSEWHERE: &str = "contains a `${`, which is not replaced: variables are replaced only in api_key and base_url";
        const BLANK: &str =
            "begins or ends with whitespace, perhaps from a variable that was read from a file";
        // Only a key that is nothing but a `$` and a name: others may well contain a `$`.
        let is_bare = |key: &str| key.strip_prefix('$').is_some_and(is_variable);
        let begins_name = |part: &str| part.starts_with(|char: char| char.is_ascii_alphabetic());
        let has_bare = |url: &str| url.split('$').skip(1).any(begins_name);
        let has_brace = |text: &str| text.contains("${");
        let has_blank = |text: &str| text.trim() != text;
        for worker in self.config.workers() {
            let Some(endpoint) = worker.endpoint() else {
                continue;
            };
            for (key, found, message) in [
                ("api_key", endpoint.api_key().is_some_and(is_bare), BARE),
                ("base_url", endpoint.base_url().is_some_and(has_bare), BARE),
                ("api_key", endpoint.api_key().is_some_and(has_blank), BLANK),
                (
                    "base_url",
                    endpoint.base_url().is_some_and(has_blank),
                    BLANK,
                ),
                ("models", worker.models().any(has_brace), ELSEWHERE),
                (
                    "protocol",
                    endpoint.protocol().is_some_and(has_brace),
                    ELSEWHERE,
                ),
            ] {
                if found {
                    self.warn(format!("{}.{key}", worker.path()), message.to_owned());
                }
            }
        }
    }

    fn default_dominion(&mut self) {
        if self.config.dominions().len() > 1 && self.config.default_dominion().is_none() {
            let message = "is not set, although there are several dominions: a request without a model and a \
                           worker belongs to none of them and is not limited, unless its route is bound \
                           to one";
            self.warn("default_dominion".to_owned(), message.to_owned());
        }
    }
}

/// Whether this can be the name of an environment variable.
fn is_variable(name: &str) -> bool {
    let part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.bytes().all(part)
}

/// The median of the uncached tokens of a class's requests.
fn median(config: &PolicyConfig, class: ClassView<'_>, log: &[Entry]) -> Option<u64> {
    let of_class = log.iter().filter(|entry| {
        let its = config.class_for(
            entry.model.as_deref(),
            entry.policy.as_deref(),
            entry.uncached(),
        );
        its.index() == class.index()
    });
    let mut tokens: Vec<_> = of_class.map(Entry::uncached).collect();
    tokens.sort_unstable();
    tokens.get(tokens.len() / 2).copied()
}
