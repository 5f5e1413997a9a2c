//! The ring of classes: whose turn it is by their deficits.
//!
//! Numbers only. It knows nothing of what waits but the price of each class's candidate, so that a
//! decision goes through little memory however much hangs on a class.

use super::{Successor, indices::Indices};

/// A deficit this far from zero, in tokens, is charged no further: the rounds that lead out of it must
/// be told from one fewer.
const MOST_CHARGED: i128 = 1 << 120;

/// The classes in their order, with what each has to spend.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    accounts: Vec<Account>,
    /// Classes with a candidate.
    ready: Indices,
    /// Where the next scan begins.
    cursor: usize,
    /// The class served last, as long as it has backlog and its credit covers its candidate.
    burst: Option<usize>,
}

/// What a class has to spend, and what it would spend next.
#[derive(Clone, Copy, Debug)]
struct Account {
    /// Tokens credited and not yet spent; below 0 it is in debt. Without backlog never above 0.
    deficit: i128,
    /// Tokens credited in each round.
    quantum: u64,
    /// What the candidate costs, in tokens.
    price: Option<u64>,
}

impl Account {
    fn new(quantum: u64, deficit: i128) -> Self {
        Self {
            deficit,
            quantum,
            price: None,
        }
    }

    fn price(&self) -> Option<i128> {
        self.price.map(i128::from)
    }

    /// Credits this many quanta.
    ///
    /// Nobody is credited more rounds than take it to what its candidate costs, which is fewer than
    /// 2^122 tokens: neither the product nor the sum overflows.
    fn credit(&mut self, rounds: i128) {
        self.deficit += i128::from(self.quantum) * rounds;
    }

    /// The number of quanta with which it can pay for its candidate, if that is fewer than `most`.
    fn rounds_to_go(&self, most: u128) -> Option<u128> {
        let missing = self.price()?.saturating_sub(self.deficit).max(1) as u128;
        // A division takes many times as long as a product, and one of 128 bits some times more.
        let too_few = |rounds| u128::from(rounds) * u128::from(self.quantum) < missing;
        if u64::try_from(most - 1).is_ok_and(too_few) {
            return None;
        }
        let rounds = match u64::try_from(missing) {
            Ok(missing) => missing.div_ceil(self.quantum).into(),
            Err(_) => missing.div_ceil(self.quantum.into()),
        };
        Some(rounds).filter(|&rounds| rounds < most)
    }
}

impl Ring {
    /// Classes with these quanta, in tokens.
    pub(super) fn new(quanta: impl IntoIterator<Item = u64>) -> Self {
        let account = |quantum| Account::new(quantum, 0);
        Self::of(quanta.into_iter().map(account).collect(), 0, None)
    }

    fn of(accounts: Vec<Account>, cursor: usize, burst: Option<usize>) -> Self {
        Self {
            ready: Indices::new(accounts.len()),
            accounts,
            cursor,
            burst,
        }
    }

    /// The same without candidates.
    pub(super) fn idle(&self) -> Self {
        let idle = |account: &Account| Account::new(account.quantum, account.deficit);
        let accounts = self.accounts.iter().map(idle).collect();
        Self::of(accounts, self.cursor, self.burst)
    }

    /// Other classes, without candidates. Deficit, burst and cursor go with their classes.
    pub(super) fn succeeded_by(&self, classes: &[Successor]) -> Self {
        let account = |successor: &Successor| {
            let former = successor.former.map(|former| self.accounts[former]);
            Account::new(successor.quantum, former.map_or(0, |former| former.deficit))
        };
        let successor = |former: usize| classes.iter().position(|it| it.former == Some(former));
        let length = self.accounts.len();
        // A class that is no more gives its turn to the next one that is.
        let from_cursor = (0..length).map(|offset| (self.cursor + offset) % length);
        Self::of(
            classes.iter().map(account).collect(),
            from_cursor.filter_map(successor).next().unwrap_or(0),
            self.burst.and_then(successor),
        )
    }

    /// How many classes there are.
    pub(super) fn len(&self) -> usize {
        self.accounts.len()
    }

    /// What a class has been credited and not spent, in tokens.
    pub(super) fn deficit(&self, class: usize) -> i128 {
        self.accounts[class].deficit
    }

    pub(super) fn cursor(&self) -> usize {
        self.cursor
    }

    pub(super) fn burst(&self) -> Option<usize> {
        self.burst
    }

    /// True if some class has a candidate.
    pub(super) fn is_ready(&self) -> bool {
        self.ready.next(0).is_some()
    }

    /// What a class's candidate costs, in tokens, from now on; none if it has none.
    pub(super) fn set_price(&mut self, class: usize, price: Option<u64>) {
        self.accounts[class].price = price;
        if price.is_some() {
            self.ready.insert(class);
        } else {
            self.ready.remove(class);
        }
    }

    /// Takes tokens from a class's deficit, or gives some back.
    pub(super) fn charge(&mut self, class: usize, tokens: i128) {
        let account = &mut self.accounts[class];
        let deficit = account.deficit.saturating_sub(tokens);
        account.deficit = deficit.clamp(-MOST_CHARGED, MOST_CHARGED);
    }

    /// A class has no backlog: it loses what it was credited, and its burst with it.
    pub(super) fn leave(&mut self, class: usize) {
        let account = &mut self.accounts[class];
        account.deficit = account.deficit.min(0);
        if self.burst == Some(class) {
            self.burst = None;
        }
    }

    /// A class is served for what its candidate cost, in tokens.
    pub(super) fn spend(&mut self, class: usize, cost: u64) {
        let account = &mut self.accounts[class];
        account.deficit = account.deficit.saturating_sub(cost.into());
        self.cursor = if class + 1 == self.accounts.len() {
            0
        } else {
            class + 1
        };
        self.burst = Some(class);
    }

    /// The class whose turn it is, credited so that it can pay for its candidate.
    pub(super) fn turn(&mut self) -> Option<usize> {
        if let Some(class) = self.burst {
            let account = &self.accounts[class];
            match account.price() {
                Some(cost) if cost <= account.deficit => return Some(class),
                Some(_) => self.burst = None,
                // Only blocked: its credit waits with it.
                None => {}
            }
        }
        self.scan().or_else(|| self.skip_rounds_without_progress())
    }

    /// One round: every class with a candidate from the cursor on, until one can pay.
    fn scan(&mut self) -> Option<usize> {
        let Self {
            accounts,
            ready,
            cursor,
            ..
        } = self;
        for index in ready.around(*cursor) {
            let account = &mut accounts[index];
            let cost = account.price()?;
            if cost > account.deficit {
                account.credit(1);
            }
            if cost <= account.deficit {
                return Some(index);
            }
        }
        None
    }

    /// Credits the rounds in which plain round robin would serve nobody, all at once, and the next one up
    /// to the first class that can pay then: that is the answer.
    fn skip_rounds_without_progress(&mut self) -> Option<usize> {
        let Self {
            accounts,
            ready,
            cursor,
            ..
        } = self;
        let (mut fewest, mut first) = (u128::MAX, None);
        for index in ready.around(*cursor) {
            if let Some(rounds) = accounts[index].rounds_to_go(fewest) {
                (fewest, first) = (rounds, Some(index));
            }
        }
        let first = first?;
        let mut rounds = fewest as i128;
        for index in ready.around(*cursor) {
            accounts[index].credit(rounds);
            if index == first {
                rounds -= 1;
            }
        }
        Some(first)
    }
}
