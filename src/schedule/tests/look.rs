//! What is told of who comes next.

use super::*;

/// Lanes, the first one shared, of which those of the workers from 2 on are blocked.
fn lanes(lengths: &[u64]) -> (Schedule<Job>, Blocked) {
    let mut blocked = Blocked::default();
    blocked.0.extend((2..9).map(|worker| (0, lane(worker))));
    let mut schedule = Schedule::new([1], FairUnit::Requests);
    for round in 0..lengths.iter().copied().max().unwrap_or(0) {
        for (number, _) in (0u32..).zip(lengths).filter(|&(_, &length)| length > round) {
            let sequence = 10 * round + u64::from(number);
            schedule.push(plain(0, lane(number), 1, sequence), &blocked);
        }
    }
    (schedule, blocked)
}

/// The next ones, and the blocked ones with whether they are heads, by their number of arrival.
fn ahead(
    schedule: &Schedule<Job>,
    blocked: &Blocked,
    limit: usize,
) -> (Vec<u64>, Vec<(u64, bool)>) {
    let open = |job: &Job| blocked.open(0, job);
    let ahead = schedule.classes[0].look_ahead(limit, &schedule.entries, open);
    let id = |key: Key| schedule.entries[key].payload.id as u64;
    (
        ahead.next.into_iter().map(id).collect(),
        ahead
            .blocked
            .into_iter()
            .map(|(key, head)| (id(key), head))
            .collect(),
    )
}

#[test]
fn as_many_are_told_as_are_asked_for_and_blocked_heads_first() {
    // Arrived as 0, 10, 20 in the shared lane, 1 and 11 in the next one, and so on.
    let (schedule, blocked) = lanes(&[3, 2, 2, 3]);
    assert_eq!(
        ahead(&schedule, &blocked, 9),
        (
            vec![0, 1, 10, 11, 20],
            vec![(2, true), (3, true), (12, false), (13, false), (23, false)]
        )
    );
    for limit in 0..5 {
        let (next, blocked) = ahead(&schedule, &blocked, limit);
        assert_eq!(next, [0, 1, 10, 11, 20][..limit]);
        let all = [(2, true), (3, true), (12, false), (13, false), (23, false)];
        assert_eq!(blocked, all[..limit]);
    }
}

#[test]
fn a_class_that_was_credited_what_its_head_costs_earns_nothing_more() {
    let mut blocked = Blocked::default();
    let mut schedule = Schedule::new([10, 10], FairUnit::Requests);
    for sequence in 0..3 {
        schedule.push(plain(0, lane(1), 5, sequence), &blocked);
    }
    schedule.push(plain(1, lane(0), 10, 3), &blocked);
    assert_eq!(schedule.serve(&blocked).map(|entry| entry.class), Some(0));
    // Its burst ends when another class is served, with enough left for the next one.
    blocked.0.insert((0, lane(1)));
    schedule.recheck_worker(0, &blocked);
    assert_eq!(schedule.serve(&blocked).map(|entry| entry.class), Some(1));
    blocked.0.clear();
    schedule.recheck_worker(0, &blocked);
    assert_eq!(schedule.serve(&blocked).map(|entry| entry.class), Some(0));
    assert_eq!(schedule.deficit(0), 0);
}

#[test]
fn clients_whose_turns_are_weighed_by_tokens_are_served_as_many_of_them() {
    let open = Blocked::default();
    let mut schedule = Schedule::new([1], FairUnit::Tokens);
    let waiting = [
        (1, 10),
        (1, 10),
        (2, 4),
        (2, 4),
        (2, 4),
        (2, 4),
        (3, 5),
        (3, 5),
        (3, 5),
    ];
    for (sequence, (client, cost)) in (0..).zip(waiting) {
        let entry = Entry {
            client: ClientId::for_test(client),
            ..plain(0, LaneId::Shared, cost, sequence)
        };
        schedule.push(entry, &open);
    }
    let mut served = [0; 4];
    let order = std::iter::from_fn(|| schedule.serve(&open)).map(|entry| {
        let client = waiting[entry.payload.id].0;
        served[usize::from(client)] += entry.snapshot.cost();
        (client, served[usize::from(client)])
    });
    assert_eq!(
        order.collect::<Vec<_>>(),
        [
            (1, 10),
            (2, 4),
            (3, 5),
            (2, 8),
            (3, 10),
            (2, 12),
            // Of those who are level, whoever got there first.
            (1, 20),
            (3, 15),
            (2, 16),
        ]
    );
}

/// Lets through all but these.
struct AllBut(BTreeSet<usize>);

impl Gate<Job> for AllBut {
    fn open(&self, _: usize, job: &Job) -> bool {
        !self.0.contains(&job.id)
    }
}

#[test]
fn a_lane_whose_next_head_is_blocked_waits_behind_it() {
    let gate = AllBut(BTreeSet::from([1, 4]));
    let mut schedule = Schedule::new([10], FairUnit::Requests);
    for (sequence, number) in [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (5, 2)] {
        schedule.push(plain(0, lane(number), 1, sequence), &gate);
    }
    let preview = schedule.preview(9, &gate, |entry, blocks| (entry.payload.id, blocks));
    let (next, blocked) = preview.into_order();
    let ids = |seen: Vec<Seen<(usize, bool)>>| -> Vec<_> {
        seen.into_iter().map(|seen| seen.shown).collect()
    };
    assert_eq!(ids(next), [(0, false), (3, false), (5, false)]);
    assert_eq!(ids(blocked), [(1, true), (4, true), (2, false)]);
    let served = std::iter::from_fn(|| schedule.serve(&gate)).map(|entry| entry.payload.id);
    assert_eq!(served.collect::<Vec<_>>(), [0, 3, 5]);
}
