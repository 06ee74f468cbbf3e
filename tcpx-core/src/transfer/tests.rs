//! Lanes of two ends, and lists of pieces between them, over the software plugin.

mod ends;
mod lanes;
mod speed;
