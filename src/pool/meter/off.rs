//! The meter without the feature `metrics`: it does nothing, at no cost.

use std::{sync::Arc, time::Duration};

use super::{Grant, state::State, tally::Code, wake::WakeList};
use crate::config::PolicyConfig;

#[derive(Debug)]
pub(super) struct Meter;

impl Meter {
    #[inline]
    pub(super) fn new(_: &Arc<PolicyConfig>, _: Option<usize>) -> Self {
        Self
    }

    #[inline]
    pub(super) fn imagined(_: &Arc<PolicyConfig>, _: Option<usize>) -> Self {
        Self
    }

    #[inline]
    pub(super) fn retire(&mut self, _: &mut WakeList) {}
}

#[derive(Debug, Default)]
pub(super) struct Bulletin;

impl Bulletin {
    #[inline]
    pub(super) fn publish(&mut self) {}
}

#[derive(Debug, Default)]
pub(super) struct Touched {}

impl Touched {
    #[inline]
    pub(super) fn add(&mut self, _: u32) {}

    #[inline]
    pub(super) fn rename(&mut self, _: u32) {}
}

#[derive(Debug)]
pub(super) struct Stopwatch;

impl Stopwatch {
    #[inline]
    pub(super) fn start() -> Self {
        Self
    }
}

impl State {
    #[inline]
    pub(super) fn note_wait(&mut self, _: usize, _: Duration) {}

    #[inline]
    pub(super) fn note_imagined_hold(&mut self, _: Option<usize>, _: Duration) {}

    #[inline]
    pub(super) fn note_hold(&mut self, grant: &Grant) {
        let Stopwatch = grant.stopwatch;
    }

    #[inline]
    pub(super) fn report(&mut self, _: &mut WakeList) {
        let Meter = self.meter;
    }
}

#[derive(Debug, Default)]
pub(crate) struct UnplacedMeter;

impl UnplacedMeter {
    #[inline]
    pub(crate) fn rejected(&self, _: Code) {}

    #[inline]
    pub(crate) fn bypassed(&self) {}

    #[inline]
    pub(crate) fn nested(&self) {}
}
