//! What the end-to-end tests share: a scripted peer ([`script`], run by the binary `tcpx-peer`), the handle with which a
//! test drives one ([`Agent`]), data whose every byte is known ([`pattern`]), and hosts made of network namespaces
//! ([`Network`]).

mod agent;
mod network;
mod pair;
pub mod pattern;
pub mod script;

pub use agent::{Agent, Refusal, Reply};
pub use network::Network;
pub use pair::{Pair, Side};
