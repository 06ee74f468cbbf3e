//! Finds the diagnoses that words or a line of a log are about.
//!
//! - `words`: a text as words, in small letters.
//! - `known_line`: a line that a row of the table quotes, with places in it where anything may
//!   stand.
//! - `entry`: a row of the table as words and lines.
//! - `ranking`: which rows a text is about, and which of them fits best.

mod entry;
mod known_line;
mod ranking;
mod words;

pub use ranking::search;
