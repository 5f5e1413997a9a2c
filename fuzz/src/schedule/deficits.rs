//! The deficits of a schedule, which it shows only to whoever prints it.

use std::fmt::Debug;

/// The deficit of each class, in the order of the ring.
pub fn of(queue: &impl Debug, classes: usize) -> Vec<i128> {
    let printed = format!("{queue:?}");
    let deficits: Vec<i128> = printed
        .split(" deficit: ")
        .skip(1)
        .map(|rest| {
            let end = rest.find(|char: char| char != '-' && !char.is_ascii_digit());
            let number = &rest[..end.unwrap_or(rest.len())];
            number.parse().expect("a deficit is a number")
        })
        .collect();
    assert_eq!(deficits.len(), classes, "each class prints its deficit");
    deficits
}
