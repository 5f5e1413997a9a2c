//! The policy after validation: names are resolved to indexes, limits to integers.
//!
//! Everything above this module works with indexes into [`PolicyConfig::classes`],
//! [`PolicyConfig::dominions`] and [`PolicyConfig::workers`]; names appear only at the edges (request
//! headers coming in, responses going out).

use std::{
    collections::{HashMap, HashSet},
    fmt,
    num::NonZeroU64,
    sync::Arc,
    time::Duration,
};

use http::{HeaderName, Method, StatusCode};

/// A validated policy: the YAML, checked and resolved.
///
/// Built with [`str::parse`], [`PolicyConfig::from_path`] or any serde format, and passed to
/// [`PolicyQueueLayer::new`](crate::PolicyQueueLayer::new). A value of this type is always valid: every
/// way to make one validates. The default is an empty policy, under which the layer admits every request
/// at once.
///
/// ```
/// use tower_policy_queue::PolicyConfig;
///
/// let config: PolicyConfig = "
/// dominions:
///   - {id: gpu, kind: remote, max_concurrency: 4, max_queue: 100}
/// ".parse()?;
///
/// let error = "dominions: [{id: gpu, kind: remote, max_concurrency: 0}]"
///     .parse::<PolicyConfig>()
///     .unwrap_err();
/// assert!(error.to_string().contains("dominions[0].max_concurrency"));
/// # Ok::<(), tower_policy_queue::ConfigError>(())
/// ```
///
/// # What is refused
///
/// Everything that must be a mistake: unknown keys, values of the wrong type, names that are missing, taken
/// or undefined, numbers out of range. A [`ConfigError`](crate::ConfigError) reports all mistakes of a policy
/// at once. Only a mistake that keeps the policy from being read is reported alone, such as an unclosed
/// bracket, a repeated key, or a list in place of a map.
///
/// YAML is read strictly: no repeated keys, no tags, no merge keys, a single document, at most
/// [`MAX_BYTES`](Self::MAX_BYTES) long and 64 collections deep. Anchors and aliases are allowed. A policy may
/// have at most 262144 queues: each dominion has one for each class.
///
/// # Variables
///
/// In an endpoint's `api_key` and `base_url`, `${NAME}` is replaced by the environment variable of that
/// name when the policy is loaded; an unset variable is a mistake. A name matches
/// `[A-Za-z_][A-Za-z0-9_]*`. There are no defaults and no escapes, and a `$` without a brace is a plain
/// `$`. Inside YAML's flow brackets (`{..}`, `[..]`) such a value needs quotes.
#[derive(Clone, Debug)]
pub struct PolicyConfig {
    /// The root profile first, then one for each key of `models:` in the order of the file.
    pub(crate) profiles: Vec<Profile>,
    /// For each model that has its own profile, its index in `profiles`.
    pub(crate) profile_of_model: HashMap<String, usize>,
    /// The classes of all profiles, in the order of `profiles` and, within each, of the file.
    /// This is also the order of every dominion's ring.
    pub(crate) classes: Vec<PolicyClass>,
    pub(crate) dominions: Vec<Dominion>,
    /// Endpoints, then local models, each in the order of the file.
    pub(crate) workers: Vec<Arc<Worker>>,
    /// How much of its dominion's `vram_gb` each local model takes, in gigabytes, by id.
    pub(crate) estimates: HashMap<Arc<str>, f64>,
    pub(crate) default_dominion: Option<usize>,
    pub(crate) headers: Headers,
    pub(crate) model_profiles: Vec<ModelProfile>,
    pub(crate) read_ahead: ReadAhead,
    /// Statuses that replace those of this crate, by `error.code`.
    pub(crate) statuses: HashMap<String, StatusCode>,
    pub(crate) bypass: Bypass,
    /// Whether responses name their request's class in a header.
    pub(crate) class_header: bool,
    /// Whether responses say how long their request waited.
    pub(crate) server_timing: bool,
}

/// A set of families and buckets, and the classes that they name together.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    /// The families; each has one class for each bucket.
    pub(crate) families: HashMap<String, Family>,
    pub(crate) default_family: Family,
    /// The `min_tokens` of each bucket, in uncached tokens, starting at 0 and strictly increasing.
    pub(crate) buckets: Vec<u64>,
    /// The names of the buckets; empty if the policy defines none.
    pub(crate) bucket_names: Vec<String>,
    /// Classes without a family and bucket, by name.
    pub(crate) explicit: HashMap<String, usize>,
}

/// The classes of one family, by bucket.
pub(crate) type Family = Arc<[usize]>;

/// A policy class: a physical queue.
#[derive(Clone, Debug)]
pub(crate) struct PolicyClass {
    pub(crate) name: Arc<str>,
    /// The model whose profile the class belongs to; `None` for the root profile.
    pub(crate) profile: Option<Arc<str>>,
    /// Uncached tokens credited in each round.
    pub(crate) quantum: NonZeroU64,
    pub(crate) order: QueuePolicy,
    pub(crate) busy: BusyThreshold,
    pub(crate) limits: ClassLimits,
    /// How long a request may wait.
    pub(crate) max_queue_wait: Option<Duration>,
    pub(crate) hold_until: HoldUntil,
    /// How long a slot may be held, from its grant.
    pub(crate) max_hold: Option<Duration>,
    pub(crate) prefill_until: PrefillUntil,
    /// What an output token costs the class, in input tokens.
    pub(crate) output_token_weight: f64,
}

