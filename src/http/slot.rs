//! What a request runs under.

use std::{
    error::Error,
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use super::Admission;
use crate::{
    config::{HoldUntil, PrefillUntil},
    pool::{Grant, Permit, Prefill, Revoked, Share, Stage, Visit},
};

/// What a running request holds.
#[derive(Debug)]
pub(super) enum Slot {
    /// Its own permit.
    Own(Permit),
    /// A share of its parent's slot. The request was sent, with the parent's extensions, by a handler that
    /// runs in the same dominion, and must not wait for the slot that the handler holds. If it runs on
    /// another worker than the slot's, it has a visit there, which is dropped before the share.
    Parents(Option<Box<Visit>>, Share),
    /// Only its prefill: the slot was released with the head of the response.
    Prefill(Prefill),
    /// Nothing: the request bypasses the policy, or everything has been released.
    None,
}

impl Slot {
    #[inline]
    pub(super) fn grant(&self) -> Option<&Arc<Grant>> {
        match self {
            Self::Own(permit) => Some(permit.grant()),
            Self::Parents(_, share) => Some(share.grant()),
            Self::Prefill(_) | Self::None => None,
        }
    }

    /// What the request is told about its admission.
    pub(super) fn admission(&self) -> Option<Admission> {
        let grant = Arc::clone(self.grant()?);
        Some(match self {
            Self::Parents(visit, _) => {
                let elsewhere = visit.as_ref().and_then(|visit| visit.worker().cloned());
                Admission::shared(grant, elsewhere)
            }
            _ => Admission::new(grant),
        })
    }

    /// Ready once the slot has been revoked, or the worker's model unloaded. Whatever runs under the slot
    /// must then stop.
    #[inline]
    pub(super) fn poll_revoked(&mut self, cx: &mut Context<'_>) -> Poll<(Revoked, &Grant)> {
        match self {
            Self::Own(permit) => {
                let revoked = permit.poll_revoked(cx);
                revoked.map(|revoked| (revoked, &**permit.grant()))
            }
            Self::Parents(Some(visit), share) => {
                let revoked = visit.poll_revoked(cx);
                revoked.map(|revoked| (revoked, &**share.grant()))
            }
            Self::Parents(None, _) | Self::Prefill(_) | Self::None => Poll::Pending,
        }
    }

    /// Records that the request has reached this stage.
    #[inline]
    pub(super) fn reach(&self, stage: Stage) {
        if let Self::Own(permit) = self {
            permit.grant().reach(stage);
        }
    }

    /// Runs a piece of the request's work. If it panics, the request has failed, even if the panic is
    /// caught before the slot is dropped.
    pub(super) fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Failing<'a> {
            slot: &'a Slot,
            over: bool,
        }
        impl Drop for Failing<'_> {
            fn drop(&mut self) {
                if !self.over {
                    self.slot.reach(Stage::Failed);
                }
            }
        }
        let mut failing = Failing {
            slot: self,
            over: false,
        };
        let done = work();
        failing.over = true;
        done
    }

    /// Ends the response at this stage, and lets go of the slot.
    pub(super) fn end(&mut self, stage: Stage) {
        self.reach(stage);
        *self = Self::None;
    }

    /// Takes note of the response's head, and returns what is still to be held.
    pub(super) fn after_head(self) -> Self {
        let permit = match self {
            Self::Own(permit) => permit,
            Self::Parents(Some(mut visit), share) => {
                if share.grant().class().prefill_until == PrefillUntil::Headers {
                    visit.end_prefill();
                }
                return Self::Parents(Some(visit), share);
            }
            other => return other,
        };
        let class = permit.grant().class();
        permit.grant().reach(match class.hold_until {
            HoldUntil::Headers => Stage::Completed,
            _ => Stage::Streaming,
        });
        match (class.hold_until, class.prefill_until) {
            (HoldUntil::Headers, PrefillUntil::Headers) => Self::None,
            (HoldUntil::Headers, PrefillUntil::FirstByte) => Self::Prefill(permit.into_prefill()),
            (_, PrefillUntil::Headers) => {
                permit.end_prefill();
                Self::Own(permit)
            }
            (_, PrefillUntil::FirstByte) => Self::Own(permit),
        }
    }

    /// Takes note of bytes of the response.
    #[inline]
    pub(super) fn read_output(&mut self, bytes: &[u8]) {
        if let Self::Own(permit) = self {
            permit.read_output(bytes);
        }
    }

    /// Takes note of a data frame of the response.
    pub(super) fn after_data(&mut self) {
        let over = match self {
            Self::Own(permit) => {
                permit.end_prefill();
                permit.grant().class().hold_until == HoldUntil::FirstByte
            }
            Self::Prefill(prefill) => {
                prefill.end();
                true
            }
            Self::Parents(Some(visit), _) => {
                visit.end_prefill();
                false
            }
            Self::Parents(None, _) | Self::None => false,
        };
        if over {
            self.end(Stage::Completed);
        }
    }
}

/// The error of a response body that ended early because its slot was revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRevoked {
    revoked: Revoked,
}

impl SlotRevoked {
    pub(super) fn new(revoked: Revoked) -> Self {
        Self { revoked }
    }

    /// True if the request's local model is not in the profile in force any more. Otherwise, the request
    /// held its slot for as long as its class allows (`max_hold_ms`).
    pub fn is_profile_switch(&self) -> bool {
        self.revoked == Revoked::ProfileSwitch
    }
}

impl fmt::Display for SlotRevoked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.revoked {
            Revoked::HoldExpired => "the response took longer than its class may hold a slot",
            Revoked::ProfileSwitch => "request cancelled for profile switch",
        })
    }
}

impl Error for SlotRevoked {}
