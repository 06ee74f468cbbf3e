//! What a session knows of itself: counters cheap enough to be always on, and what they mean.
//!
//! - [`channel`]: what one lane of a channel counts. Messages, requests and notifications are
//!   counted by the protocol (`tcpx_protocol::stats`).
//! - [`metrics`]: reports as text for Prometheus, pure.
//! - [`report`]: a session, its peers and their sums, as programs read them.
//! - [`stages`]: where the time goes.
//! - [`watch`]: the judgements that find trouble in the counters, pure.
//! - [`alarm`]: kinds of trouble, each with its diagnosis, counted and logged once.

pub(crate) mod alarm;
pub(crate) mod channel;
pub(crate) mod metrics;
pub(crate) mod report;
pub(crate) mod stages;
pub(crate) mod watch;
