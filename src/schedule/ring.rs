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

    /// Credits this many quanta.
    ///
    /// A class is never credited more rounds than its candidate's cost takes, which is less than 2^122
    /// tokens: neither the product nor the sum overflows.
    fn credit(&mut self, rounds: i128) {
        self.deficit += i128::from(self.quantum) * rounds;
    }

    /// Tokens that the class lacks to pay for its candidate, 0 or less if it can pay; `None` without one.
    #[inline]
    fn missing(&self) -> Option<i128> {
        Some(i128::from(self.price?) - self.deficit)
    }
}

/// Tokens that a class lacks, and what it is credited in each round.
#[derive(Clone, Copy, Debug)]
struct Shortfall {
    missing: u128,
    quantum: u64,
}

impl Shortfall {
    /// The number of rounds that make it up.
    fn rounds(self) -> u128 {
        // A 128-bit division takes several times as long as a 64-bit one.
        match u64::try_from(self.missing) {
            Ok(missing) => missing.div_ceil(self.quantum).into(),
            Err(_) => self.missing.div_ceil(self.quantum.into()),
        }
    }

    /// True if it is made up in fewer rounds, or earlier within the same round.
    #[inline]
    fn is_before(self, other: Self) -> bool {
        match (u64::try_from(self.missing), u64::try_from(other.missing)) {
            // Comparing products avoids the divisions, which take several times as long.
            (Ok(missing), Ok(others)) => {
                let product =
                    |missing: u64, quantum: u64| u128::from(missing) * u128::from(quantum);
                product(missing, other.quantum) < product(others, self.quantum)
            }
            // Only a class in debt lacks that much.
            _ => self.rounds() < other.rounds(),
        }
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

    /// The same ring, without candidates.
    pub(super) fn idle(&self) -> Self {
        let idle = |account: &Account| Account::new(account.quantum, account.deficit);
        let accounts = self.accounts.iter().map(idle).collect();
        Self::of(accounts, self.cursor, self.burst)
    }

    /// A ring of other classes, without candidates. Deficit, burst and cursor move with their classes.
    pub(super) fn succeeded_by(&self, classes: &[Successor]) -> Self {
        let account = |successor: &Successor| {
            let former = successor.former.map(|former| self.accounts[former]);
            Account::new(successor.quantum, former.map_or(0, |former| former.deficit))
        };
        let successor = |former: usize| classes.iter().position(|it| it.former == Some(former));
        let length = self.accounts.len();
        // A removed class passes its turn to the next one that remains.
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
    #[inline]
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
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.ready.next(0).is_some()
    }

    /// Sets what a class's candidate costs, in tokens; `None` if it has no candidate.
    #[inline]
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

    /// A class without backlog loses its credit, and its burst with it. A debt stays.
    #[inline]
    pub(super) fn leave(&mut self, class: usize) {
        let account = &mut self.accounts[class];
        account.deficit = account.deficit.min(0);
        if self.burst == Some(class) {
            self.burst = None;
        }
    }

    /// Serves a class: takes its candidate's cost, in tokens, and moves the cursor past it.
    #[inline]
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
    #[inline]
    pub(super) fn turn(&mut self) -> Option<usize> {
        if let Some(class) = self.burst {
            match self.accounts[class].missing() {
                Some(..=0) => return Some(class),
                Some(_) => self.burst = None,
                // Only blocked: it keeps its credit and its burst.
                None => {}
            }
        }
        self.scan()
    }

    /// Goes round by round through the classes with a candidate, from the cursor on, until one can
    /// pay. The rounds in which nobody can are credited all at once.
    fn scan(&mut self) -> Option<usize> {
        let Self {
            accounts,
            ready,
            cursor,
            ..
        } = self;
        let mut least: Option<Shortfall> = None;
        for index in ready.around(*cursor) {
            let account = &mut accounts[index];
            if account.missing()? > 0 {
                account.credit(1);
            }
            let missing = account.missing()?;
            if missing <= 0 {
                return Some(index);
            }
            let shortfall = Shortfall {
                missing: missing as u128,
                quantum: account.quantum,
            };
            if least.is_none_or(|least| shortfall.is_before(least)) {
                least = Some(shortfall);
            }
        }
        let rounds = least?.rounds() as i128;
        let mut around = ready.around(*cursor);
        let first = around.find(|&index| {
            accounts[index].credit(rounds);
            accounts[index]
                .missing()
                .is_some_and(|missing| missing <= 0)
        });
        // The last round ends with the first that can pay.
        around.for_each(|index| accounts[index].credit(rounds - 1));
        first
    }
}
