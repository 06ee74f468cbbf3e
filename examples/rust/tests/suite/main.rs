//! Tests of the examples.

mod programs;
mod readme;