/// When a request releases its slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum HoldUntil {
    /// When the response head is ready.
    Headers,
    /// At the first data frame of the response body.
    FirstByte,
    /// At the end of the response body.
    #[default]
    BodyEnd,
}

impl HoldUntil {
    pub(crate) const ALL: [Self; 3] = [Self::Headers, Self::FirstByte, Self::BodyEnd];

    /// The word for it in a policy.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Headers => "headers",
            Self::FirstByte => "first_byte",
            Self::BodyEnd => "body_end",
        }
    }
}

/// When a request's uncached tokens stop counting toward its worker's prefill load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PrefillUntil {
    /// When the response head is ready.
    Headers,
    /// At the first data frame of the response body.
    #[default]
    FirstByte,
}

impl PrefillUntil {
    pub(crate) const ALL: [Self; 2] = [Self::Headers, Self::FirstByte];

    /// The word for it in a policy.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Headers => "headers",
            Self::FirstByte => "first_byte",
        }
    }
}

/// How much of the bodies of waiting requests is read ahead, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadAhead {
    /// Per request; 0 disables reading ahead.
    pub(crate) request: usize,
    /// For all requests of a layer together.
    pub(crate) total: usize,
}

impl Default for ReadAhead {
    fn default() -> Self {
        Self {
            request: 1 << 20,
            total: 64 << 20,
        }
    }
}

/// Requests that the policy does not apply to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bypass {
    pub(crate) path_prefixes: Vec<String>,
    pub(crate) methods: Vec<Method>,
}

/// A set of local models that are loaded together.
#[derive(Clone, Debug)]
pub(crate) struct ModelProfile {
    pub(crate) name: String,
    pub(crate) models: Vec<String>,
}

/// The order of requests inside a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum QueuePolicy {
    /// First come, first served.
    #[default]
    Fcfs,
    /// Weighted shortest processing time first.
    Wspt,
}

impl QueuePolicy {
    pub(crate) const ALL: [Self; 2] = [Self::Fcfs, Self::Wspt];

    /// The word for it in a policy.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Fcfs => "fcfs",
            Self::Wspt => "wspt",
        }
    }
}

/// When one worker counts as busy for a class, and when all of them do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct BusyThreshold {
    /// Active prefill tokens above which a worker is busy.
    pub(crate) tokens: Option<u64>,
    /// The same, as a multiple of the worker's `max_num_batched_tokens`.
    pub(crate) fraction: Option<f64>,
    /// The share of busy workers, in (0, 1], at or above which all count as busy; `None` means 1.
    pub(crate) ratio: Option<f64>,
}

/// How much may be queued in a class, per worker, before new requests are turned away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClassLimits {
    pub(crate) requests: Option<u64>,
    pub(crate) raw_isl_tokens: Option<u64>,
    pub(crate) cached_tokens: Option<u64>,
}

/// A pool of concurrency slots.
#[derive(Clone, Debug)]
pub(crate) struct Dominion {
    pub(crate) id: Arc<str>,
    /// Whether its workers are models on this machine (`kind: local`).
    pub(crate) local: bool,
    /// The number of slots; `None` means unlimited.
    pub(crate) max_concurrency: Option<usize>,
    /// How many requests may wait, over all classes.
    pub(crate) max_queue: usize,
    /// How many of them may belong to one client; `None` means no limit.
    pub(crate) max_queue_per_client: Option<usize>,
    /// Whether a request that cannot start at once is turned away (`policy: reject`).
    pub(crate) reject: bool,
    /// If false, what its limits would do is only counted: no request waits or is turned away.
    pub(crate) enforce: bool,
    pub(crate) fair_scheduling: bool,
    pub(crate) fair_unit: FairUnit,
    /// The memory budget of its local models, in gigabytes; `None` means that it is not checked.
    pub(crate) vram_gb: Option<f64>,
}

/// The unit in which waiting clients take turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FairUnit {
    /// Round robin: one request per client and turn.
    #[default]
    Requests,
    /// The client that was served the fewest tokens is next.
    Tokens,
}

impl FairUnit {
    pub(crate) const ALL: [Self; 2] = [Self::Requests, Self::Tokens];

    /// The word for it in a policy.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
        }
    }
}

/// An endpoint or a local model.
#[derive(Clone, Debug)]
pub(crate) struct Worker {
    pub(crate) id: Arc<str>,
    pub(crate) dominion: Option<usize>,
    pub(crate) models: Vec<String>,
    pub(crate) max_num_batched_tokens: Option<u64>,
    /// `None` for a local model.
    pub(crate) endpoint: Option<Arc<Endpoint>>,
}

