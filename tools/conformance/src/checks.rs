//! All checks: a group has one file or a few; `list` puts them in order.

mod abi;
mod accept;
mod close;
mod comms;
mod connect;
mod consume;
mod entries;
mod fifo;
mod host;
mod lifecycle;
mod limits;
mod list;
mod peer;
mod progress;
mod queue;
mod registration;
mod requests;
mod sizes;
mod strays;

pub use list::checks;
