//! The error of a change that is refused.

use std::{error::Error, fmt};

/// Why a change was refused. Nothing has then changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeError {
    /// There is no dominion with this id.
    #[non_exhaustive]
    UnknownDominion {
        /// The id.
        id: String,
    },
    /// The dominion is local, and the worker is not.
    #[non_exhaustive]
    LocalDominion {
        /// The dominion's id.
        id: String,
    },
    /// There is no worker with this id.
    #[non_exhaustive]
    UnknownWorker {
        /// The id.
        id: String,
    },
    /// The profile is in force, but the new policy does not have it. Switch to another one first.
    #[non_exhaustive]
    ProfileInForce {
        /// The name.
        name: String,
    },
    /// The policy has no profile with this name.
    #[non_exhaustive]
    UnknownProfile {
        /// The name.
        name: String,
    },
    /// There is already a worker with this id.
    #[non_exhaustive]
    WorkerExists {
        /// The id.
        id: String,
    },
    /// The id is empty or has characters outside `[A-Za-z0-9_.-]`.
    #[non_exhaustive]
    InvalidWorker {
        /// The id.
        id: String,
    },
    /// One of the worker's models has no name or is named twice.
    #[non_exhaustive]
    InvalidModel {
        /// The model.
        model: String,
    },
    /// The model is served by workers of another dominion.
    #[non_exhaustive]
    ModelElsewhere {
        /// The model.
        model: String,
    },
    /// A limit must be at least 1.
    Zero,
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownDominion { id } => write!(f, "there is no dominion `{id}`"),
            Self::LocalDominion { id } => {
                write!(
                    f,
                    "dominion `{id}` is for local models, which the policy names"
                )
            }
            Self::UnknownWorker { id } => write!(f, "there is no worker `{id}`"),
            Self::ProfileInForce { name } => write!(
                f,
                "profile `{name}` is in force and the new policy does not have it; switch to another one first"
            ),
            Self::UnknownProfile { name } => write!(f, "the policy has no profile `{name}`"),
            Self::WorkerExists { id } => write!(f, "there is a worker `{id}` already"),
            Self::InvalidWorker { id } => {
                write!(
                    f,
                    "`{id}` is no id: one or more of A-Z, a-z, 0-9, `_`, `.` and `-`"
                )
            }
            Self::InvalidModel { model } => {
                write!(f, "model `{model}` has no name, or is named twice")
            }
            Self::ModelElsewhere { model } => {
                write!(f, "model `{model}` is served in another dominion")
            }
            Self::Zero => f.write_str("a limit must be at least 1"),
        }
    }
}

impl Error for ChangeError {}
