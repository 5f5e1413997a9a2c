//! What does a policy promise, and what would it have done? Without a server.
//!
//! ```text
//! cargo run --release --example policy_check -- POLICY [--requests LOG] [--max-cost TOKENS]
//! ```
//!
//! It checks the file and prints who waits where, what share each class is promised, how long it can
//! be passed over, what the queues can take of memory, and what looks unintended. With a log of
//! requests, it also replays them through the layer in simulated time and prints what came of
//! the promises. There is a policy and a log beside this file to try:
//!
//! ```text
//! cargo run --release --example policy_check -- examples/policy_check/sample.yaml \
//!     --requests examples/policy_check/sample.jsonl
//! ```
//!
//! A log has one JSON object to a line: `at_ms` and `service_ms`, and as far as they are known `policy`,
//! `model`, `client`, `raw_isl_tokens`, `cached_tokens`, `strict_priority`, `priority_jump`, `worker`
//! and `first_byte_ms`. The exit code is 1 if the policy or the log has mistakes, 2 if the command has.

mod check;

use std::{
    io::{self, Write},
    process::ExitCode,
};

fn main() -> ExitCode {
    let args = std::env::args_os().skip(1);
    let done = check::run(args.map(|arg| arg.to_string_lossy().into_owned()));
    // Whoever reads it may stop before the end, as `head` does.
    _ = write!(io::stdout(), "{}", done.out);
    _ = write!(io::stderr(), "{}", done.err);
    ExitCode::from(done.code)
}
