//! Tests of the examples.

mod async_page;
mod programs;
mod readme;
