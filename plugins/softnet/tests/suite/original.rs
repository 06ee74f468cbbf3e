//! Each behaviour of the original that the plugin can take on, in processes of its own: that it is
//! so when asked for, and not otherwise.

#[macro_use]
mod child;

mod arrivals;
mod blocked;
mod comms;
mod crashes;
mod pool;
mod requests;
mod silence;
mod unnoticed;
