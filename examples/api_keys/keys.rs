//! Who has a key, and what it is worth.

use std::hint::black_box;

/// The holder of a key.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) name: &'static str,
    key: &'static str,
    /// The families that it may ask for. If it does not ask, it gets the first.
    pub(crate) families: &'static [&'static str],
    /// Whether its strict priorities are trusted.
    pub(crate) sets_tiers: bool,
}

impl Tenant {
    const fn new(name: &'static str, key: &'static str, families: &'static [&'static str]) -> Self {
        Self {
            name,
            key,
            families,
            sets_tiers: false,
        }
    }
}

const PREMIUM: &[&str] = &["premium", "regular"];
const REGULAR: &[&str] = &["regular"];

/// Real keys are random, and stored as hashes outside the source code.
static TENANTS: [Tenant; 5] = [
    Tenant {
        sets_tiers: true,
        ..Tenant::new("ops", "demo-key-of-ops", PREMIUM)
    },
    Tenant::new("acme", "demo-key-of-acme", PREMIUM),
    Tenant::new("bob", "demo-key-of-bob", REGULAR),
    Tenant::new("mallory", "demo-key-of-mallory", REGULAR),
    Tenant::new("eve", "demo-key-of-eve", REGULAR),
];

/// Compares all keys, each to its end, so that the time this takes does not tell how much of a guess was
/// right.
pub(crate) fn tenant_of(key: &str) -> Option<&'static Tenant> {
    TENANTS.iter().fold(None, |found, tenant| {
        if same(tenant.key, key) {
            Some(tenant)
        } else {
            found
        }
    })
}

fn same(known: &str, given: &str) -> bool {
    let pairs = known.bytes().zip(given.bytes());
    let differences = pairs.fold(0, |seen, (known, given)| black_box(seen | (known ^ given)));
    differences == 0 && known.len() == given.len()
}
