//! The check itself, separate from the process around it so that tests can run it.

mod args;
mod ledger;
mod log;
mod outcome;
mod replay;
mod report;
mod rings;
mod table;
mod warnings;

use std::fmt::Write;

use tower_policy_queue::PolicyConfig;

use self::{args::Args, log::Entry, rings::Rings};

/// The output of a run.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// 0; or 1 if the policy or the log has mistakes, 2 if the command has.
    pub(crate) code: u8,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The largest cost that is assumed, in tokens, if neither the command, a log nor a bucket tells.
const DEFAULT_MAX_COST: u64 = 8192;

/// Runs the command with these arguments.
pub(crate) fn run(args: impl IntoIterator<Item = String>) -> Done {
    let mut done = Done::default();
    match check(args, &mut done.out) {
        Ok(()) => {}
        Err(Failure { code, message }) => {
            done.code = code;
            done.err = format!("{message}\n");
        }
    }
    done
}

struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    fn new(code: u8, message: impl ToString) -> Self {
        let message = message.to_string();
        Self { code, message }
    }
}

fn check(args: impl IntoIterator<Item = String>, out: &mut String) -> Result<(), Failure> {
    let args = Args::parse(args).map_err(|message| Failure::new(2, message))?;
    let Some(args) = args else {
        out.push_str(args::USAGE);
        return Ok(());
    };
    let config = PolicyConfig::from_path(&args.policy).map_err(|error| Failure::new(1, error))?;
    let log = args.requests.as_deref().map(log::read).transpose();
    let log = log.map_err(|message| Failure::new(1, message))?;

    let max_cost = MaxCost::choose(&config, args.max_cost, log.as_deref());
    let rings = Rings::new(&config);
    report::print(out, &config, &rings, &max_cost);
    warnings::print(out, &config, &rings, max_cost.tokens, log.as_deref());
    if let Some(log) = log {
        let ledger = replay::replay(&config, &log);
        outcome::print(out, &config, &ledger);
    }
    Ok(())
}

/// The largest cost of a request, in tokens, and how it is known.
struct MaxCost {
    tokens: u64,
    why: &'static str,
}

impl MaxCost {
    fn choose(config: &PolicyConfig, said: Option<u64>, log: Option<&[Entry]>) -> Self {
        if let Some(tokens) = said {
            let why = "set by --max-cost";
            return Self { tokens, why };
        }
        if let Some(tokens) = log.and_then(|log| log.iter().map(Entry::cost).max()) {
            let why = "the largest in the log";
            return Self { tokens, why };
        }
        let buckets = config.profiles().flat_map(|profile| profile.buckets());
        match buckets.map(|bucket| bucket.min_tokens()).max() {
            // The last bucket has no end; assume that it is as long as all before it together.
            Some(floor @ 1..) => Self {
                tokens: floor.saturating_mul(2),
                why: "twice the start of the last bucket; change it with --max-cost",
            },
            _ => Self {
                tokens: DEFAULT_MAX_COST,
                why: "a guess; change it with --max-cost",
            },
        }
    }
}

/// A heading.
fn heading(out: &mut String, text: &str) {
    line(out, format_args!("\n== {text} ==\n"));
}

fn line(out: &mut String, text: impl std::fmt::Display) {
    // Writing to a string cannot fail.
    _ = writeln!(out, "{text}");
}
