//! The policy as written: the keys and their types, nothing else.
//!
//! All fields are optional and no range is checked, so that missing and out-of-range values are found by
//! validation, which reports all mistakes, and not here, where the first one ends the reading. For the same
//! reason unknown keys are skipped; [`keys`](super::keys) collects them. Lists of names hold options because
//! otherwise a `~` among them would be read as the name "~".
//!
//! With the feature `schema` the types also describe themselves as [JSON Schema](super::json_schema): doc
//! comments become the descriptions in editors, and the attributes repeat what validation checks.
//!
//! No type here is `Debug`, since API keys pass through.

use serde::Deserialize;

#[cfg(feature = "schema")]
use super::json_schema::{self, HEADER_NAME, NAME, NOT_BLANK, PATH_OR_METHOD, Statuses};
use super::value::{Flag, Map, Number, Whole};

/// A policy for tower-policy-queue: how requests are classified, who goes first, and where they run.
// The aliases are the table names of TOML: `[[dominion]]` and so on.
#[derive(Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields, rename = "Policy", transform = json_schema::policy))]
#[serde(expecting = "a policy, which is a map")]
pub(super) struct RawPolicy {
    /// The family of requests that name no family, or an unknown one.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = NAME)))]
    pub(super) default_policy_family: Option<String>,
    /// Ranges of uncached input tokens. The first starts at 0, and each ends where the next one starts.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub(super) uncached_isl_buckets: Option<Vec<RawBucket>>,
    /// The queues: one for each family and bucket, plus explicit classes, which have neither.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub(super) policy_classes: Option<Vec<RawClass>>,
    /// Policies for individual models, by model name. Each replaces the families, buckets and classes above
    /// as a whole.
    pub(super) models: Option<Map<RawProfile>>,
    /// Pools of slots, each with its own queue.
    #[serde(alias = "dominion")]
    pub(super) dominions: Option<Vec<RawDominion>>,
    /// The workers of remote dominions.
    #[serde(alias = "endpoint")]
    pub(super) endpoints: Option<Vec<RawEndpoint>>,
    /// The workers of local dominions. Each serves the model named by its id.
    #[serde(alias = "local_model")]
    pub(super) local_models: Option<Vec<RawLocalModel>>,
    /// Sets of local models that are loaded together. The models of a profile must fit into the `vram_gb` of
    /// their dominions. Without profiles, all local models together must.
    #[serde(alias = "profile")]
    pub(super) profiles: Option<Vec<RawSelection>>,
    /// The dominion of requests for which neither the worker, the model nor the route determines one.
    /// Default: the only dominion if there is just one, otherwise none.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = NAME)))]
    pub(super) default_dominion: Option<String>,
    /// Which request headers are used.
    pub(super) headers: Option<RawHeaders>,
    /// How long a request may wait, in milliseconds, in classes without their own limit. Default: no limit.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub(super) max_queue_wait_ms: Option<Whole>,
    /// How much of the body of each waiting request is read ahead, in bytes. 0 disables reading ahead.
    #[cfg_attr(feature = "schema", schemars(extend("default" = 1_048_576)))]
    pub(super) read_ahead_bytes: Option<Whole>,
    /// How much of the bodies of all waiting requests together is read ahead, in bytes.
    #[cfg_attr(feature = "schema", schemars(extend("default" = 67_108_864)))]
    pub(super) read_ahead_total_bytes: Option<Whole>,
    /// HTTP statuses that replace the default ones for requests that are turned away, by `error.code`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Statuses>"))]
    pub(super) statuses: Option<Map<Option<Whole>>>,
    /// Path prefixes, such as `/health`, and methods, such as `OPTIONS`. Their requests take no slot and
    /// never wait.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<String>>", inner(regex(pattern = PATH_OR_METHOD))))]
    pub(super) bypass: Option<Vec<Option<String>>>,
    /// Whether responses name the class of their request in an `x-policy-queue-class` header.
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    pub(super) class_header: Option<Flag>,
    /// Whether responses say how long their request waited, in a `Server-Timing` header.
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    pub(super) server_timing: Option<Flag>,
}

/// A set of families, buckets and classes: that of the root, or that of a model.
#[derive(Default, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields, rename = "ModelPolicy")
)]
#[serde(expecting = "a model's policy, which is a map")]
pub(super) struct RawProfile {
    /// The family of requests that name no family, or an unknown one.
    #[cfg_attr(feature = "schema", schemars(required, regex(pattern = NAME)))]
    pub(super) default_policy_family: Option<String>,
    /// Ranges of uncached input tokens. The first starts at 0, and each ends where the next one starts.
    #[cfg_attr(feature = "schema", schemars(required, length(min = 1)))]
    pub(super) uncached_isl_buckets: Option<Vec<RawBucket>>,
    /// The queues: one for each family and bucket, plus explicit classes, which have neither.
    #[cfg_attr(feature = "schema", schemars(required, length(min = 1)))]
    pub(super) policy_classes: Option<Vec<RawClass>>,
}

