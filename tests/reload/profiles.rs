//! Local models from one policy to the next, with a profile in force and without.

use crate::hall::{Hall, hinted, pinned};

const POLICY: &str = "
dominions:
  - {id: gpu, kind: local, max_concurrency: 9}
  - {id: pool, kind: remote, max_concurrency: 9}
local_models: [{id: big, dominion: gpu}, {id: small, dominion: gpu}]
endpoints: [{id: remote, dominion: pool}]
profiles: [{name: night, models: [small]}]
";

impl Hall {
    fn pin(&mut self, worker: &str) {
        self.send(worker, hinted(worker, pinned(worker)));
    }
}

#[test]
fn without_a_profile_all_local_models_go_on() {
    let mut hall = Hall::new(POLICY);
    hall.reload(POLICY);
    for worker in ["big", "small", "remote"] {
        hall.pin(worker);
        assert_eq!(hall.state(worker), "running", "{worker}");
    }
    hall.reload(POLICY);
    assert_eq!(hall.states(["big", "small", "remote"]), ["running"; 3]);
}

#[test]
fn a_profile_in_force_leaves_out_local_models_alone() {
    let mut hall = Hall::new(POLICY);
    hall.handle.switch_profile("night").unwrap();
    hall.reload(POLICY);
    for (worker, state) in [
        ("big", "no_eligible_worker"),
        ("small", "running"),
        ("remote", "running"),
    ] {
        hall.pin(worker);
        assert_eq!(hall.state(worker), state, "{worker}");
    }
}

#[test]
fn a_local_model_is_not_the_endpoint_that_was_removed_under_its_name() {
    let remote = "
dominions: [{id: pool, kind: remote, max_concurrency: 1}]
endpoints: [{id: x, dominion: pool}, {id: y, dominion: pool}]
";
    let local = "
dominions: [{id: pool, kind: local, max_concurrency: 1}]
local_models: [{id: x, dominion: pool}, {id: z, dominion: pool}]
profiles: [{name: night, models: [z]}]
";
    let mut hall = Hall::new(remote);
    hall.pin("y");
    hall.pin("x");
    hall.freeze("x");
    hall.finish("y");
    hall.handle.remove_worker("x").unwrap();
    hall.reload(local);
    hall.handle.switch_profile("night").unwrap();
    hall.thaw("x");
    assert_eq!(hall.state("x"), "running", "on what is no local model");
}
