//! Whatever happens, each request that came waits, runs, or has one outcome.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
};

use http::{Method, Response};
use proptest::{prelude::*, test_runner::RngSeed};
use tower_policy_queue::{Admission, Hold, QueueHints};

use crate::{
    assert_that_it_adds_up,
    common::{
        desk::{Client, Reading, Scene, Trouble, policy},
        feed::{FedBody, Feed},
    },
    hall::hinted,
    look,
    stage::{Connection, PROTOCOLS, Stage, content, forsake, head, whole},
};

const POLICY: &str = "
default_policy_family: a
uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
policy_classes:
  - {name: a, policy_family: a, cache_bucket: any, quantum: 10, prefill_busy_threshold: 12}
  - {name: b, policy_family: b, cache_bucket: any, quantum: 3, queue_policy: wspt, hold_until: headers}
  - {name: c, policy_family: c, cache_bucket: any, quantum: 100, max_hold_ms: 20, max_queue_wait_ms: 50}
  - {name: d, policy_family: d, cache_bucket: any, quantum: 1, output_token_weight: 2.0, request_queue_limit_per_worker: 1}
dominions:
  - {id: pool, kind: remote, max_concurrency: 2, max_queue: 5, fair_scheduling: true}
  - {id: gpu, kind: local, max_concurrency: 1, max_queue: 3}
  - {id: strict, kind: remote, max_concurrency: 1, policy: reject}
  - {id: dry, kind: remote, max_concurrency: 1, max_queue: 2, enforce: false}
endpoints:
  - {id: w0, dominion: pool}
  - {id: w1, dominion: pool}
  - {id: w2, dominion: strict}
  - {id: w3, dominion: dry}
local_models: [{id: m0, dominion: gpu}, {id: m1, dominion: gpu}]
profiles: [{name: zero, models: [m0]}, {name: both, models: [m0, m1]}]
";