/// A range of uncached input tokens.
#[derive(Default, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields, rename = "Bucket")
)]
#[serde(expecting = "a bucket, which is a map")]
pub(super) struct RawBucket {
    /// The least number of uncached input tokens of a request in this bucket.
    #[cfg_attr(feature = "schema", schemars(required))]
    pub(super) min_tokens: Option<Whole>,
    /// The name.
    #[cfg_attr(feature = "schema", schemars(required, regex(pattern = NAME)))]
    pub(super) bucket: Option<String>,
}

/// A queue with its share of the capacity.
#[derive(Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields, rename = "PolicyClass", transform = json_schema::policy_class))]
#[serde(expecting = "a policy class, which is a map")]
pub(super) struct RawClass {
    /// The name, unique among the classes of its policy.
    #[cfg_attr(feature = "schema", schemars(required, regex(pattern = NAME)))]
    pub(super) name: Option<String>,
    /// The family, which requests ask for. If both this and `cache_bucket` are absent, the class is an
    /// explicit one, which requests ask for by name.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = NAME)))]
    pub(super) policy_family: Option<String>,
    /// The bucket of its requests.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = NAME)))]
    pub(super) cache_bucket: Option<String>,
    /// The order inside the class: first come, first served (`fcfs`), or weighted shortest processing time
    /// first (`wspt`).
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["fcfs", "wspt", null], "default" = "fcfs")))]
    pub(super) queue_policy: Option<String>,
    /// Uncached tokens credited per round. The share of the class is its quantum in proportion to the
    /// others'.
    #[cfg_attr(feature = "schema", schemars(required, range(min = 1)))]
    pub(super) quantum: Option<Whole>,
    /// A worker with more active prefill tokens than this is busy for the class. Default: no threshold.
    pub(super) prefill_busy_threshold: Option<Whole>,
    /// The same threshold, as a multiple of the worker's `max_num_batched_tokens`.
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub(super) prefill_busy_threshold_frac: Option<Number>,
    /// The share of busy workers, above 0 and at most 1, at or above which all count as busy.
    /// Default: 1.
    #[cfg_attr(feature = "schema", schemars(range(max = 1), extend("exclusiveMinimum" = 0)))]
    pub(super) busy_worker_ratio: Option<Number>,
    /// How many requests may be queued in the class, per worker of the dominion. Beyond that, requests get
    /// a 529.
    pub(super) request_queue_limit_per_worker: Option<Whole>,
    /// How many input tokens, including cached ones, may be queued in the class, per worker of the dominion.
    pub(super) raw_isl_token_queue_limit_per_worker: Option<Whole>,
    /// How many cached input tokens may be queued in the class, per worker of the dominion.
    pub(super) cached_token_queue_limit_per_worker: Option<Whole>,
    /// How long a request may wait in the queue, in milliseconds. After that, it gets a 503.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub(super) max_queue_wait_ms: Option<Whole>,
    /// When a request releases its slot.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["headers", "first_byte", "body_end", null], "default" = "body_end")))]
    pub(super) hold_until: Option<String>,
    /// How long a request may hold its slot, in milliseconds. After that, its response ends with an error.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub(super) max_hold_ms: Option<Whole>,
    /// When the tokens of a request stop counting toward the prefill load of its worker.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["headers", "first_byte", null], "default" = "first_byte")))]
    pub(super) prefill_until: Option<String>,
    /// The cost of an output token, in input tokens.
    #[cfg_attr(feature = "schema", schemars(range(min = 0), extend("default" = 0)))]
    pub(super) output_token_weight: Option<Number>,
}

/// A pool of slots with its own queue.
#[derive(Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields, rename = "Dominion", transform = json_schema::dominion))]
#[serde(expecting = "a dominion, which is a map")]
pub(super) struct RawDominion {
    /// The id.
    #[cfg_attr(feature = "schema", schemars(required, regex(pattern = NAME)))]
    pub(super) id: Option<String>,
    /// Whether its workers are endpoints (`remote`) or models on this machine (`local`).
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["remote", "local", null], "default" = "remote")))]
    pub(super) kind: Option<String>,
    /// The number of slots: how many requests run at a time. Default: unlimited.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub(super) max_concurrency: Option<Whole>,
    /// How many requests may wait, over all classes. Beyond that, requests get a 503.
    #[cfg_attr(feature = "schema", schemars(range(min = 1), extend("default" = 100)))]
    pub(super) max_queue: Option<Whole>,
    /// How many of the waiting requests may belong to one client. All requests without a label count as one
    /// client. Beyond that, requests get a 429. Default: no limit.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub(super) max_queue_per_client: Option<Whole>,
    /// Whether a request that cannot start at once waits (`queue`) or gets a 429 (`reject`).
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["queue", "reject", null], "default" = "queue")))]
    pub(super) policy: Option<String>,
    /// Whether its limits and its queue are enforced. If false, what they would do is only counted: no
    /// request waits or is turned away.
    #[cfg_attr(feature = "schema", schemars(extend("default" = true)))]
    pub(super) enforce: Option<Flag>,
    /// Whether waiting clients take turns.
    #[cfg_attr(feature = "schema", schemars(extend("default" = true)))]
    pub(super) fair_scheduling: Option<Flag>,
    /// The unit in which clients take turns.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["requests", "tokens", null], "default" = "requests")))]
    pub(super) fair_unit: Option<String>,
    /// The memory budget of its local models together, in gigabytes. Only for `kind: local`.
    #[cfg_attr(feature = "schema", schemars(extend("exclusiveMinimum" = 0)))]
    pub(super) vram_gb: Option<Number>,
}

