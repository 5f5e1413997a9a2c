//! What does a policy promise, and what would it have done? Answers both without a server.
//!
//! ```text
//! cargo run --release --example policy_check -- POLICY [--requests LOG] [--max-cost TOKENS]
//! ```
//!
//! It checks the file and prints which requests wait where, what share each class is promised, how long a
//! class can be passed over, how much memory the queues can take, and what looks unintended. With a log of
//! requests, it also replays them through the layer in simulated time and prints what became of the
//! promises. A policy and a log to try are beside this file:
//!
//! ```text
//! cargo run --release --example policy_check -- examples/policy_check/sample.yaml \
//!     --requests examples/policy_check/sample.jsonl
//! ```
//!
//! A log has one JSON object per line, with `at_ms` and `service_ms`, and where known `policy`, `model`,
//! `client`, `raw_isl_tokens`, `cached_tokens`, `strict_priority`, `priority_jump`, `worker` and
//! `first_byte_ms`. The exit code is 1 if the policy or the log has mistakes, 2 if the command has.

mod check;

use std::{
    io::{self, Write},
    process::ExitCode,
};

fn main() -> ExitCode {
    let args = std::env::args_os().skip(1);
    let done = check::run(args.map(|arg| arg.to_string_lossy().into_owned()));
    // A write may fail: the reader may stop before the end, as `head` does.
    _ = write!(io::stdout(), "{}", done.out);
    _ = write!(io::stderr(), "{}", done.err);
    ExitCode::from(done.code)
}
