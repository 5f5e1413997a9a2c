//! The same traffic through a dominion that is enforced and one that is not: what the shadow says
//! is what the other did.

use std::{collections::BTreeMap, task::Poll};

use proptest::{prelude::*, test_runner::RngSeed};
use tower_policy_queue::{QueueHints, Totals};

use crate::{
    common::{desk::Reading, feed::Feed},
    hall::{Hall, hinted},
};

/// The longest wait in class `b`, and the longest hold in class `c`, in milliseconds. All times are
/// long, so that no two things happen at once: which of them is first would be anybody's guess.
const WAIT: u64 = 8_500_003;
const HOLD: u64 = 5_500_001;

fn policy(enforce: bool) -> String {
    format!(
        "
default_policy_family: a
uncached_isl_buckets: [{{min_tokens: 0, bucket: any}}]
policy_classes:
  - {{name: a, policy_family: a, cache_bucket: any, quantum: 50, prefill_busy_threshold: 60}}
  - {{name: b, policy_family: b, cache_bucket: any, quantum: 20, queue_policy: wspt, max_queue_wait_ms: {WAIT}, request_queue_limit_per_worker: 2}}
  - {{name: c, policy_family: c, cache_bucket: any, quantum: 30, max_hold_ms: {HOLD}}}
dominions: [{{id: pool, kind: remote, max_concurrency: 3, max_queue: 6, enforce: {enforce}}}]
endpoints: [{{id: w, dominion: pool}}, {{id: v, dominion: pool}}]
"
    )
}

/// A request; its times are in milliseconds, those after the first from its start.
#[derive(Clone, Debug)]
struct Job {
    class: usize,
    tokens: u64,
    client: u8,
    worker: Option<&'static str>,
    arrives: u64,
    head_after: u64,
    byte_after: u64,
    takes: u64,
    /// When its client goes away, from its arrival.
    leaves_after: Option<u64>,
}

fn job() -> impl Strategy<Value = Job> {
    (
        (0..3usize, 0..100u64, 0..3u8),
        prop::option::weighted(0.3, prop::sample::select(vec!["w", "v"])),
        (
            0..40_000_000u64,
            1..8_000_000u64,
            1..3_000_000u64,
            1..3_000_000u64,
        ),
        // Before it would be over if it did not have to wait.
        prop::option::weighted(0.2, 0.0..1.0),
    )
        .prop_map(
            |((class, tokens, client), worker, (arrives, head, byte, body), leaves)| Job {
                class,
                tokens,
                client,
                worker,
                arrives,
                head_after: head,
                byte_after: head + byte,
                takes: head + byte + body,
                leaves_after: leaves.map(|part| 1 + (part * head as f64) as u64),
            },
        )
}

struct Running {
    since: u64,
    stream: Option<(Reading, Feed)>,
}

impl Running {
    /// Reads what there is; false once it has ended.
    fn read(&mut self) -> bool {
        let Some((reading, _)) = &mut self.stream else {
            return true;
        };
        loop {
            match reading.poll_frame() {
                Poll::Pending => return true,
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(_)) | None) => return false,
            }
        }
    }
}

struct Run<'a> {
    jobs: &'a [Job],
    hall: Hall,
    now: u64,
    waiting: Vec<usize>,
    running: BTreeMap<usize, Running>,
}

impl Run<'_> {
    /// When something may happen next.
    fn next(&self) -> Option<u64> {
        let of_all = self.jobs.iter().flat_map(|job| {
            let leaves = job.leaves_after.map(|after| job.arrives + after);
            [job.arrives].into_iter().chain(leaves)
        });
        let of_waiting = self.waiting.iter().map(|&id| self.jobs[id].arrives + WAIT);
        let of_running = self.running.iter().flat_map(|(&id, request)| {
            let job = &self.jobs[id];
            [job.head_after, job.byte_after, job.takes, HOLD].map(|after| request.since + after)
        });
        let all = of_all.chain(of_waiting).chain(of_running);
        all.filter(|&at| at > self.now).min()
    }

    /// What happens now.
    fn step(&mut self) {
        let (now, jobs) = (self.now, self.jobs);
        for (id, job) in jobs.iter().enumerate() {
            let name = id.to_string();
            if job.arrives == now {
                let hints = QueueHints {
                    policy: Some(["a", "b", "c"][job.class].to_owned()),
                    client: Some(format!("client-{}", job.client)),
                    raw_isl_tokens: Some(job.tokens),
                    worker: job.worker.map(str::to_owned),
                    ..QueueHints::default()
                };
                self.hall.send(&name, hinted(&name, hints));
                self.waiting.push(id);
            }
            if job
                .leaves_after
                .is_some_and(|after| job.arrives + after == now)
            {
                self.waiting.retain(|&other| other != id);
                self.running.remove(&id);
                self.hall.leave(&name);
            }
            let Some(request) = self.running.get_mut(&id) else {
                continue;
            };
            if now == request.since + job.head_after {
                request.stream = Some(self.hall.stream(&name));
            }
            if let Some((_, feed)) = &request.stream {
                if now == request.since + job.byte_after {
                    feed.data("token");
                }
                if now == request.since + job.takes {
                    feed.end();
                }
            }
            if !request.read() || self.hall.state(&name) == "hold_timeout" {
                self.running.remove(&id);
            }
        }
        let (hall, running) = (&mut self.hall, &mut self.running);
        self.waiting
            .retain(|&id| match hall.state(&id.to_string()) {
                "waiting" => true,
                "running" => {
                    let request = Running {
                        since: now,
                        stream: None,
                    };
                    running.insert(id, request);
                    false
                }
                _ => false,
            });
    }
}

/// Runs the jobs, each for as long as it takes from its start; the answer is what became of them.
async fn run(jobs: &[Job], enforce: bool) -> Vec<Totals> {
    let mut run = Run {
        jobs,
        hall: Hall::new(&policy(enforce)),
        now: 0,
        waiting: Vec::new(),
        running: BTreeMap::new(),
    };
    while let Some(next) = run.next() {
        run.hall.pass(next - run.now).await;
        run.now = next;
        run.step();
    }
    // In the shadow some may not be over yet.
    run.hall.pass(1_000_000_000).await;
    let snapshot = run.hall.handle.snapshot();
    let dominion = &snapshot.dominions[0];
    let shown = match enforce {
        true => dominion,
        false => dominion.would_be.as_ref().unwrap(),
    };
    let left = (shown.in_use, shown.waiting);
    assert_eq!(left, (0, 0), "everything is over");
    let totals = shown.classes.iter().map(|class| class.totals.clone());
    totals.collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_shadow_says_what_the_enforced_twin_did(jobs in prop::collection::vec(job(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let enforced = runtime.block_on(run(&jobs, true));
        let shadow = runtime.block_on(run(&jobs, false));
        prop_assert_eq!(enforced, shadow);
    }
}
