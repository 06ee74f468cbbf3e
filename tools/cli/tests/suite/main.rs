//! Tests of the built command, and of the tables that it shares with others.

mod bad_input;
mod broken_path;
mod conformance;
mod deadlines;
mod device_memory;
mod diagnosis;
mod isolation;
mod json;
mod logging;
mod other_end;
mod perf;
mod perf_all_to_all;
mod perf_connections;
mod perf_interrupted;
mod perf_kinds;
mod perf_one_sided;
mod script;
mod server;
mod settings;
mod shell;
mod tcpx;
mod top;
mod transfer;
mod unauthenticated;
