//! The policy as it is written: the keys and their types, nothing else.
//!
//! All fields are optional and ranges are open, so that what is missing or out of range is
//! found by validation, which reports all mistakes, and not here, where the first ends it. For the
//! same reason unknown keys are passed over: [`keys`](super::keys) collects them. Lists of names hold
//! options because YAML would otherwise read a `~` among them as the name "~".
//!
//! With the feature `schema` the types also describe themselves, as [JSON Schema](super::json_schema): the
//! comments are what editors show, and the attributes say what validation will check.
//!
//! No type here is `Debug`: keys pass through.

use serde::Deserialize;

#[cfg(feature = "schema")]
use super::json_schema::{self, HEADER_NAME, NAME, NOT_BLANK, PATH_OR_METHOD, Statuses};
use super::value::{Flag, Map, Number, Whole};

/// A policy of tower-policy-queue: which requests there are, who goes first, and where they run.
// The aliases are the table names of TOML: `[[dominion]]` and so on.
#[derive(Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields, rename = "Policy", transform = json_schema::policy))]
#[serde(expecting = "a policy, which is a map")]
pub(super) struct RawPolicy {
    /// The family of the requests that name none, or none that there is.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = NAME)))]
    pub(super) default_policy_family: Option<String>,
    /// Ranges of uncached input tokens. The first starts at 0, and each ends where the next one
    /// starts.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub(super) uncached_isl_buckets: Option<Vec<RawBucket>>,
    /// The queues: one for each family and bucket, and explicit ones, which have neither.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub(super) policy_classes: Option<Vec<RawClass>>,
    /// Policies of single models, by the name of the model. Each replaces the one above whole.
    pub(super) models: Option<Map<RawProfile>>,
    /// Pools of slots, each with a queue of its own.
    #[serde(alias = "dominion")]
    pub(super) dominions: Option<Vec<RawDominion>>,
    /// The workers of remote dominions.
    #[serde(alias = "endpoint")]
    pub(super) endpoints: Option<Vec<RawEndpoint>>,
    /// The workers of local dominions. Each serves the model of its own name.
    #[serde(alias = "local_model")]
    pub(super) local_models: Option<Vec<RawLocalModel>>,
    /// Local models that are loaded together. Those of a profile must fit into the `vram_gb` of their
    /// dominions; without profiles, all of them must.
    #[serde(alias = "profile")]
    pub(super) profiles: Option<Vec<RawSelection>>,
    /// The dominion of the requests that neither their worker, their model nor their route decides.
    /// Absent: the only dominion there is, else none.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = NAME)))]
    pub(super) default_dominion: Option<String>,
    /// Which request headers are believed.
    pub(super) headers: Option<RawHeaders>,
    /// The longest wait in a queue, in milliseconds, for classes that do not say. Absent: for ever.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub(super) max_queue_wait_ms: Option<Whole>,
    /// How much is read of the body of each parked request, in bytes; 0: nothing.
    #[cfg_attr(feature = "schema", schemars(extend("default" = 1_048_576)))]
    pub(super) read_ahead_bytes: Option<Whole>,
    /// How much is read of the bodies of all parked requests together, in bytes.
    #[cfg_attr(feature = "schema", schemars(extend("default" = 67_108_864)))]
    pub(super) read_ahead_total_bytes: Option<Whole>,
    /// Other HTTP statuses for the answers to requests that are turned away, by `error.code`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Statuses>"))]
    pub(super) statuses: Option<Map<Option<Whole>>>,
    /// Beginnings of paths, such as `/health`, and methods, such as `OPTIONS`, whose requests take no
    /// slot and never wait.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<String>>", inner(regex(pattern = PATH_OR_METHOD))))]
    pub(super) bypass: Option<Vec<Option<String>>>,
    /// Whether responses name their class in `x-policy-queue-class`.
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    pub(super) class_header: Option<Flag>,
    /// Whether responses say how long their requests waited, in a `Server-Timing` header.
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    pub(super) server_timing: Option<Flag>,
}

/// A set of families, buckets and classes: the root's, or a model's.
#[derive(Default, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields, rename = "ModelPolicy")
)]
#[serde(expecting = "a model's policy, which is a map")]
pub(super) struct RawProfile {
    /// The family of the requests that name none, or none that there is.
    #[cfg_attr(feature = "schema", schemars(required, regex(pattern = NAME)))]
    pub(super) default_policy_family: Option<String>,
    /// Ranges of uncached input tokens. The first starts at 0, and each ends where the next one
    /// starts.
    #[cfg_attr(feature = "schema", schemars(required, length(min = 1)))]
    pub(super) uncached_isl_buckets: Option<Vec<RawBucket>>,
    /// The queues: one for each family and bucket, and explicit ones, which have neither.
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
    /// The uncached input tokens from which on a request falls into the bucket.
    #[cfg_attr(feature = "schema", schemars(required))]
    pub(super) min_tokens: Option<Whole>,
    /// Its name.
    #[cfg_attr(feature = "schema", schemars(required, regex(pattern = NAME)))]
    pub(super) bucket: Option<String>,
}

