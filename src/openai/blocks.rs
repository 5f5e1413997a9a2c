//! Hashes of a prompt's beginning, to compare prompts by.

use std::{
    hash::{DefaultHasher, Hasher},
    sync::Arc,
};

use super::{Part, Prompt};

/// The size of a block, in bytes of canonical text.
const BLOCK_BYTES: usize = 256;

/// Enough for 8 MiB of text, at 256 KiB of hashes. The rest of a longer prompt is not hashed.
const MAX_BLOCKS: usize = 8 * 1024 * 1024 / BLOCK_BYTES;

/// Not a byte of UTF-8, so that no text can look like two parts.
const SEPARATOR: u8 = 0xff;

/// The hashes of a prompt's prefixes: of its first block, its first two blocks, and so on. Two prompts for
/// the same model share as many hashes as they share blocks from the beginning.
///
/// Layers inside find it in the request's extensions.
///
/// A block is 256 bytes of the prompt's canonical text: its [parts](Part) in order, including roles, with
/// text unescaped, JSON as written, and a digest in place of images and audio. An incomplete last block has
/// no hash. So as a conversation goes on, it keeps all its hashes and adds further ones. At most 32,768
/// blocks (8 MiB) are hashed.
///
/// The hashes are not for security: they are fast, 64 bits long and use no secret, so anyone can craft two
/// prompts that look alike. Use them for nothing but estimates of what a cache holds. They are valid in this
/// process only: another build may compute different ones.
///
/// ```
/// use tower_policy_queue::openai::PromptBlocks;
///
/// /// Tokens of `this` that a worker has cached once it has seen `earlier`.
/// fn cached_tokens(this: &PromptBlocks, earlier: &PromptBlocks) -> u64 {
///     let pairs = this.hashes().iter().zip(earlier.hashes());
///     let equal = pairs.take_while(|(this, earlier)| this == earlier).count();
///     equal as u64 * this.tokens_per_block()
/// }
/// # assert_eq!(cached_tokens(&PromptBlocks::default(), &PromptBlocks::default()), 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptBlocks {
    hashes: Arc<[u64]>,
    tokens_per_block: u64,
}

impl PromptBlocks {
    /// `tokens` is the length of the whole prompt.
    pub(super) fn of(prompt: &Prompt<'_>, model: Option<&str>, tokens: u64) -> Self {
        let mut blocks = Blocks::of_model(model.unwrap_or_default());
        prompt.for_each_part(|part| blocks.part(part));
        Self {
            tokens_per_block: blocks.share_of(tokens),
            hashes: blocks.hashes.into(),
        }
    }

    /// The hashes. The one at index `n` is that of the first `n + 1` blocks.
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// A block's share of the prompt's tokens, rounded down, so that all blocks together never have more
    /// tokens than the prompt.
    pub fn tokens_per_block(&self) -> u64 {
        self.tokens_per_block
    }
}

/// Blocks under construction.
struct Blocks {
    hasher: DefaultHasher,
    /// The incomplete block. Hashed only when full: a hasher does not promise that the boundaries between
    /// writes do not matter.
    block: Vec<u8>,
    hashes: Vec<u64>,
    /// The length of the whole prompt.
    bytes: u64,
}

impl Blocks {
    /// Starts with the model, as each model has a cache of its own.
    fn of_model(model: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(model.as_bytes());
        hasher.write_u8(SEPARATOR);
        Self {
            hasher,
            block: Vec::with_capacity(BLOCK_BYTES),
            hashes: Vec::new(),
            bytes: 0,
        }
    }

    fn part(&mut self, part: Part<'_>) {
        match part {
            Part::Message { role } => self.tagged(b'm', role.as_bytes()),
            Part::Text(text) => self.tagged(b't', text.as_bytes()),
            Part::Json(json) => self.tagged(b'j', json.as_bytes()),
            Part::TokenId(id) => self.tagged(b'n', id.as_bytes()),
            Part::Image { source, detail } => {
                self.tagged(b'i', &digest(source));
                self.write(detail.unwrap_or_default().as_bytes());
            }
            Part::Audio { data, .. } => self.tagged(b'a', &digest(data)),
        }
    }

    fn tagged(&mut self, tag: u8, bytes: &[u8]) {
        self.write(&[SEPARATOR, tag]);
        self.write(bytes);
    }

    fn write(&mut self, mut bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        while !bytes.is_empty() && self.hashes.len() < MAX_BLOCKS {
            let room = BLOCK_BYTES - self.block.len();
            let (fits, rest) = bytes.split_at(bytes.len().min(room));
            self.block.extend_from_slice(fits);
            bytes = rest;
            if self.block.len() == BLOCK_BYTES {
                self.hasher.write(&self.block);
                self.hashes.push(self.hasher.finish());
                self.block.clear();
            }
        }
    }

    fn share_of(&self, tokens: u64) -> u64 {
        let share = u128::from(tokens) * BLOCK_BYTES as u128 / u128::from(self.bytes.max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

/// Stands for data whose length has nothing to do with the tokens that it becomes.
fn digest(bytes: &str) -> [u8; 8] {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes.as_bytes());
    hasher.finish().to_le_bytes()
}