#[derive(Clone, Debug)]
enum Operation {
    Arrive(QueueHints),
    /// Some request is polled, whatever it waits for.
    Poll(usize),
    Leave(usize),
    Answer(usize, bool),
    Fail(usize),
    Panic(usize),
    Disturb(Trouble),
    Data(usize),
    End(usize),
    BodyFails(usize),
    BodyPanics(usize),
    Read(usize),
    Drop(usize),
    Hold(usize),
    LetGo,
    Pass(u64),
    Drain(&'static str, bool),
    Slots(usize),
    Switch(&'static str),
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let worker = || prop::sample::select(vec!["w0", "w1", "w2", "w3", "m0", "m1", "nobody"]);
    let hints = (
        prop::sample::select(vec!["a", "b", "c", "d"]),
        0..30u64,
        prop::option::weighted(0.7, worker()),
        prop::option::weighted(0.5, prop::sample::select(vec!["ann", "bob"])),
        prop::option::weighted(0.2, 0..30u64),
    );
    let hints = hints.prop_map(|(policy, tokens, worker, client, wait)| QueueHints {
        policy: Some(policy.to_owned()),
        raw_isl_tokens: Some(tokens),
        worker: worker.map(str::to_owned),
        client: client.map(str::to_owned),
        max_queue_wait_ms: wait,
        ..QueueHints::default()
    });
    let trouble = prop::sample::select(vec![
        Trouble::ReadinessFails,
        Trouble::ReadinessPanics,
        Trouble::CallPanics,
    ]);
    let which = any::<usize>;
    prop_oneof![
        8 => hints.prop_map(Arrive),
        8 => which().prop_map(Poll),
        2 => which().prop_map(Leave),
        4 => (which(), any::<bool>()).prop_map(|(which, ended)| Answer(which, ended)),
        1 => which().prop_map(Fail),
        1 => which().prop_map(Panic),
        1 => trouble.prop_map(Disturb),
        2 => which().prop_map(Data),
        2 => which().prop_map(End),
        1 => which().prop_map(BodyFails),
        1 => which().prop_map(BodyPanics),
        5 => which().prop_map(Read),
        1 => which().prop_map(Drop),
        1 => which().prop_map(Hold),
        1 => Just(LetGo),
        2 => (0..30u64).prop_map(Pass),
        1 => (worker(), any::<bool>()).prop_map(|(id, on)| Drain(id, on)),
        1 => (1..4usize).prop_map(Slots),
        1 => prop::sample::select(vec!["zero", "both"]).prop_map(Switch),
    ]
}

struct Streaming {
    body: Reading,
    feed: Feed,
    admission: Option<Admission>,
}

struct World {
    scene: Scene,
    sent: usize,
    /// Those that the inner service was asked, and has not answered.
    asked: Vec<String>,
    clients: Vec<Client>,
    streaming: Vec<Streaming>,
    holds: Vec<Hold>,
}

impl World {
    fn poll(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let before = self.scene.desk.started().len();
        // A panic is the client's end, as in a server.
        let polled = catch_unwind(AssertUnwindSafe(|| client.polled.poll()));
        self.asked
            .extend(self.scene.desk.started().split_off(before));
        let answered = match polled {
            Ok(std::task::Poll::Pending) => return,
            Ok(std::task::Poll::Ready(answer)) => answer.ok(),
            Err(_) => None,
        };
        let id = self.clients.swap_remove(index).id;
        self.asked.retain(|asked| *asked != id);
        if let Some((parts, body)) = answered.map(Response::into_parts) {
            self.streaming.push(Streaming {
                body: crate::common::bell::Polled::new(body),
                feed: Feed::new(),
                admission: parts.extensions.get().cloned(),
            });
        }
    }

    fn read(&mut self, index: usize) {
        let body = &mut self.streaming[index].body;
        let read = catch_unwind(AssertUnwindSafe(|| body.poll_frame()));
        if !matches!(
            read,
            Ok(std::task::Poll::Pending | std::task::Poll::Ready(Some(Ok(_))))
        ) {
            self.streaming.swap_remove(index);
        }
    }
}

async fn run(operations: Vec<Operation>) {
    let scene = Scene::new(policy(POLICY));
    let handle = scene.layer.handle();
    let mut world = World {
        scene,
        sent: 0,
        asked: Vec::new(),
        clients: Vec::new(),
        streaming: Vec::new(),
        holds: Vec::new(),
    };
    for operation in operations {
        let (clients, streaming) = (world.clients.len(), world.streaming.len());
        let asked = world.asked.len();
        match operation {
            Operation::Arrive(hints) => {
                world.sent += 1;
                let id = world.sent.to_string();
                let client = world.scene.call_with(&id, hinted(&id, hints));
                world.clients.push(client);
            }
            Operation::Poll(which) if clients > 0 => world.poll(which % clients),
            Operation::Leave(which) if clients > 0 => {
                let client = world.clients.swap_remove(which % clients);
                world.asked.retain(|asked| *asked != client.id);
            }
            Operation::Answer(which, ended) if asked > 0 => {
                let id = world.asked.swap_remove(which % asked);
                let feed = Feed::new();
                let body = if ended { FedBody::empty() } else { feed.body() };
                world.scene.desk.answer(&id, body);
                if let Some(index) = world.clients.iter().position(|it| it.id == id) {
                    world.poll(index);
                    if let Some(streaming) = world.streaming.last_mut() {
                        streaming.feed = feed;
                    }
                }
            }
            Operation::Fail(which) if asked > 0 => {
                let id = world.asked.swap_remove(which % asked);
                world.scene.desk.fail(&id);
            }
            Operation::Panic(which) if asked > 0 => {
                let id = world.asked.swap_remove(which % asked);
                world.scene.desk.panic(&id);
            }
            Operation::Disturb(trouble) => world.scene.desk.trouble(trouble),
            Operation::Data(which) if streaming > 0 => {
                world.streaming[which % streaming].feed.data("data: {}\n\n");
            }
            Operation::End(which) if streaming > 0 => {
                world.streaming[which % streaming].feed.end();
            }
            Operation::BodyFails(which) if streaming > 0 => {
                world.streaming[which % streaming].feed.error();
            }
            Operation::BodyPanics(which) if streaming > 0 => {
                world.streaming[which % streaming].feed.panic();
            }
            Operation::Read(which) if streaming > 0 => world.read(which % streaming),
            Operation::Drop(which) if streaming > 0 => {
                world.streaming.swap_remove(which % streaming);
            }
            Operation::Hold(which) if streaming > 0 => {
                let admission = &world.streaming[which % streaming].admission;
                world.holds.extend(admission.as_ref().map(Admission::hold));
            }
            Operation::LetGo => drop(world.holds.pop()),
            Operation::Pass(milliseconds) => {
                tokio::time::advance(std::time::Duration::from_millis(milliseconds)).await;
            }
            Operation::Drain(id, on) => drop(handle.drain_worker(id, on)),
            Operation::Slots(slots) => handle.set_max_concurrency("pool", Some(slots)).unwrap(),
            Operation::Switch(profile) => handle.switch_profile(profile).unwrap(),
            // There is nobody for it.
            _ => {}
        }
        assert_that_it_adds_up(&look(&handle));
    }

    world.clients.clear();
    world.streaming.clear();
    world.holds.clear();
    let end = look(&handle);
    assert_that_it_adds_up(&end);
    let settled: u64 = end
        .dominions
        .iter()
        .map(|dominion| {
            assert_eq!((dominion.in_use, dominion.waiting), (0, 0));
            crate::totals(dominion)
                .map(|totals| totals.settled())
                .sum::<u64>()
        })
        .sum();
    let unplaced = end.unplaced.rejected.total();
    assert_eq!(settled + unplaced, world.sent as u64, "each of them once");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn arrivals_are_those_that_wait_run_or_have_an_outcome(
        operations in prop::collection::vec(operation(), 0..120),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(run(operations));
    }
}

/// Waits until so many run and wait, and checks the counts.
async fn in_hand(stage: &Stage, what: &str, running: usize, waiting: usize) {
    stage
        .usage_soon(what, |usage| {
            (usage.slots_in_use, usage.waiting) == (running, waiting)
        })
        .await;
    assert_that_it_adds_up(&look(&stage.handle()));
}

#[tokio::test]
async fn it_adds_up_behind_a_server_whose_clients_come_and_go() {
    let policy = "dominions: [{id: pool, kind: remote, max_concurrency: 1, max_queue: 2}]";
    for protocol in PROTOCOLS {
        let mut stage = Stage::with(policy).await;
        for round in 0..6 {
            // One that runs, two that wait, and one too many.
            let mut clients = VecDeque::new();
            for arrived in 1..=4_usize {
                let mut connection = Connection::open(protocol, stage.address).await;
                let sent = connection.send(Method::POST, "request", "body");
                clients.push_back((connection, sent));
                in_hand(&stage, "it has come", 1, arrived.min(3) - 1).await;
            }
            let (_, sent) = clients.pop_back().unwrap();
            assert_eq!(head(sent).await.status(), 503);
            let (connection, sent) = clients.pop_back().unwrap();
            forsake(sent).await;
            connection.close().await;
            in_hand(&stage, "the last one has left the queue", 1, 1).await;

            let (connection, sent) = clients.pop_front().unwrap();
            let order = stage.orders.next().await;
            let feed = Feed::new();
            order.answer(content(feed.body()));
            let response = head(sent).await;
            feed.data("token");
            match round % 3 {
                0 => {
                    feed.end();
                    whole(response.into_body()).await;
                }
                1 => {
                    feed.error();
                    in_hand(&stage, "the next one runs", 1, 0).await;
                    drop(response);
                }
                _ => {
                    drop(response);
                    connection.close().await;
                }
            }
            let _running = stage.orders.next().await;
            in_hand(&stage, "the next one runs", 1, 0).await;
            let (connection, sent) = clients.pop_front().unwrap();
            forsake(sent).await;
            connection.close().await;
            in_hand(&stage, "all are gone", 0, 0).await;
        }
        let snapshot = look(&stage.handle());
        let totals = &snapshot.dominions[0].classes[0].totals;
        assert_eq!((totals.arrived, totals.settled()), (24, 24));
        assert_eq!((totals.completed, totals.failed), (2, 2));
        let gone = totals.cancelled;
        assert_eq!((gone.queued, gone.granted, gone.running), (6, 0, 8));
        assert_eq!(totals.rejected.get("queue_full"), 6);
    }
}
