//! Prints the table: every figure in one run, beside what it is compared with.
//!
//! Without arguments all of it; with some of the words in `PARTS` those parts alone.

mod alloc;
mod dynamo;
mod floor;
mod gateway;
mod measure;
mod one;
mod ours;
mod parked;
mod request;
mod shares;
mod snapshot;
mod table;
mod workers;

use std::{env, process::ExitCode};

use table::{Row, Titles};

type Part = (&'static str, fn() -> Vec<Row>);

const PARTS: [Part; 10] = [
    ("request", request::rows),
    ("decide", floor::decide),
    ("cancel", floor::cancel),
    ("costs", floor::costs),
    ("classes", floor::classes),
    ("workers", workers::rows),
    ("handoff", parked::hand_off),
    ("memory", || vec![parked::memory()]),
    ("snapshot", snapshot::rows),
    ("gateway", gateway::rows),
];

/// Not rows of the table, but a table of its own.
const SHARES: &str = "shares";

fn main() -> ExitCode {
    let wanted: Vec<String> = env::args().skip(1).collect();
    let known = |word: &String| word == SHARES || PARTS.iter().any(|(name, _)| name == word);
    if let Some(unknown) = wanted.iter().find(|word| !known(word)) {
        let names: Vec<_> = PARTS.iter().map(|(name, _)| *name).collect();
        eprintln!(
            "no part `{unknown}`; there are {}, {SHARES}",
            names.join(", ")
        );
        return ExitCode::FAILURE;
    }
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| word == name);

    let mut failed = 0;
    println!("{Titles}");
    for (_, rows) in PARTS.iter().filter(|(name, _)| is_wanted(name)) {
        for row in rows() {
            println!("{row}");
            failed += usize::from(!row.is_ok());
        }
    }
    if is_wanted(SHARES) {
        failed += usize::from(!shares::print());
    }
    println!("\n{failed} rows do not hold");
    ExitCode::from(u8::from(failed > 0))
}
