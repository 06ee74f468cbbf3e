//! What a program is told without asking every transfer: the queue of rounds that have ended, and
//! the descriptor by which it hears of that in an event loop of its own.
//!
//! - `queue`: the rounds that wait to be looked at. `transfer_completion`: one of them.
//! - `notification_queue`: what peers have sent to be looked at. `notification`: one of them.
//! - `peer_queue`: peers that have come up or ended; `peer_state`: what they are up to;
//!   `connected`: by which connections. Pure.
//! - `news`: how a thread that waits in a call hears of something.
//! - `session_event`: anything of this, as a program takes it out. `event`: the descriptor.

pub(crate) mod connected;
pub(crate) mod event;
pub(crate) mod news;
pub(crate) mod notification;
pub(crate) mod notification_queue;
pub(crate) mod peer_queue;
pub(crate) mod peer_state;
pub(crate) mod queue;
pub(crate) mod session_event;
pub(crate) mod transfer_completion;
