//! What the end-to-end tests share: a scripted peer ([`script`], run by the binary `tcpx-peer`),
//! the handle with which a test drives one ([`Agent`]), two and three of them that know each other
//! ([`Pair`], [`Trio`]), data whose every byte is known ([`pattern`]), hosts made of network
//! namespaces ([`Network`]), a control link that can be stopped at any word ([`proxy`]), and what
//! is logged ([`CapturedLog`]).

mod agent;
mod captured_log;
mod conn_info;
mod network;
pub mod null;
mod pair;
pub mod pattern;
pub mod proxy;
pub mod script;
mod skip;
mod trio;

pub use agent::{Agent, Refusal, Reply};
pub use captured_log::CapturedLog;
pub use conn_info::{control_addresses, with_address};
pub use network::{Fate, Network};
pub use pair::{Pair, Side};
pub use skip::{has_gpu, report_skip};
pub use trio::Trio;
