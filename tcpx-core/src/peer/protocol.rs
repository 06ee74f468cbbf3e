//! What two peers say to each other. Pure.

pub(crate) mod coalescer;
pub(crate) mod coalescing_limits;
pub(crate) mod keepalive;
pub(crate) mod matcher;
pub(crate) mod shutdown;
