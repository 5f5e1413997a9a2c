//! Who goes next: deficit round robin over classes, lanes inside a class, an order inside a lane.
//!
//! Plain data structures, without a clock, a lock or a future. What a waiting request *is* and
//! whether its worker has room is the caller's: a payload it names and a [`Gate`] it answers.
//!
//! # The algorithm
//!
//! Deficit round robin (M. Shreedhar and G. Varghese, *Efficient Fair Queuing Using Deficit
//! Round-Robin*, 1996) serves classes in a ring. A visit credits a class with its quantum; the
//! class then serves requests as long as their cost is covered, and keeps what is left over for
//! the next round. Here requests leave one at a time, as slots become free, so a visit can
//! last over many calls: that is a *burst*. Each call of [`Schedule::serve`] does this:
//!
//! 1. The class in its burst goes on, without new credit, if its candidate costs no more than is
//!    left. Blocked, it stays in its burst; empty or too dear, or once another class is served,
//!    its burst is over.
//! 2. One scan of the ring from the cursor. A blocked class keeps its deficit and earns nothing.
//!    A class that can pay is served; any other is credited one quantum, and served if that
//!    is enough.
//! 3. A whole ring without progress: with `r` the least number of rounds after which some
//!    class could pay, `r - 1` quanta are credited to each class at once, and round `r` is an
//!    ordinary scan.
//! 4. Serving subtracts the cost and moves the cursor past the class. A class without backlog
//!    loses what it was credited.
//!
//! A class can also be charged for what its requests turn out to use, [`Schedule::charge`], and be
//! in debt then: its deficit is below zero. A debt stays while the class has no backlog. It changes
//! nothing in the steps above, which speak of the deficit whatever its sign.
//!
//! # The claim
//!
//! The order of service and all deficits equal those of the plain algorithm run round by round, debts
//! included, while a call takes O(C + L log L) for C classes and L lanes whatever the costs are. For any two
//! classes backlogged and dispatchable throughout, with S tokens served, Q the quantum and Max
//! the largest cost:
//!
//! > |S<sub>i</sub>/Q<sub>i</sub> - S<sub>j</sub>/Q<sub>j</sub>| <= 1 + Max/Q<sub>i</sub> + Max/Q<sub>j</sub>

mod class;
mod clients;
mod dispatch;
mod entries;
mod exact;
mod heap;
mod indices;
mod lane;
mod list;
mod order;
mod preview;
mod queue;
mod rearrange;
mod ring;
mod snapshot;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use self::tests::deterministic;
pub(crate) use self::{
    class::Backlog,
    clients::{ClientId, Clients},
    dispatch::{Gate, Schedule},
    entries::{Entry, Key},
    lane::LaneId,
    list::{Links, List},
    order::{Rank, Score},
    preview::{Preview, Seen},
    rearrange::Successor,
    snapshot::Snapshot,
};
