//! Lists of pieces between lanes of two ends, over the software plugin.

mod ends;
mod lists;
mod speed;