/// A queue with a share.
#[derive(Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields, rename = "PolicyClass", transform = json_schema::policy_class))]
#[serde(expecting = "a policy class, which is a map")]
pub(super) struct RawClass {
    /// Its name, unique among the classes of its policy.
    #[cfg_attr(feature = "schema", schemars(required, regex(pattern = NAME)))]
    pub(super) name: Option<String>,
    /// The family that requests ask for. Absent, with `cache_bucket`: an explicit class, which
    /// requests ask for by its name.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = NAME)))]
    pub(super) policy_family: Option<String>,
    /// The bucket of its requests.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = NAME)))]
    pub(super) cache_bucket: Option<String>,
    /// The order inside the class: first come, first served, or the shortest first, weighted.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["fcfs", "wspt", null], "default" = "fcfs")))]
    pub(super) queue_policy: Option<String>,
    /// Uncached tokens credited in each round: the share of the class, in proportion to the others.
    #[cfg_attr(feature = "schema", schemars(required, range(min = 1)))]
    pub(super) quantum: Option<Whole>,
    /// A worker with more active prefill tokens than this is busy for the class.
    pub(super) prefill_busy_threshold: Option<Whole>,
    /// The same as a multiple of the `max_num_batched_tokens` of the worker.
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub(super) prefill_busy_threshold_frac: Option<Number>,
    /// The share of busy workers, above 0 and at most 1, from which on all count as busy.
    /// Absent: 1, all of them.
    #[cfg_attr(feature = "schema", schemars(range(max = 1), extend("exclusiveMinimum" = 0)))]
    pub(super) busy_worker_ratio: Option<Number>,
    /// Requests that may be queued in the class, for each worker of the dominion; beyond: 529.
    pub(super) request_queue_limit_per_worker: Option<Whole>,
    /// Input tokens, cached ones included, that may be queued in the class, for each worker.
    pub(super) raw_isl_token_queue_limit_per_worker: Option<Whole>,
    /// Cached input tokens that may be queued in the class, for each worker.
    pub(super) cached_token_queue_limit_per_worker: Option<Whole>,
    /// The longest wait in the queue, in milliseconds; then 503.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub(super) max_queue_wait_ms: Option<Whole>,
    /// When the slot of a request is given back.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["headers", "first_byte", "body_end", null], "default" = "body_end")))]
    pub(super) hold_until: Option<String>,
    /// The longest a slot is held, in milliseconds; the response then ends with an error.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub(super) max_hold_ms: Option<Whole>,
    /// When the tokens of a request stop counting as the prefill of its worker.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["headers", "first_byte", null], "default" = "first_byte")))]
    pub(super) prefill_until: Option<String>,
    /// What an output token costs the class, in input tokens.
    #[cfg_attr(feature = "schema", schemars(range(min = 0), extend("default" = 0)))]
    pub(super) output_token_weight: Option<Number>,
}

/// A pool of slots with a queue of its own.
#[derive(Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields, rename = "Dominion", transform = json_schema::dominion))]
#[serde(expecting = "a dominion, which is a map")]
pub(super) struct RawDominion {
    /// Its name.
    #[cfg_attr(feature = "schema", schemars(required, regex(pattern = NAME)))]
    pub(super) id: Option<String>,
    /// Whether its workers are endpoints or models on this machine.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["remote", "local", null], "default" = "remote")))]
    pub(super) kind: Option<String>,
    /// Its slots: requests that run at a time. Absent: unlimited.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub(super) max_concurrency: Option<Whole>,
    /// Requests that may wait, over all classes; beyond: 503.
    #[cfg_attr(feature = "schema", schemars(range(min = 1), extend("default" = 100)))]
    pub(super) max_queue: Option<Whole>,
    /// Those of them that may be of one client, or of all without a label; beyond: 429. Absent: all.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub(super) max_queue_per_client: Option<Whole>,
    /// Whether a request that cannot start at once waits or is turned away (429).
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["queue", "reject", null], "default" = "queue")))]
    pub(super) policy: Option<String>,
    /// Whether its limits and its queue hold. If not, all that they would do is counted, and nobody waits
    /// or is turned away.
    #[cfg_attr(feature = "schema", schemars(extend("default" = true)))]
    pub(super) enforce: Option<Flag>,
    /// Whether the clients that wait take turns.
    #[cfg_attr(feature = "schema", schemars(extend("default" = true)))]
    pub(super) fair_scheduling: Option<Flag>,
    /// What their turns are counted in.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = ["requests", "tokens", null], "default" = "requests")))]
    pub(super) fair_unit: Option<String>,
    /// The memory of its local models together, in gigabytes. Only where `kind: local`.
    #[cfg_attr(feature = "schema", schemars(extend("exclusiveMinimum" = 0)))]
    pub(super) vram_gb: Option<Number>,
}

