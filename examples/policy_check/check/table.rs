//! Plain-text tables.

use std::fmt;

/// Rows with aligned columns: the first ones, of words, to the left; the others, of numbers, to the right.
pub(super) struct Table {
    left: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with this head, whose first `left` columns are words.
    pub(super) fn new<const N: usize>(left: usize, head: [&str; N]) -> Self {
        Self {
            left,
            rows: vec![head.map(str::to_owned).to_vec()],
        }
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                line += &if column < self.left {
                    format!("  {cell:<width$}")
                } else {
                    format!("  {cell:>width$}")
                };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Formats bytes for people to read.
pub(super) fn bytes(bytes: u128) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut amount = bytes as f64 / 1024.0;
    let mut unit = 0;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    format!("{amount:.1} {}", UNITS[unit])
}

/// A part of a whole, or a dash if there is no whole.
pub(super) fn percent(part: f64, whole: f64) -> String {
    if whole > 0.0 {
        format!("{:.1} %", part / whole * 100.0)
    } else {
        "-".to_owned()
    }
}

/// A value, or a dash.
pub(super) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}