/// A remote worker.
#[derive(Default, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields, rename = "Endpoint")
)]
#[serde(expecting = "an endpoint, which is a map")]
pub(super) struct RawEndpoint {
    /// The id, unique among endpoints and local models.
    #[cfg_attr(feature = "schema", schemars(required, regex(pattern = NAME)))]
    pub(super) id: Option<String>,
    /// The dominion whose slots its requests take. Default: none, so its requests are unlimited.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = NAME)))]
    pub(super) dominion: Option<String>,
    /// The models that it serves. Default: the one named by its id.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<String>>", inner(regex(pattern = NOT_BLANK)), extend("uniqueItems" = true)))]
    pub(super) models: Option<Vec<Option<String>>>,
    /// The number of tokens that `prefill_busy_threshold_frac` multiplies.
    pub(super) max_num_batched_tokens: Option<Whole>,
    /// The protocol that it speaks, passed on to the inner service.
    pub(super) protocol: Option<String>,
    /// Its address, passed on to the inner service. `${NAME}` is replaced by the environment variable of that
    /// name.
    pub(super) base_url: Option<String>,
    /// Its API key, passed on to the inner service. `${NAME}` is replaced by the environment variable of that
    /// name.
    pub(super) api_key: Option<String>,
}

/// A worker on this machine.
#[derive(Default, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields, rename = "LocalModel")
)]
#[serde(expecting = "a local model, which is a map")]
pub(super) struct RawLocalModel {
    /// The id, unique among endpoints and local models.
    #[cfg_attr(feature = "schema", schemars(required, regex(pattern = NAME)))]
    pub(super) id: Option<String>,
    /// The dominion whose slots its requests take. Default: none, so its requests are unlimited.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = NAME)))]
    pub(super) dominion: Option<String>,
    /// The number of tokens that `prefill_busy_threshold_frac` multiplies.
    pub(super) max_num_batched_tokens: Option<Whole>,
    /// How much memory it takes, in gigabytes.
    #[cfg_attr(feature = "schema", schemars(extend("exclusiveMinimum" = 0)))]
    pub(super) vram_gb: Option<Number>,
}

/// A set of local models that are loaded together.
#[derive(Default, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields, rename = "Profile")
)]
#[serde(expecting = "a profile, which is a map")]
pub(super) struct RawSelection {
    /// The name.
    #[cfg_attr(feature = "schema", schemars(required, regex(pattern = NAME)))]
    pub(super) name: Option<String>,
    /// The models to load together.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<String>>", required, inner(regex(pattern = NOT_BLANK)), extend("uniqueItems" = true)))]
    pub(super) models: Option<Vec<Option<String>>>,
}

/// The names of the request headers that are used.
#[derive(Default, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields, rename = "Headers")
)]
#[serde(expecting = "header names, which are a map")]
pub(super) struct RawHeaders {
    /// Names a family or an explicit class. Only a hint, which anyone may send.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = HEADER_NAME), extend("default" = "x-dynamo-meta-policy-class")))]
    pub(super) policy: Option<String>,
    /// The label of the client, by which clients take turns. Only a hint, which anyone may send.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = HEADER_NAME), extend("default" = "x-promptforge-client")))]
    pub(super) client: Option<String>,
    /// The model. This header and those below are trusted, and ignored unless named here.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = HEADER_NAME)))]
    pub(super) model: Option<String>,
    /// The number of input tokens, including cached ones.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = HEADER_NAME)))]
    pub(super) raw_isl_tokens: Option<String>,
    /// The number of input tokens that a worker has cached.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = HEADER_NAME)))]
    pub(super) cached_tokens: Option<String>,
    /// The priority tier inside the class. Higher tiers go first.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = HEADER_NAME)))]
    pub(super) strict_priority: Option<String>,
    /// In an FCFS class, a head start in seconds; in a WSPT class, additional weight.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = HEADER_NAME)))]
    pub(super) priority_jump: Option<String>,
    /// The id of the worker that the request is pinned to.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = HEADER_NAME)))]
    pub(super) worker: Option<String>,
    /// The ids of the workers that the request may go to, separated by commas.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = HEADER_NAME)))]
    pub(super) allowed_workers: Option<String>,
    /// How long the request may wait, in milliseconds. The limit of its class applies too.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = HEADER_NAME)))]
    pub(super) max_queue_wait_ms: Option<String>,
}
