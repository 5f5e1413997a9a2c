//! Remembers which worker has seen the beginning of a prompt.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use http::Request;

use super::PromptBlocks;
use crate::CachedTokens;

/// The blocks that are remembered for each worker by default: 16 MiB of prompts.
const BLOCKS_PER_WORKER: usize = 65_536;

/// The most workers that are remembered. The policy names the workers, so more are rare.
const MAX_WORKERS: usize = 4_096;

/// Remembers which prompts each worker was given, by their [`PromptBlocks`].
///
/// A request that continues a conversation then costs only what is new, and goes to the worker that has
/// the rest.
///
/// # Set a busy threshold
///
/// A worker that has the prompt is preferred however loaded it is, until it is busy for the class. So give
/// classes a `prefill_busy_threshold`, above all where requests share a system prompt: without one, the
/// first worker that had the system prompt would get them all.
///
/// # What it costs
///
/// The index models a server's own prefix cache: it assumes that a worker has all blocks of the prompts
/// dispatched to it, until newer blocks displace the least recently used ones. Its memory is bounded: about
/// 100 bytes for each remembered block, so by default at most 6.5 MB for each worker.
///
/// For each request, the layer asks the index about each worker that the request may go to. That takes one
/// look-up for each block that the worker knows, and one more: a few thousand for a known half megabyte.
/// None of the layer's locks is held meanwhile; the index holds its own lock only for the look-ups of one
/// worker.
///
/// A clone is another handle to the same index.
///
/// ```
/// use tower::ServiceBuilder;
/// use tower_policy_queue::{
///     PolicyConfig, PolicyQueueLayer,
///     openai::{OpenAiHintsLayer, PrefixIndex},
/// };
///
/// let queue = PolicyQueueLayer::new(PolicyConfig::default()).cached_tokens(PrefixIndex::new());
/// let stack = ServiceBuilder::new().layer(OpenAiHintsLayer::new()).layer(queue);
/// # let _ = stack;
/// ```
#[derive(Clone)]
pub struct PrefixIndex {
    shared: Arc<Shared>,
}

struct Shared {
    blocks_per_worker: usize,
    /// Each behind its own lock, so that requests for different workers do not wait for each other.
    workers: RwLock<HashMap<Box<str>, Arc<Mutex<Seen>>>>,
}

impl PrefixIndex {
    /// Creates an index that remembers 65,536 blocks for each worker.
    pub fn new() -> Self {
        Self::with_blocks_per_worker(BLOCKS_PER_WORKER)
    }

    /// Creates an index that remembers this many blocks for each worker, at least one.
    pub fn with_blocks_per_worker(blocks: usize) -> Self {
        let shared = Shared {
            blocks_per_worker: blocks.max(1),
            workers: RwLock::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Forgets a worker, for instance because it was restarted or removed.
    pub fn forget(&self, worker: &str) {
        let mut workers = self
            .shared
            .workers
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        workers.remove(worker);
    }

    fn seen_by(&self, worker: &str) -> Option<Arc<Mutex<Seen>>> {
        let workers = self
            .shared
            .workers
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        workers.get(worker).cloned()
    }

    fn seen_by_or_new(&self, worker: &str) -> Option<Arc<Mutex<Seen>>> {
        self.seen_by(worker).or_else(|| {
            let mut workers = self
                .shared
                .workers
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            let room = workers.len() < MAX_WORKERS || workers.contains_key(worker);
            room.then(|| Arc::clone(workers.entry(worker.into()).or_default()))
        })
    }
}

impl Default for PrefixIndex {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for PrefixIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrefixIndex")
            .field("blocks_per_worker", &self.shared.blocks_per_worker)
            .finish_non_exhaustive()
    }
}

impl CachedTokens for PrefixIndex {
    fn cached_tokens<B>(&self, request: &Request<B>, worker: &str) -> u64 {
        let Some(prompt) = request.extensions().get::<PromptBlocks>() else {
            return 0;
        };
        let Some(seen) = self.seen_by(worker) else {
            return 0;
        };
        let blocks = seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .beginning(prompt.hashes());
        (blocks as u64).saturating_mul(prompt.tokens_per_block())
    }