/// A remote endpoint as the policy describes it, for the inner service to use.
///
/// The layer itself never uses the address or the key.
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) id: Arc<str>,
    pub(crate) protocol: Option<String>,
    pub(crate) base_url: Option<String>,
    pub(crate) api_key: Option<String>,
}

impl Endpoint {
    /// The endpoint's `id`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The protocol that it speaks, such as `openai`, as the policy spells it.
    pub fn protocol(&self) -> Option<&str> {
        self.protocol.as_deref()
    }

    /// Its address.
    pub fn base_url(&self) -> Option<&str> {
        self.base_url.as_deref()
    }

    /// Its API key, with `${VARIABLE}` expanded. `Debug` omits the key, and also the address, which may
    /// contain one.
    pub fn api_key(&self) -> Option<&str> {
        self.api_key.as_deref()
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("id", &self.id)
            .field("protocol", &self.protocol)
            .finish_non_exhaustive()
    }
}

/// Which request headers are used.
#[derive(Clone, Debug)]
pub(crate) struct Headers {
    /// Hints that anyone may send.
    pub(crate) policy: HeaderName,
    pub(crate) client: HeaderName,
    /// Trusted: off unless named.
    pub(crate) model: Option<HeaderName>,
    pub(crate) raw_isl_tokens: Option<HeaderName>,
    pub(crate) cached_tokens: Option<HeaderName>,
    pub(crate) strict_priority: Option<HeaderName>,
    pub(crate) priority_jump: Option<HeaderName>,
    pub(crate) worker: Option<HeaderName>,
    pub(crate) allowed_workers: Option<HeaderName>,
    pub(crate) max_queue_wait_ms: Option<HeaderName>,
}

impl Default for Headers {
    fn default() -> Self {
        Self {
            policy: HeaderName::from_static("x-dynamo-meta-policy-class"),
            client: HeaderName::from_static("x-promptforge-client"),
            model: None,
            raw_isl_tokens: None,
            cached_tokens: None,
            strict_priority: None,
            priority_jump: None,
            worker: None,
            allowed_workers: None,
            max_queue_wait_ms: None,
        }
    }
}

impl PolicyConfig {
    /// The profile that determines the class of a request for `model`.
    fn profile(&self, model: Option<&str>) -> &Profile {
        let own = model.and_then(|model| self.profile_of_model.get(model));
        &self.profiles[own.copied().unwrap_or(0)]
    }

    /// The models that the workers serve, without duplicates, in the order of the file.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        let all = self.workers.iter().flat_map(|worker| &worker.models);
        let mut seen = HashSet::new();
        all.map(String::as_str)
            .filter(move |model| seen.insert(*model))
    }

    /// The index of each class in another policy, matched by its profile's model and its name.
    pub(crate) fn classes_in(&self, other: &Self) -> Vec<Option<usize>> {
        let name = |class: &PolicyClass| (class.profile.clone(), Arc::clone(&class.name));
        let there: HashMap<_, _> = other.classes.iter().map(name).zip(0..).collect();
        let class = |class: &PolicyClass| there.get(&name(class)).copied();
        self.classes.iter().map(class).collect()
    }

    /// The index of a class, by its profile's model and its name.
    pub(crate) fn class_index(&self, profile: Option<&str>, name: &str) -> Option<usize> {
        let same =
            |class: &PolicyClass| class.profile.as_deref() == profile && &*class.name == name;
        self.classes.iter().position(same)
    }

    /// The dominion of requests for which nothing else decides: the default one, or the only one.
    pub(crate) fn fallback_dominion(&self) -> Option<usize> {
        let only = (self.dominions.len() == 1).then_some(0);
        self.default_dominion.or(only)
    }

    /// Whether the limits and the queue of a dominion are enforced. Without a dominion, the limits of the
    /// classes are.
    pub(crate) fn enforces(&self, dominion: Option<usize>) -> bool {
        dominion.is_none_or(|index| self.dominions[index].enforce)
    }

    /// Whether anything is enforced. Without dominions, the limits of the classes are.
    pub(crate) fn enforces_any(&self) -> bool {
        self.dominions.is_empty() || self.dominions.iter().any(|dominion| dominion.enforce)
    }

    /// The class of a request: an index into `classes`.
    ///
    /// `hint` is the family or explicit class that the client asked for; `uncached` is in tokens.
    pub(crate) fn class_of(&self, model: Option<&str>, hint: Option<&str>, uncached: u64) -> usize {
        let profile = self.profile(model);
        let hint = hint.map(str::trim).filter(|hint| !hint.is_empty());
        if let Some(&class) = hint.and_then(|hint| profile.explicit.get(hint)) {
            return class;
        }
        let family = hint.and_then(|hint| profile.families.get(hint));
        let family = family.unwrap_or(&profile.default_family);
        let bucket = profile.buckets.partition_point(|&min| min <= uncached);
        // The first bucket starts at 0, so `bucket` is at least 1.
        family[bucket.saturating_sub(1)]
    }
}
