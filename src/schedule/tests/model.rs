//! What the schedule is compared with.

use super::*;

#[derive(Clone, Debug)]
pub(super) struct Queued {
    pub(super) id: usize,
    pub(super) lane: LaneId,
    pub(super) client: u8,
    pub(super) tier: u32,
    pub(super) score: Score,
    pub(super) cost: u64,
}

/// Plain deficit round robin: one class a visit, one quantum a visit, round after round.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) quanta: Vec<u64>,
    pub(super) deficits: Vec<i128>,
    /// In the order of arrival.
    pub(super) queues: Vec<Vec<Queued>>,
    /// Whose turn it is among the clients of a lane's tier, the next one first.
    turns: Vec<((usize, LaneId, u32), Vec<u8>)>,
    pub(super) cursor: usize,
    pub(super) burst: Option<usize>,
}

impl Model {
    pub(super) fn new(quanta: &[u64]) -> Self {
        Self {
            quanta: quanta.to_vec(),
            deficits: vec![0; quanta.len()],
            queues: vec![Vec::new(); quanta.len()],
            ..Self::default()
        }
    }

    fn turn(&mut self, key: (usize, LaneId, u32)) -> &mut Vec<u8> {
        if !self.turns.iter().any(|(known, _)| *known == key) {
            self.turns.push((key, Vec::new()));
        }
        let turn = self.turns.iter_mut().find(|(known, _)| *known == key);
        &mut turn.unwrap().1
    }

    pub(super) fn push(&mut self, class: usize, queued: Queued) {
        let turn = self.turn((class, queued.lane, queued.tier));
        if !turn.contains(&queued.client) {
            turn.push(queued.client);
        }
        self.queues[class].push(queued);
    }

    fn head(&mut self, class: usize, lane: LaneId) -> Option<Queued> {
        let in_lane = |queued: &&Queued| queued.lane == lane;
        let tier = self.queues[class]
            .iter()
            .filter(in_lane)
            .map(|queued| queued.tier)
            .max()?;
        let client = self.turn((class, lane, tier))[0];
        let mine = |queued: &&Queued| {
            queued.lane == lane && queued.tier == tier && queued.client == client
        };
        // The first of the equal ones is the one that arrived first.
        self.queues[class]
            .iter()
            .filter(mine)
            .min_by_key(|queued| queued.score)
            .cloned()
    }

    pub(super) fn candidate(&mut self, class: usize, blocked: &Blocked) -> Option<Queued> {
        let lanes: BTreeSet<LaneId> = self.queues[class]
            .iter()
            .map(|queued| queued.lane)
            .collect();
        let open = lanes
            .into_iter()
            .filter(|&lane| !blocked.0.contains(&(class, lane)));
        let mut heads: Vec<Queued> = open.filter_map(|lane| self.head(class, lane)).collect();
        heads.sort_by_key(|head| (std::cmp::Reverse(head.tier), head.score, head.id));
        heads.into_iter().next()
    }

    pub(super) fn take(&mut self, class: usize, id: usize, served: bool) -> Queued {
        let index = self.queues[class]
            .iter()
            .position(|queued| queued.id == id)
            .unwrap();
        let taken = self.queues[class].remove(index);
        let waits = |queued: &Queued| {
            (queued.lane, queued.tier, queued.client) == (taken.lane, taken.tier, taken.client)
        };
        let still = self.queues[class].iter().any(waits);
        let turn = self.turn((class, taken.lane, taken.tier));
        if served || !still {
            turn.retain(|&client| client != taken.client);
        }
        if served && still {
            turn.push(taken.client);
        }
        if self.queues[class].is_empty() {
            self.deficits[class] = self.deficits[class].min(0);
            self.burst = self.burst.filter(|&burst| burst != class);
        }
        taken
    }

    pub(super) fn serve(&mut self, blocked: &Blocked) -> Option<(usize, usize)> {
        if let Some(class) = self.burst {
            match self.candidate(class, blocked) {
                Some(head) if i128::from(head.cost) <= self.deficits[class] => {
                    return Some(self.pay(class, head));
                }
                Some(_) => self.burst = None,
                None => {}
            }
        }
        let open = |this: &mut Self, class| this.candidate(class, blocked).is_some();
        if !(0..self.quanta.len()).any(|class| open(self, class)) {
            return None;
        }
        loop {
            for step in 0..self.quanta.len() {
                let class = (self.cursor + step) % self.quanta.len();
                let Some(head) = self.candidate(class, blocked) else {
                    continue;
                };
                if i128::from(head.cost) > self.deficits[class] {
                    self.deficits[class] += i128::from(self.quanta[class]);
                }
                if i128::from(head.cost) <= self.deficits[class] {
                    return Some(self.pay(class, head));
                }
            }
        }
    }

    pub(super) fn charge(&mut self, class: usize, tokens: i128) {
        self.deficits[class] -= tokens;
        if self.queues[class].is_empty() {
            self.deficits[class] = self.deficits[class].min(0);
        }
    }

    fn pay(&mut self, class: usize, head: Queued) -> (usize, usize) {
        self.deficits[class] -= i128::from(head.cost);
        self.cursor = (class + 1) % self.quanta.len();
        self.burst = Some(class);
        self.take(class, head.id, true);
        (class, head.id)
    }
}
