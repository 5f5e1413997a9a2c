//! How long a slot was free while a request that could have used it was waiting.
//!
//! This must stay 0, as each change of state hands out what it can before it releases the lock. It is
//! measured rather than trusted, so that an operator can see it.

use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug, Default)]
pub(super) struct Idling {
    total: Duration,
    since: Option<Instant>,
}

impl Idling {
    /// Must be told, whenever the lock is released, whether a slot idles while a request could use it.
    pub(super) fn note(&mut self, idles: bool) {
        match self.since {
            None if idles => self.since = Some(Instant::now()),
            Some(since) if !idles => {
                self.total += since.elapsed();
                self.since = None;
            }
            _ => {}
        }
    }

    pub(super) fn total(&self) -> Duration {
        let running = self.since.map(|since| since.elapsed());
        self.total + running.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_the_time_in_between_counts() {
        let mut idling = Idling::default();
        let second = Duration::from_secs(1);
        tokio::time::advance(second).await;
        idling.note(true);
        tokio::time::advance(second).await;
        idling.note(true);
        assert_eq!(idling.total(), second, "it goes on");
        tokio::time::advance(second).await;
        idling.note(false);
        tokio::time::advance(second).await;
        idling.note(false);
        assert_eq!(idling.total(), 2 * second);
    }
}
