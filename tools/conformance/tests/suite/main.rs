//! Tests of the checks and of their runner.

mod sections;
mod softnet;
