//! What the end-to-end tests share: a scripted peer ([`script`], run by the binary `tcpx-peer`), the handle with which a
//! test drives one ([`Agent`]), data whose every byte is known ([`pattern`]), and hosts made of network namespaces
//! ([`Network`]).

mod agent;
mod conn_info;
mod network;
pub mod null;
mod pair;
pub mod pattern;
pub mod script;
mod skip;

pub use agent::{Agent, Refusal, Reply};
pub use conn_info::control_addresses;
pub use network::Network;
pub use pair::{Pair, Side};
pub use skip::report_skip;
