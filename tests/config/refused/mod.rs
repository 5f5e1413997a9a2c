//! What is refused: each rule, by the path it names and the gist of what it says.

mod classes;
mod keys;
mod memory;
mod names;
mod workers;