/// A worker elsewhere.
#[derive(Default, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields, rename = "Endpoint")
)]
#[serde(expecting = "an endpoint, which is a map")]
pub(super) struct RawEndpoint {
    /// Its name, unique among endpoints and local models.
    #[cfg_attr(feature = "schema", schemars(required, regex(pattern = NAME)))]
    pub(super) id: Option<String>,
    /// The dominion whose slots its requests take. Absent: none, and its requests are unlimited.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = NAME)))]
    pub(super) dominion: Option<String>,
    /// The models that it serves. Absent: the one of its own name.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<String>>", inner(regex(pattern = NOT_BLANK)), extend("uniqueItems" = true)))]
    pub(super) models: Option<Vec<Option<String>>>,
    /// What `prefill_busy_threshold_frac` is a multiple of, in tokens.
    pub(super) max_num_batched_tokens: Option<Whole>,
    /// The protocol that it speaks, carried to the inner service.
    pub(super) protocol: Option<String>,
    /// Where it listens, carried to the inner service. `${NAME}` is replaced by the environment
    /// variable.
    pub(super) base_url: Option<String>,
    /// Its key, carried to the inner service. `${NAME}` is replaced by the environment variable.
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
    /// Its name, unique among endpoints and local models.
    #[cfg_attr(feature = "schema", schemars(required, regex(pattern = NAME)))]
    pub(super) id: Option<String>,
    /// The dominion whose slots its requests take. Absent: none, and its requests are unlimited.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = NAME)))]
    pub(super) dominion: Option<String>,
    /// What `prefill_busy_threshold_frac` is a multiple of, in tokens.
    pub(super) max_num_batched_tokens: Option<Whole>,
    /// The memory that it takes, in gigabytes.
    #[cfg_attr(feature = "schema", schemars(extend("exclusiveMinimum" = 0)))]
    pub(super) vram_gb: Option<Number>,
}

/// Local models that are loaded together: a profile in the other sense.
#[derive(Default, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields, rename = "Profile")
)]
#[serde(expecting = "a profile, which is a map")]
pub(super) struct RawSelection {
    /// Its name.
    #[cfg_attr(feature = "schema", schemars(required, regex(pattern = NAME)))]
    pub(super) name: Option<String>,
    /// The models that it loads.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<String>>", required, inner(regex(pattern = NOT_BLANK)), extend("uniqueItems" = true)))]
    pub(super) models: Option<Vec<Option<String>>>,
}

/// The names of the request headers that are believed.
#[derive(Default, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields, rename = "Headers")
)]
#[serde(expecting = "header names, which are a map")]
pub(super) struct RawHeaders {
    /// The family, or an explicit class: a hint that anyone may send.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = HEADER_NAME), extend("default" = "x-dynamo-meta-policy-class")))]
    pub(super) policy: Option<String>,
    /// The label of the client, for turns between clients: a hint that anyone may send.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = HEADER_NAME), extend("default" = "x-promptforge-client")))]
    pub(super) client: Option<String>,
    /// The model. Trusted, as are all below: off unless named.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = HEADER_NAME)))]
    pub(super) model: Option<String>,
    /// Input tokens, cached ones included.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = HEADER_NAME)))]
    pub(super) raw_isl_tokens: Option<String>,
    /// Input tokens that a worker has cached.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = HEADER_NAME)))]
    pub(super) cached_tokens: Option<String>,
    /// The tier inside the class, the higher first.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = HEADER_NAME)))]
    pub(super) strict_priority: Option<String>,
    /// Seconds to be ahead by in an FCFS class, additional weight in a WSPT class.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = HEADER_NAME)))]
    pub(super) priority_jump: Option<String>,
    /// The id of the one worker to go to.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = HEADER_NAME)))]
    pub(super) worker: Option<String>,
    /// The ids of the workers that it may go to, separated by commas.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = HEADER_NAME)))]
    pub(super) allowed_workers: Option<String>,
    /// The longest it may wait, in milliseconds; a class may allow less.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = HEADER_NAME)))]
    pub(super) max_queue_wait_ms: Option<String>,
}
