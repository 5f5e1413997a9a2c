//! What the tests of the pool send into it.

use std::sync::Arc;

use super::{Arrival, Entrance, Permit, Ticket, Wanted};
use crate::{config, schedule::Snapshot};

/// A request that asks for nothing in particular, of `raw` tokens of which `cached` are cached.
pub(super) fn arrival(class: usize, raw: u64, cached: u64) -> Arrival<'static> {
    Arrival {
        class,
        snapshot: Snapshot::new(raw, cached),
        strict_priority: 0,
        priority_jump: 0.0,
        client: None,
        hint: None,
        wanted: Wanted::default(),
        max_queue_wait: None,
    }
}

/// A worker of the first dominion: a local model, or an endpoint.
pub(super) fn worker(id: &str, models: &[&str], local: bool) -> Arc<config::Worker> {
    let endpoint = config::Endpoint {
        id: id.into(),
        protocol: None,
        base_url: None,
        api_key: None,
    };
    Arc::new(config::Worker {
        id: id.into(),
        dominion: Some(0),
        models: models.iter().map(|&model| model.to_owned()).collect(),
        max_num_batched_tokens: local.then_some(10),
        endpoint: (!local).then(|| Arc::new(endpoint)),
    })
}

pub(super) fn admitted(entrance: Entrance) -> Permit {
    match entrance {
        Entrance::Admitted(permit) => permit,
        other => panic!("not admitted: {other:?}"),
    }
}

pub(super) fn parked(entrance: Entrance) -> Ticket {
    match entrance {
        Entrance::Parked(ticket) => ticket,
        other => panic!("not parked: {other:?}"),
    }
}
