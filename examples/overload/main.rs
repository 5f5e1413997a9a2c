//! Ten times as many requests as the backend can serve, for a minute: with nothing in front of it, with
//! tower's own layers, and with this layer.
//!
//! ```text
//! cargo run --release --example overload               # three minutes
//! cargo run --release --example overload -- --seconds 10
//! ```
//!
//! Requests arrive over real HTTP/2 at their own pace, half of them premium, and leave after 5 s. The model
//! of the backend is in `backend.rs`. The example fails if the layer lets the backend idle or run more than
//! a batch, if its queue outgrows its bound, if premium does not get the share it was promised, or if a
//! request is not answered.

mod arrivals;
mod backend;
#[path = "../load/mod.rs"]
mod load;
mod row;

use std::{process::ExitCode, time::Duration};

use tokio::process::Command;

use self::{
    arrivals::{Class, PATIENCE, Quantiles},
    backend::{BATCH, STEP, TOKENS},
    load::{BoxError, argument},
    row::{Front, MAX_QUEUE, OVERLOAD, PREMIUM, READ_AHEAD, Row, capacity},
};

/// How soon nearly all rejections (p99) should come. Not a reason to fail, as other processes may occupy the
/// machine for longer.
const PROMPTLY_MS: f64 = 50.0;
/// How soon half of them must come. If they do not, they wait behind other requests.
const NEVER_MS: f64 = 500.0;
/// An upper bound on what the layer keeps for a parked request, besides the request, in bytes.
const WAITER: usize = 512;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// True if everything held.
async fn run() -> Result<bool, BoxError> {
    let seconds: f64 = argument("--seconds")?.unwrap_or(60.0);
    let how_long = Duration::try_from_secs_f64(seconds)?;
    if let Some(front) = argument::<usize>("--row")? {
        let front = *Front::ALL.get(front).ok_or("there is no such row")?;
        let row = Row::measure(front, how_long).await?;
        println!("{}", serde_json::to_string(&row)?);
        return Ok(true);
    }

    println!(
        "A backend for {BATCH} streams of {} ms at a time, {:.0} each second. For {seconds} s, {OVERLOAD} \
         times as many requests,
half of them premium; premium prompts have {} tokens, regular ones {}. \
         They leave after {PATIENCE:?}.
",
        (STEP * TOKENS).as_millis(),
        capacity(),
        Class::Premium.prompt(),
        Class::Regular.prompt(),
    );
    let mut rows = Vec::new();
    for (index, front) in Front::ALL.into_iter().enumerate() {
        // Each in its own process, so that their memory can be told apart.
        let output = Command::new(std::env::current_exe()?)
            .args([
                "--row",
                &index.to_string(),
                "--seconds",
                &seconds.to_string(),
            ])
            .stderr(std::process::Stdio::inherit())
            .output()
            .await?;
        if !output.status.success() {
            return Err(format!("with {}: {}", front.name(), output.status).into());
        }
        let row: Row = serde_json::from_slice(&output.stdout)?;
        rows.push((front, row));
    }
    print(&rows);
    let mut held = true;
    for (front, row) in &rows {
        if *front == Front::PolicyQueue {
            for broken in broken(row) {
                eprintln!("BROKEN: {broken}");
                held = false;
            }
        }
    }
    Ok(held)
}

