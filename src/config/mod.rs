//! The YAML: its schema, its validation, and what comes out.
//!
//! Plain data. Nothing here knows of queues, clocks or requests. A policy passes through in
//! four steps:
//!
//! ```text
//! text --parse--> RawPolicy --validate--> PolicyConfig
//!   \--locate------------------------------> the lines of what validation found
//! ```
//!
//! - [`load`] is the public face: `FromStr`, `from_path`, `Deserialize`, `Default`;
//! - [`parse`] alone knows the YAML parser, and keeps hostile input from it;
//! - [`schema`] is the policy as it is written, [`value`] the types of its leaves, [`keys`] what it
//!   says that the schema does not know;
//! - `json_schema`, behind the feature `schema`, describes it to editors;
//! - [`validate`] finds every mistake and builds [`policy`], the policy as it is used;
//! - [`difference`] tells what of it changes from one policy to the next;
//! - [`view`] is what of it others may read.

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
