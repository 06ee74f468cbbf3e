//! What the system says is ready, and how a thread waits for it.
//!
//! - `attention`: when a peer must be driven next.
//! - `poller`: the session's one set of descriptors. `watch`: a descriptor in it.
//! - `spin`: whether it pays to look again before a thread sleeps. Pure.

pub(crate) mod attention;
pub(crate) mod poller;
pub(crate) mod spin;
pub(crate) mod watch;
