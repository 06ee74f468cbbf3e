//! What a session knows of itself: numbers cheap enough to be always on, and what they mean.
//!
//! - [`channel`]: what one lane counts.
//! - [`report`]: a session, its peers and their sums, as programs read them.
//! - [`stages`]: where the time goes.
//! - [`alarm`]: kinds of trouble, each with its diagnosis, counted and logged once.
//! - [`watch`]: the judgements that find such trouble, pure.

pub(crate) mod alarm;
pub(crate) mod channel;
pub(crate) mod report;
pub(crate) mod stages;
pub(crate) mod watch;
