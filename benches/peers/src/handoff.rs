//! A queue that keeps its length while the slot goes from one to the next.

use std::{
    collections::VecDeque,
    task::{Context, Poll, Waker},
};

use tower_policy_queue::internals::{Entered, Permit, Pool, Ticket};

use crate::one;

pub struct Ours {
    pool: Pool,
    permit: Option<Permit>,
    tickets: VecDeque<Ticket>,
}

impl Ours {
    pub fn new(parked: usize) -> Self {
        let most = parked + 1;
        let mut this = Self {
            pool: Pool::new(one::policy(1, most)),
            permit: None,
            tickets: VecDeque::with_capacity(most),
        };
        this.permit = this.enter();
        (0..parked).for_each(|_| this.park());
        this
    }

    fn enter(&mut self) -> Option<Permit> {
        match self.pool.enter(0, 1, None) {
            Entered::Started(permit) => Some(permit),
            Entered::Parked(mut ticket) => {
                assert!(poll(&mut ticket).is_none(), "it has to wait");
                self.tickets.push_back(ticket);
                None
            }
            _ => panic!("there is room for it"),
        }
    }

    fn park(&mut self) {
        assert!(self.enter().is_none(), "the slot is taken");
    }

    /// One comes, and the slot goes on to the next.
    pub fn hand_on(&mut self) {
        self.park();
        self.permit = None;
        self.permit = self
            .tickets
            .pop_front()
            .and_then(|mut next| poll(&mut next));
        assert!(self.permit.is_some(), "it is next");
    }
}

fn poll(ticket: &mut Ticket) -> Option<Permit> {
    match ticket.poll_granted(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(permit) => permit,
        Poll::Pending => None,
    }
}
