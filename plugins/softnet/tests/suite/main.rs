//! Tests of the plugin's table, as a program drives it that has loaded the plugin. A process sets
//! the plugin up once, so nearly every test has a process of its own.

#[macro_use]
mod support;

mod allocations;
mod attacked_records;
mod connection;
mod contract;
mod crossed_sockets;
mod dead_connection;
mod deadline;
mod driver_calls;
mod encryption;
mod faults;
mod fork;
mod helpers;
mod original;
mod peer_close;
mod pinning;
mod readiness;
mod recv_sync;
mod shapes;
mod soak;
mod starved_pool;
mod transfer;
mod zerocopy;
