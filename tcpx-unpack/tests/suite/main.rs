//! Tests of the backends, on every memory that they work on.

mod backends;
mod gpu_fault;
