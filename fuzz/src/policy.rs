//! Any bytes as a policy: it loads and works, or each mistake is told with its place.

use std::{sync::LazyLock, time::Duration};

use cpu_time::ThreadTime;
use tower_policy_queue::{ConfigError, ConfigMistake, PolicyConfig, Rejection};

use crate::stage::{Plan, Stage};

/// Far more than policies have, far less than what may be loaded.
const MAX_INPUT: usize = 64 << 10;

/// How many times the processor time of the slowest input that is known may pass for any.
///
/// Not seconds, so that it holds on any machine, under a sanitizer too; and not the time on the wall,
/// so that other programs do not count. What is quadratic in [`MAX_INPUT`] takes longer.
const MAX_TIMES: u32 = 5;

/// What takes no longer than this need not be compared with anything.
const QUICK: Duration = Duration::from_millis(500);

/// The time that a text of mistakes takes, whose places are looked for as long as the loader does:
/// linear, and with a constant that nothing else has.
static SLOWEST: LazyLock<Duration> = LazyLock::new(|| {
    let text = format!("bypass: [{}]", "a,".repeat(MAX_INPUT / 2 - 6));
    let (parsed, _, spent) = load(&text);
    assert!(parsed.is_err());
    spent
});

/// How many bytes are parsed again for the places of mistakes, by the loader's own account.
const LOCATED: usize = 2 << 20;

/// The keys of a policy, and those of TOML.
const KEYS: [&str; 20] = [
    "default_policy_family",
    "uncached_isl_buckets",
    "policy_classes",
    "models",
    "dominions",
    "dominion",
    "endpoints",
    "endpoint",
    "local_models",
    "local_model",
    "profiles",
    "profile",
    "default_dominion",
    "headers",
    "max_queue_wait_ms",
    "read_ahead_bytes",
    "read_ahead_total_bytes",
    "statuses",
    "bypass",
    "class_header",
];

pub fn run(data: &[u8]) {
    if data.len() > MAX_INPUT {
        return;
    }
    let text = String::from_utf8_lossy(data);
    let (parsed, told, spent) = load(&text);
    assert!(
        spent <= QUICK || spent <= *SLOWEST * MAX_TIMES,
        "{} bytes took {spent:?}, and the slowest {:?}",
        text.len(),
        *SLOWEST
    );
    match (parsed, told) {
        (Err(error), Some(told)) => check_error(&text, &error, &told),
        (Ok(config), _) => check_layer(config),
        (Err(_), None) => unreachable!("an error was displayed"),
    }
}

/// A text as a policy, the text of what is wrong with it, and the processor time that both took.
fn load(text: &str) -> (Result<PolicyConfig, ConfigError>, Option<String>, Duration) {
    let start = ThreadTime::now();
    let parsed = text.parse::<PolicyConfig>();
    let told = parsed.as_ref().err().map(ToString::to_string);
    (parsed, told, start.elapsed())
}

fn check_error(text: &str, error: &ConfigError, told: &str) {
    assert!(!error.mistakes().is_empty(), "an error without a mistake");
    assert_eq!(error.file(), None);
    let each: Vec<String> = error.mistakes().iter().map(ToString::to_string).collect();
    assert_eq!(told, each.join("\n"), "all are told");
    let extent = Extent {
        // A carriage return ends a line too, and so do three rarer characters.
        lines: text
            .matches(|char| "\n\r\u{85}\u{2028}\u{2029}".contains(char))
            .count()
            + 1,
        chars: text.chars().count(),
    };
    // Each may have two places, its own and that of what it clashes with.
    let located = LOCATED / text.len().max(1) / 2;
    for (index, mistake) in error.mistakes().iter().enumerate() {
        check_mistake(text, &extent, mistake, index < located);
    }
}

struct Extent {
    lines: usize,
    chars: usize,
}

fn check_mistake(text: &str, extent: &Extent, mistake: &ConfigMistake, located: bool) {
    let told = mistake.to_string();
    assert!(!mistake.message().is_empty(), "no message: {told:?}");
    assert!(told.starts_with(mistake.path()), "its path first: {told}");
    let root = mistake.path().split(['.', '[']).next().unwrap_or_default();
    // What is wrong with the YAML itself may be below any key, which may be written with escapes there
    // and in quotes here.
    let known =
        KEYS.contains(&root) || root.starts_with('"') || text.contains(root) || text.contains('\\');
    assert!(known, "no path of this policy: {told}");

    match (mistake.line(), mistake.column()) {
        (Some(line), Some(column)) => {
            assert!(
                told.contains(&format!("(line {line}, column {column})")),
                "its place is told: {told}"
            );
            assert!(
                (1..=extent.lines + 1).contains(&line),
                "no such line: {told}"
            );
            assert!(
                (1..=extent.chars + 1).contains(&column),
                "no such column: {told}"
            );
        }
        (None, None) => {
            let whole = mistake.path().is_empty() && mistake.message().contains("aliases");
            assert!(!located || whole, "its place could be known: {told}");
        }
        place => panic!("half a place, {place:?}: {told}"),
    }
}

/// A policy that loads makes a layer whose first request starts at once.
fn check_layer(config: PolicyConfig) {
    let mut stage = Stage::new(config);
    let request = http::Request::new(Default::default());
    stage.send(request, Plan::default());
    let [answer] = &stage.answers()[..] else {
        panic!("the first request waits");
    };
    assert_eq!(answer.rejection, None::<Rejection>);
    assert_eq!(answer.status, 200);
    stage.clear();
}
