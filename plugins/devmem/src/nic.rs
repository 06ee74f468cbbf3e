//! A NIC: its settings, the users of its queues, and the steering of connections to queues.
//!
//! - `identity`: its name and number
//! - `facts`: all that decides about device memory; `choice`: the resulting choice. Pure
//! - `settings`: header split, ntuple, the table of queues. `queues`: receive queues, their users
//! - `ethtool_socket`: the older interface to a driver
//! - `flow_rule`: one rule in the kernel's format. Pure. `rules`: a NIC's table of rules
//! - `steering`: rules that end with their owner, and rules whose owner is gone
//! - `connections`: the connections of processes

mod choice;
mod connections;
mod ethtool_socket;
mod facts;
mod flow_rule;
mod identity;
mod queues;
mod rules;
mod settings;
mod steering;

pub use choice::choose_queues;
pub use ethtool_socket::EthtoolSocket;
pub use facts::NicFacts;
pub use flow_rule::FlowRule;
pub use identity::Nic;
pub use queues::{QueueUser, RxQueue};
pub use rules::InstalledRule;
pub use settings::{HeaderSplit, Rings, has_flow_steering, rings, rss_queues};
pub use steering::{SteeredFlow, delete_stale_rules, stale_rules};

pub(crate) use facts::netdev_family;
pub(crate) use queues::rx_queues;

/// Decodes any bytes as an answer about a NIC, for properties and a fuzz target.
#[cfg(any(test, fuzzing))]
pub(crate) fn read_any(payload: &[u8]) {
    queues::read_any(payload);
    settings::read_any(payload);
}
