//! The log of requests to replay.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
};

use serde::Deserialize;
use tower_policy_queue::QueueHints;

/// The longest time that a log may span and that a request may take: a year, in milliseconds. Timers do
/// not reach much further.
const LONGEST_MS: u64 = 365 * 24 * 60 * 60 * 1000;

/// A request, as a line of the log describes it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// When it arrived, by the clock of the log.
    pub(super) at_ms: u64,
    /// From its start until the end of the response.
    pub(super) service_ms: u64,
    /// From its start until the response's head and first byte. If absent, all comes at the end.
    first_byte_ms: Option<u64>,
    pub(super) policy: Option<String>,
    pub(super) model: Option<String>,
    client: Option<String>,
    #[serde(default)]
    raw_isl_tokens: u64,
    #[serde(default)]
    cached_tokens: u64,
    strict_priority: Option<u32>,
    priority_jump: Option<f64>,
    pub(super) worker: Option<String>,
}

impl Entry {
    pub(super) fn first_byte_ms(&self) -> u64 {
        self.first_byte_ms.unwrap_or(self.service_ms)
    }

    pub(super) fn uncached(&self) -> u64 {
        self.raw_isl_tokens.saturating_sub(self.cached_tokens)
    }

    /// What its class pays for it, in tokens.
    pub(super) fn cost(&self) -> u64 {
        self.uncached().max(1)
    }

    /// What the layer is told about it.
    pub(super) fn hints(&self) -> QueueHints {
        QueueHints {
            policy: self.policy.clone(),
            client: self.client.clone(),
            model: self.model.clone(),
            raw_isl_tokens: Some(self.raw_isl_tokens),
            cached_tokens: Some(self.cached_tokens),
            strict_priority: self.strict_priority,
            priority_jump: self.priority_jump,
            worker: self.worker.clone(),
            ..QueueHints::default()
        }
    }
}

/// The requests of a log in order of arrival; for the same time, in the order of the log.
///
/// # Errors
///
/// If the file cannot be read, or a line is not a request. The message names the file and the line.
pub(super) fn read(path: &Path) -> Result<Vec<Entry>, String> {
    let file = path.display();
    let opened = File::open(path).map_err(|error| format!("{file}: cannot be read: {error}"))?;
    let mut log = Vec::new();
    for (index, line) in BufReader::new(opened).lines().enumerate() {
        let place = format_args!("{file}:{}", index + 1);
        let line = line.map_err(|error| format!("{place}: cannot be read: {error}"))?;
        if !line.trim().is_empty() {
            log.push(parse(&line).map_err(|message| format!("{place}: {message}"))?);
        }
    }
    log.sort_by_key(|entry| entry.at_ms);
    match log.first().zip(log.last()) {
        None => Err(format!("{file}: has no requests")),
        Some((first, last)) if last.at_ms - first.at_ms > LONGEST_MS => {
            Err(format!("{file}: spans more than a year"))
        }
        Some(_) => Ok(log),
    }
}

fn parse(line: &str) -> Result<Entry, String> {
    let entry: Entry = serde_json::from_str(line).map_err(|error| {
        // The parser takes the line for the whole input, so its line number is of no use.
        let message = error.to_string();
        let message = message
            .rsplit_once(" at line ")
            .map_or(&*message, |at| at.0);
        format!("{message} (column {})", error.column())
    })?;
    if entry.service_ms > LONGEST_MS {
        return Err("`service_ms` is more than a year".to_owned());
    }
    if entry.first_byte_ms() > entry.service_ms {
        return Err("`first_byte_ms` is more than `service_ms`".to_owned());
    }
    Ok(entry)
}
