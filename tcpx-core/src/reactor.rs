//! What the system says is ready, and how a thread waits for it.
//!
//! - `alarm_clock`: a descriptor that becomes readable after a while.
//! - `attention`: when a peer must be driven next.
//! - `poller`: the session's one set of descriptors. `watch`: a descriptor in it.
//! - `spin`: whether it pays to look again before a thread sleeps. Pure.

mod alarm_clock;
pub(crate) mod attention;
pub(crate) mod poller;
pub(crate) mod spin;
pub(crate) mod watch;
