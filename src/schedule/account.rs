//! What a class has to spend: the numbers of the round robin, and nothing else.
//!
//! Apart from the queues, since a decision goes through all of the accounts and touches one queue.

use std::num::NonZeroU64;

/// A deficit this far from zero, in tokens, is charged no further: the rounds that lead out of it must
/// be told from one fewer.
const MOST_CHARGED: i128 = 1 << 120;

/// A class's quantum and deficit, and what it would spend next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    /// Tokens credited and not yet spent; below 0 it is in debt. Without backlog never above 0.
    deficit: i128,
    /// Tokens credited in each round.
    quantum: u64,
    /// What the class's candidate costs, in tokens; none without one.
    price: Option<NonZeroU64>,
}

impl Account {
    pub(super) fn new(quantum: u64, deficit: i128) -> Self {
        Self {
            deficit,
            quantum,
            price: None,
        }
    }

    pub(super) fn quantum(&self) -> u64 {
        self.quantum
    }

    pub(super) fn deficit(&self) -> i128 {
        self.deficit
    }

    pub(super) fn set_price(&mut self, price: Option<NonZeroU64>) {
        self.price = price;
    }

    /// True if it can pay for its candidate; none without one.
    pub(super) fn covers(&self) -> Option<bool> {
        Some(self.price()? <= self.deficit)
    }

    fn price(&self) -> Option<i128> {
        self.price.map(|price| price.get().into())
    }

    /// Credits this many quanta.
    ///
    /// Nobody is credited more rounds than take it to what its candidate costs, which is fewer than
    /// 2^122 tokens: neither the product nor the sum overflows.
    pub(super) fn credit(&mut self, rounds: i128) {
        self.deficit += i128::from(self.quantum) * rounds;
    }

    /// Pays for a request of this cost.
    pub(super) fn pay(&mut self, cost: NonZeroU64) {
        self.deficit = self.deficit.saturating_sub(cost.get().into());
    }

    /// Takes tokens for what was used beyond the costs, or gives some back.
    pub(super) fn charge(&mut self, tokens: i128) {
        let deficit = self.deficit.saturating_sub(tokens);
        self.deficit = deficit.clamp(-MOST_CHARGED, MOST_CHARGED);
    }

    /// Loses what it was credited, but not its debt.
    pub(super) fn forfeit(&mut self) {
        self.deficit = self.deficit.min(0);
    }
}
