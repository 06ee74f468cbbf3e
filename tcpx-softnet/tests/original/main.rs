//! Each behaviour of the original that the plugin can take on, in processes of its own: that it is
//! so when asked for, and not otherwise.

#[path = "../support/mod.rs"]
mod support;

mod arrivals;
mod blocked;
mod child;
mod comms;
mod crashes;
mod pool;
mod requests;
mod silence;
