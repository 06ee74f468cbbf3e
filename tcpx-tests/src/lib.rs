//! Ends of the end-to-end tests: sessions of the test's own process ([`sessions`]), a scripted peer
//! ([`script`], run by the binary `tcpx-peer`), the handle with which a test drives one
//! ([`Agent`]), two and three of them that know each other ([`Pair`], [`Trio`]), hosts made of
//! network namespaces ([`Network`]), whose connections may reach an attacker ([`redirection`]),
//! stray connections to one of them ([`StrayConnections`]), and a control link that can be stopped
//! at any frame ([`proxy`]). What needs no session is in `tcpx-testkit`.

mod agent;
mod built;
mod conn_info;
mod delayed_link;
mod gpu;
mod network;
pub mod null;
mod pair;
pub mod proxy;
pub mod redirection;
pub mod script;
pub mod sessions;
mod stray_connections;
mod trio;

pub use agent::{Agent, PLUGIN, Refusal, Reply};
pub use conn_info::{control_addresses, secret_of, with_address};
pub use gpu::has_gpu;
pub use network::{Network, PacketFate};
pub use pair::{Pair, Side};
pub use stray_connections::StrayConnections;
pub use trio::Trio;
