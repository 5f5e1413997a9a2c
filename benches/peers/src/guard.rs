//! Fails if the hot paths cost more than they may, in allocations and instructions: both repeat on
//! any machine, whatever else it does.
//!
//! Without arguments it measures all of them. `run PATH TIMES` goes one of them TIMES times, for a
//! profiler.

// The table uses more of it.
#![allow(dead_code)]

mod alloc;
mod handoff;
mod measure;
mod one;
mod ours;

use std::{
    env,
    process::{Command, ExitCode},
};

use measure::Random;
use ours::{Ours, Shape};

/// A hot path, and what it may cost each time: about half as much again as it did when that was
/// written, since compilers and C libraries differ.
struct Path {
    name: &'static str,
    allocations: f64,
    instructions: f64,
    /// Prepares it; what it returns goes it once.
    prepare: fn() -> Box<dyn FnMut()>,
}

const PATHS: [Path; 5] = [
    Path {
        name: "request",
        allocations: 7.5,
        instructions: 7200.0,
        prepare: || {
            let mut service = one::ours();
            Box::new(move || one::request(&mut service))
        },
    },
    Path {
        name: "decide-fcfs",
        allocations: 0.1,
        instructions: 1350.0,
        prepare: || decide(false),
    },
    Path {
        name: "decide-wspt",
        allocations: 0.1,
        instructions: 2150.0,
        prepare: || decide(true),
    },
    Path {
        name: "hand-off",
        allocations: 1.5,
        instructions: 5500.0,
        prepare: || {
            let mut queue = handoff::Ours::new(10_000);
            Box::new(move || queue.hand_on())
        },
    },
    Path {
        name: "cancel",
        allocations: 0.1,
        instructions: 1200.0,
        prepare: || {
            let mut queue = Ours::new(Shape::new(16, true), 10_000);
            let mut random = Random(2);
            Box::new(move || {
                let place = queue.pick(&mut random);
                queue.remove(place);
                queue.refill();
            })
        },
    },
];

fn decide(wspt: bool) -> Box<dyn FnMut()> {
    let mut queue = Ours::new(Shape::new(16, wspt), 10_000);
    Box::new(move || queue.decide())
}

/// Instructions of the whole program that goes a path so often, as valgrind counts them.
fn instructions(path: &Path, times: u64) -> Option<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(env::current_exe().ok()?)
        .args(["run", path.name, &times.to_string()])
        .output()
        .ok()?;
    let report = String::from_utf8_lossy(&output.stderr);
    let collected = report
        .lines()
        .find_map(|line| line.split_once("Collected : "));
    collected?.1.trim().parse().ok()
}

fn measure_all() -> ExitCode {
    println!("path          allocations   at most   instructions   at most");
    let mut held = true;
    for path in &PATHS {
        let mut once = (path.prepare)();
        const TIMES: u64 = 10_000;
        // What grows with the first ones is there for all later ones.
        (0..TIMES).for_each(|_| once());
        let ((), calls, _) = alloc::counted(|| (0..TIMES).for_each(|_| once()));
        let allocations = calls as f64 / TIMES as f64;
        held &= allocations <= path.allocations;

        // The difference is that of the path alone, without its preparation.
        let (few, many) = (instructions(path, TIMES), instructions(path, 2 * TIMES));
        let instructions = few.zip(many).map(|(few, many)| (many - few) / TIMES as f64);
        held &= instructions.is_none_or(|counted| counted <= path.instructions);
        let instructions = instructions.map_or("no valgrind".to_owned(), |it| format!("{it:.0}"));
        println!(
            "{:12} {allocations:12.2} {:9.2} {instructions:>14} {:9.0}",
            path.name, path.allocations, path.instructions
        );
    }
    if held {
        ExitCode::SUCCESS
    } else {
        println!("a path costs more than it may");
        ExitCode::FAILURE
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match &*arguments {
        [] => measure_all(),
        [run, name, times] if run == "run" => {
            let path = PATHS.iter().find(|path| path.name == name);
            let (Some(path), Ok(times)) = (path, times.parse::<u64>()) else {
                eprintln!("no such path, or not a number");
                return ExitCode::FAILURE;
            };
            let mut once = (path.prepare)();
            (0..times).for_each(|_| once());
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("usage: guard [run PATH TIMES]");
            ExitCode::FAILURE
        }
    }
}
