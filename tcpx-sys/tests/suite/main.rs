//! Tests of the plugin interface against what a C compiler makes of it.

mod abi_probe;
mod fixture;
mod load;
mod log_callback;
