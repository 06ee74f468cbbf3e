//! What a session knows of itself: counters cheap enough to be always on, and what they mean.
//!
//! - [`channel`]: what one lane of a channel counts. [`message`]: a peer's messages.
//! - [`one_sided`]: what peers do with exported memory, and notifications.
//! - [`metrics`]: reports as text for Prometheus, pure.
//! - [`report`]: a session, its peers and their sums, as programs read them.
//! - [`stages`]: where the time goes.
//! - [`watch`]: the judgements that find trouble in the counters, pure.
//! - [`alarm`]: kinds of trouble, each with its diagnosis, counted and logged once.

pub(crate) mod alarm;
pub(crate) mod channel;
pub(crate) mod message;
pub(crate) mod metrics;
pub(crate) mod one_sided;
pub(crate) mod report;
pub(crate) mod stages;
pub(crate) mod watch;
