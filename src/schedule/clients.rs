//! Client labels, and how many of them a dominion tells apart.

use std::collections::HashMap;

/// A client that waits in a dominion. Numbers are reused once their label is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ClientId(u8);

/// The distinct labels that may wait in a dominion besides the shared one.
///
/// Bounded because a label is only a hint: a client that invents labels would otherwise increase its own
/// share and the memory of the queue.
const MAX_LABELS: usize = 32;

const MAX_LABEL_BYTES: usize = 64;

/// The requests of a label.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    waiting: usize,
    /// Since the label became known.
    served: u64,
}

/// The labels under which somebody waits.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    ids: HashMap<Box<str>, ClientId>,
    /// Under each id; index 0 is the shared label.
    counts: Vec<Counts>,
}

impl Clients {
    /// Counts a waiter under `label`, or under the shared one if the label is missing, ill-formed
    /// or one too many. The returned id is to be passed to [`leave`](Self::leave).
    pub(crate) fn join(&mut self, label: Option<&str>) -> ClientId {
        let label = label.and_then(well_formed);
        let id = label.map_or(ClientId::SHARED, |label| self.resolve(label));
        let index = usize::from(id.0);
        if self.counts.len() <= index {
            self.counts.resize(index + 1, Counts::default());
        }
        self.counts[index].waiting += 1;
        id
    }

    /// How many requests wait under the id that a request with this label would [`join`](Self::join).
    pub(crate) fn waiting(&self, label: Option<&str>) -> usize {
        let id = match label.and_then(well_formed) {
            None => Some(ClientId::SHARED),
            Some(label) => self.find(label),
        };
        let counts = id.and_then(|id| self.counts.get(usize::from(id.0)));
        counts.map_or(0, |counts| counts.waiting)
    }

    /// The client of a label; `None` if the label is new and there is room for it.
    fn find(&self, label: &str) -> Option<ClientId> {
        let known = self.ids.get(label).copied();
        known.or_else(|| (self.ids.len() >= MAX_LABELS).then_some(ClientId::SHARED))
    }

    fn resolve(&mut self, label: &str) -> ClientId {
        if let Some(id) = self.find(label) {
            return id;
        }
        let is_free = |id: &u8| {
            let counts = self.counts.get(usize::from(*id));
            counts.is_none_or(|counts| counts.waiting == 0)
        };
        let free = (1..=MAX_LABELS as u8).find(is_free);
        let Some(id) = free.map(ClientId) else {
            return ClientId::SHARED;
        };
        self.ids.insert(label.into(), id);
        id
    }

    /// Undoes one [`join`](Self::join). A label under which nobody waits is forgotten.
    pub(crate) fn leave(&mut self, id: ClientId) {
        let Some(counts) = self.counts.get_mut(usize::from(id.0)) else {
            return;
        };
        counts.waiting = counts.waiting.saturating_sub(1);
        if counts.waiting == 0 && id != ClientId::SHARED {
            counts.served = 0;
            self.ids.retain(|_, known| *known != id);
        }
    }

    /// Counts a request as served; it must still [leave](Self::leave).
    pub(crate) fn serve(&mut self, id: ClientId) {
        if let Some(counts) = self.counts.get_mut(usize::from(id.0)) {
            counts.served += 1;
        }
    }

    /// The labels under which somebody waits, each with how many wait and how many were served since the
    /// label became known; the shared one first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, ClientId, usize, u64)> {
        let shared = [("default", ClientId::SHARED)].into_iter();
        let others = self.ids.iter().map(|(label, &id)| (&**label, id));
        shared.chain(others).filter_map(|(label, id)| {
            let counts = self.counts.get(usize::from(id.0))?;
            Some((label, id, counts.waiting, counts.served))
        })
    }

    /// Labels besides the shared one under which somebody waits.
    #[cfg(test)]
    pub(crate) fn labels(&self) -> usize {
        self.ids.len()
    }
}

impl ClientId {
    /// The label `default`, shared by all requests without one of their own.
    pub(crate) const SHARED: Self = Self(0);

    #[cfg(test)]
    pub(super) fn for_test(number: u8) -> Self {
        Self(number)
    }
}

fn well_formed(label: &str) -> Option<&str> {
    let label = label.trim();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    let fits = (1..=MAX_LABEL_BYTES).contains(&label.len()) && label.bytes().all(plain);
    (fits && label != "default").then_some(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_are_missing_or_ill_formed_share_one_bucket() {
        let mut clients = Clients::default();
        let long = "x".repeat(65);
        for label in [
            None,
            Some(""),
            Some("  "),
            Some("no good"),
            Some("é"),
            Some("default"),
            Some(&*long),
        ] {
            assert_eq!(clients.join(label), ClientId::SHARED, "{label:?}");
        }
        assert_ne!(clients.join(Some(&long[..64])), ClientId::SHARED);
        assert_ne!(clients.join(Some("Team-7_a.b:c")), ClientId::SHARED);
        assert_eq!(clients.join(Some(" padded ")), clients.join(Some("padded")));
    }

    #[test]
    fn a_label_counts_those_who_wait_and_were_served_until_it_is_forgotten() {
        let mut clients = Clients::default();
        let known = |clients: &Clients| -> Vec<(String, usize, u64)> {
            let label =
                |(label, _, waiting, served): (&str, _, _, _)| (label.to_owned(), waiting, served);
            clients.iter().map(label).collect()
        };
        let leave = |clients: &mut Clients, id, served| {
            if served {
                clients.serve(id);
            }
            clients.leave(id);
        };
        assert_eq!(known(&clients), []);
        let a = clients.join(Some("a"));
        clients.join(Some("a"));
        clients.join(Some("a"));
        let shared = clients.join(None);
        clients.join(None);
        leave(&mut clients, a, true);
        leave(&mut clients, a, true);
        leave(&mut clients, shared, true);
        let expected = [("default".to_owned(), 1, 1), ("a".to_owned(), 1, 2)];
        assert_eq!(known(&clients), expected);

        leave(&mut clients, a, false);
        leave(&mut clients, shared, false);
        assert_eq!(known(&clients), [("default".to_owned(), 0, 1)]);
        clients.join(Some("a"));
        assert_eq!(known(&clients)[1], ("a".to_owned(), 1, 0), "it begins anew");
    }

    #[test]
    fn the_thirty_third_label_joins_the_shared_bucket_until_one_is_forgotten() {
        let mut clients = Clients::default();
        let ids: Vec<_> = (0..32)
            .map(|n| clients.join(Some(&n.to_string())))
            .collect();
        assert_eq!(clients.join(Some("late")), ClientId::SHARED);
        assert_eq!(
            clients.join(Some("7")),
            ids[7],
            "a known label is still known"
        );
        clients.leave(ids[7]);
        assert_eq!(
            clients.join(Some("late")),
            ClientId::SHARED,
            "one of them still waits"
        );
        clients.leave(ids[7]);
        assert_eq!(clients.join(Some("late")), ids[7]);
        assert_eq!(clients.labels(), 32);
    }
}
