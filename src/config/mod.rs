//! The YAML: its schema, its validation, and the policy that results.
//!
//! Plain data: nothing here knows about queues, clocks or requests. A policy is loaded in these steps:
//!
//! ```text
//! text --parse--> RawPolicy --validate--> PolicyConfig
//!   \--locate------------------------------> the line of each mistake
//! ```
//!
//! - [`load`] is the public API: `FromStr`, `from_path`, `Deserialize`, `Default`;
//! - [`parse`] is the only module that uses the YAML parser, and protects it from hostile input;
//! - [`schema`] is the policy as written, [`value`] has the types of its leaves, and [`keys`] handles
//!   unknown keys;
//! - `json_schema`, behind the feature `schema`, describes the policy to editors;
//! - [`validate`] finds every mistake and builds [`policy`], the policy as the layer uses it;
//! - [`difference`] compares two policies;
//! - [`view`] is the public, read-only view of a policy.

mod code;
mod difference;
mod env;
mod error;
#[cfg(feature = "schema")]
mod json_schema;
mod keys;
mod load;
mod names;
mod parse;
mod path;
mod policy;
mod schema;
mod validate;
mod value;
mod view;

pub(crate) use code::Code;
pub use difference::{PolicyChange, PolicyChanges};
pub use error::{ConfigError, ConfigMistake};
pub(crate) use names::is_name;
pub(crate) use policy::{
    BusyThreshold, Bypass, ClassLimits, Dominion, FairUnit, Headers, HoldUntil, ModelProfile,
    PolicyClass, PrefillUntil, QueuePolicy, ReadAhead, Worker,
};
pub use policy::{Endpoint, PolicyConfig};
pub use view::{BucketView, ClassView, DominionView, ProfileView, WorkerView};
