//! Another ring for those who wait.

use super::*;

proptest! {
    #![proptest_config(deterministic(128))]

    #[test]
    fn a_ring_that_stays_the_same_changes_nothing((quanta, operations) in scenario()) {
        let mut pair = Pair::new(&quanta);
        operations.iter().for_each(|operation| pair.go(operation));
        let same = |(former, &quantum)| Successor { quantum, former: Some(former) };
        let ring: Vec<Successor> = quanta.iter().enumerate().map(same).collect();
        pair.schedule.rearrange(&ring, FairUnit::Requests, |_| (), &pair.blocked);
        pair.check();
        pair.blocked.0.clear();
        for worker in 0..3 {
            pair.schedule.recheck_worker(worker, &pair.blocked);
        }
        while pair.serve().is_some() {
            pair.check();
        }
        prop_assert_eq!(pair.schedule.len(), 0);
    }
}

/// Three classes of which the second is in its burst.
fn three() -> (Schedule<Job>, Blocked) {
    let open = Blocked::default();
    let mut schedule = Schedule::new([10, 20, 30], FairUnit::Requests);
    for sequence in 0..6 {
        let class = sequence as usize % 3;
        schedule.push(plain(class, LaneId::Shared, 7, sequence), &open);
    }
    for class in [0, 1] {
        assert_eq!(schedule.serve(&open).map(|entry| entry.class), Some(class));
    }
    let deficits = [0, 1, 2].map(|class| schedule.deficit(class));
    assert_eq!(deficits, [3, 13, 0]);
    assert_eq!((schedule.cursor(), schedule.burst()), (2, Some(1)));
    (schedule, open)
}

fn successors(ring: &[(u64, Option<usize>)]) -> Vec<Successor> {
    let successor = |&(quantum, former)| Successor { quantum, former };
    ring.iter().map(successor).collect()
}

#[test]
fn deficit_burst_and_cursor_go_with_their_classes() {
    let (mut schedule, open) = three();
    let ring = successors(&[(5, Some(1)), (1, None), (5, Some(2)), (5, Some(0))]);
    let place = |entry: &mut Entry<Job>| entry.class = [3, 0, 2][entry.class];
    schedule.rearrange(&ring, FairUnit::Requests, place, &open);
    let deficits = [0, 1, 2, 3].map(|class| schedule.deficit(class));
    assert_eq!(deficits, [13, 0, 0, 3]);
    assert_eq!((schedule.cursor(), schedule.burst()), (2, Some(0)));
    assert!(schedule.backlogged().eq([0, 2, 3]));
    let order: Vec<usize> = std::iter::from_fn(|| schedule.serve(&open))
        .map(|entry| entry.payload.id)
        .collect();
    assert_eq!(order, [4, 3, 2, 5], "the burst, then from the cursor on");
}

#[test]
fn a_class_that_is_no_more_gives_its_turn_to_the_next_one_that_is() {
    let (mut schedule, open) = three();
    let ring = successors(&[(5, Some(1)), (5, Some(0))]);
    let place = |entry: &mut Entry<Job>| entry.class = [1, 0, 0][entry.class];
    schedule.rearrange(&ring, FairUnit::Requests, place, &open);
    assert_eq!(
        schedule.cursor(),
        1,
        "after the third class comes the first"
    );
    assert_eq!(schedule.len(), 4);

    let (mut schedule, open) = three();
    let ring = successors(&[(5, Some(0)), (5, Some(2))]);
    let place = |entry: &mut Entry<Job>| entry.class = [0, 0, 1][entry.class];
    schedule.rearrange(&ring, FairUnit::Requests, place, &open);
    assert_eq!((schedule.cursor(), schedule.burst()), (1, None));
}

#[test]
fn a_class_that_is_left_empty_keeps_its_debts_alone() {
    let (mut schedule, open) = three();
    schedule.charge(2, 50);
    let ring = successors(&[(5, Some(0)), (5, Some(1)), (5, Some(2))]);
    let place = |entry: &mut Entry<Job>| entry.class = 0;
    schedule.rearrange(&ring, FairUnit::Requests, place, &open);
    let deficits = [0, 1, 2].map(|class| schedule.deficit(class));
    assert_eq!(deficits, [3, 0, -50]);
    assert_eq!(schedule.burst(), None);
    assert!(schedule.backlogged().eq([0]));
}