    fn dispatched<B>(&self, request: &Request<B>, worker: &str) {
        let Some(prompt) = request.extensions().get::<PromptBlocks>() else {
            return;
        };
        if prompt.hashes().is_empty() {
            return;
        }
        if let Some(seen) = self.seen_by_or_new(worker) {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.remember(prompt.hashes(), self.shared.blocks_per_worker);
        }
    }
}

/// The blocks that a worker has used most recently.
#[derive(Debug, Default)]
struct Seen {
    /// When each block was used last.
    uses: HashMap<u64, u64>,
    /// The blocks by the time of their last use, which is unique.
    by_use: BTreeMap<u64, u64>,
    now: u64,
}

impl Seen {
    /// How many blocks, from the first on, were seen. A block's hash covers all blocks before it, so the
    /// first that is missing ends the count.
    fn beginning(&self, hashes: &[u64]) -> usize {
        hashes
            .iter()
            .take_while(|hash| self.uses.contains_key(hash))
            .count()
    }

    fn remember(&mut self, hashes: &[u64], capacity: usize) {
        // Blocks beyond the capacity would only evict the prompt's own beginning.
        let hashes = &hashes[..hashes.len().min(capacity)];
        // The beginning last, so that it is forgotten last: it is what other prompts most often share.
        for &hash in hashes.iter().rev() {
            self.now += 1;
            if let Some(before) = self.uses.insert(hash, self.now) {
                self.by_use.remove(&before);
            }
            self.by_use.insert(self.now, hash);
        }
        while self.uses.len() > capacity {
            let Some((_, oldest)) = self.by_use.pop_first() else {
                break;
            };
            self.uses.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_known_as_far_as_it_begins_like_one_that_was_seen() {
        let mut seen = Seen::default();
        seen.remember(&[1, 2, 3], 10);
        assert_eq!(seen.beginning(&[1, 2, 3, 4]), 3);
        assert_eq!(
            seen.beginning(&[1, 2, 9, 3]),
            2,
            "what comes after a gap is no beginning"
        );
        assert_eq!(seen.beginning(&[2, 3]), 2);
        assert_eq!(seen.beginning(&[9]), 0);
        assert_eq!(seen.beginning(&[]), 0);
    }

    #[test]
    fn the_least_recently_used_blocks_are_forgotten_and_endings_before_beginnings() {
        let mut seen = Seen::default();
        seen.remember(&[1, 2, 3], 5);
        seen.remember(&[7, 8], 5);
        seen.remember(&[1, 2], 5);
        seen.remember(&[9], 5);
        assert_eq!(seen.beginning(&[1, 2, 3]), 2, "3 was used least recently");
        seen.remember(&[10], 5);
        assert_eq!(
            seen.beginning(&[7, 8]),
            1,
            "of two used together the ending goes first"
        );
        assert_eq!(seen.uses.len(), 5);
        assert_eq!(seen.by_use.len(), 5);
    }

    #[test]
    fn a_prompt_longer_than_the_memory_is_known_by_its_beginning() {
        let mut seen = Seen::default();
        let long: Vec<u64> = (0..100).collect();
        seen.remember(&long, 8);
        assert_eq!(seen.beginning(&long), 8);
        assert_eq!(seen.uses.len(), 8);
    }

    #[test]
    fn a_request_without_a_prompt_is_new_everywhere_and_leaves_nothing() {
        let index = PrefixIndex::new();
        let request = Request::new(());
        index.dispatched(&request, "w");
        assert_eq!(index.cached_tokens(&request, "w"), 0);
        assert!(index.seen_by("w").is_none());
    }

    #[test]
    fn no_more_workers_are_remembered_than_may_be() {
        let index = PrefixIndex::new();
        let name = |number: usize| format!("worker-{number}");
        for number in 0..MAX_WORKERS {
            assert!(index.seen_by_or_new(&name(number)).is_some());
        }
        assert!(index.seen_by_or_new("one more").is_none());
        assert!(index.seen_by_or_new(&name(7)).is_some(), "a known one");
        index.forget(&name(7));
        assert!(index.seen_by_or_new("one more").is_some());
    }
}
