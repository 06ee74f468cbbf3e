//! A NIC: how it is set up.

mod settings;

pub use settings::{HeaderSplit, Rings, has_flow_steering, rings};
