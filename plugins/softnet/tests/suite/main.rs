//! Tests of the plugin's table, as a program drives it that has loaded the plugin. A process sets
//! the plugin up once, so nearly every test has a process of its own.

#[macro_use]
#[cfg_attr(not(feature = "faults"), allow(dead_code, reason = "tests of faults use all of it"))]
mod support;

mod allocations;
mod connection;
mod contract;
mod dead_connection;
mod deadline;
mod driver_calls;
#[cfg(feature = "faults")]
mod faults;
mod fork;
#[cfg(feature = "faults")]
mod helpers;
#[cfg(feature = "faults")]
mod original;
mod peer_close;
mod pinning;
mod readiness;
mod recv_sync;
#[cfg(feature = "faults")]
mod shapes;
#[cfg(feature = "faults")]
mod soak;
mod starved_pool;
mod transfer;
mod zerocopy;