fn print(rows: &[(Front, Row)]) {
    print!("{:34}", "in front of it");
    for (front, _) in rows {
        print!("{:>29}", front.name());
    }
    println!();
    let line = |what: &str, cell: &dyn Fn(&Row) -> String| {
        print!("{what:34}");
        for (_, row) in rows {
            print!("{:>29}", cell(row));
        }
        println!();
    };
    let count = |part: u64, all: u64| format!("{part} ({:.0} %)", percent(part, all));
    let pair = |it: Option<Quantiles>| match it {
        Some(Quantiles { p50, p99 }) => format!("{} / {}", ms(p50), ms(p99)),
        None => "-".to_owned(),
    };
    line("requests", &|row| row.sent.to_string());
    line("  served", &|row| count(row.served, row.sent));
    line("  turned away", &|row| count(row.turned_away, row.sent));
    line("  left unserved", &|row| count(row.gave_up, row.sent));
    line("streams finished each second", &|row| {
        let share = 100.0 * row.per_second / capacity();
        format!("{:.0} ({share:.0} % of {:.0})", row.per_second, capacity())
    });
    line("streams at a time (mean/most)", &|row| {
        let mean = row.utilization / 100.0 * BATCH as f64;
        format!("{mean:.1} / {}", row.most_running)
    });
    line("premium's share of the tokens", &|row| {
        format!("{:.1} %", row.premium_share)
    });
    line("until the head, premium (p50/p99)", &|row| {
        pair(row.waits[0])
    });
    line("until the head, regular (p50/p99)", &|row| {
        pair(row.waits[1])
    });
    line("until turned away (p50/p99)", &|row| pair(row.rejections));
    line("  for an idle client (p50/p99)", &|row| {
        pair(row.lone_rejections)
    });
    line("waiting, at most", &|row| match row.most_waiting {
        0 => "-".to_owned(),
        most => format!("{most} (max_queue {MAX_QUEUE})"),
    });
    line("peak memory, clients included", &|row| {
        format!("{:.0} MiB", row.peak_resident as f64 / f64::from(1 << 20))
    });
    println!();
    let bound = MAX_QUEUE * WAITER + READ_AHEAD;
    println!(
        "By its configuration the layer keeps at most {MAX_QUEUE} x {WAITER} B + {READ_AHEAD} B = {:.2} MiB, \
         besides the requests' heads.",
        bound as f64 / f64::from(1 << 20)
    );
}

fn percent(part: u64, all: u64) -> f64 {
    100.0 * part as f64 / all.max(1) as f64
}

fn ms(milliseconds: f64) -> String {
    match milliseconds {
        short if short < 10.0 => format!("{short:.1} ms"),
        short if short < 1000.0 => format!("{short:.0} ms"),
        long => format!("{:.2} s", long / 1e3),
    }
}

/// What should have held with the layer, but did not.
fn broken(row: &Row) -> Vec<String> {
    let mut broken = Vec::new();
    let mut check = |holds: bool, what: String| {
        if !holds {
            broken.push(what);
        }
    };
    // Measured by the time that sequences took on this machine: a free place in the batch counts
    // against the layer, a sequence that is late on a slow machine does not.
    check(
        row.utilization >= 95.0,
        format!(
            "the backend was in use for {:.1} % of the time",
            row.utilization
        ),
    );
    check(
        row.most_running <= BATCH,
        format!("{} streams ran at a time", row.most_running),
    );
    check(
        row.most_waiting <= MAX_QUEUE,
        format!("{} requests waited", row.most_waiting),
    );
    check(
        (row.premium_share - PREMIUM).abs() <= 3.0,
        format!(
            "premium had {:.1} % of the tokens, not {PREMIUM} %",
            row.premium_share
        ),
    );
    let answered = row.served + row.turned_away;
    check(
        answered == row.sent && row.lost == 0,
        format!("{answered} of {} requests were answered", row.sent),
    );
    for (who, rejections) in [
        ("they", row.rejections),
        ("idle clients", row.lone_rejections),
    ] {
        let Some(Quantiles { p50, p99 }) = rejections else {
            check(false, format!("{who} were never turned away"));
            continue;
        };
        check(
            p50 <= NEVER_MS,
            format!("{who} were turned away after {} (p50)", ms(p50)),
        );
        if p99 > PROMPTLY_MS {
            eprintln!(
                "note: {who} were turned away after {} (p99), not within {PROMPTLY_MS} ms: is the machine busy?",
                ms(p99)
            );
        }
    }
    broken
}
