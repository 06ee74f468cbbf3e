//! How peers meet this session, and how they leave it. Every peer is made here, by a connect or by
//! a hello that has come in; gets its name here; and is taken out here. What it does in between is
//! for the rest of the engine.
//!
//! The room changes the [`Engine`](super::Engine), four files one above the other. Each calls those
//! below it, and none above:
//!
//! - `attempting`: connects, accepts and goodbyes that no call waits for, and peers that operations
//!   and notifications go to, connected if need be. `attempts`: until when each may go on, and how
//!   it ended. Pure.
//! - `connecting`: connects of this session, and peers that come in from where they lead; which of
//!   two dials stays that cross.
//! - `accepting`: peers that come in, for this session or for another one of its group.
//!   `accept_queue`: accepts and peers that wait for each other. Pure.
//! - `departing`: peers that are left, that end, and that are forgotten; what a program hears of
//!   peers without asking; how a session ends.
//!
//! Beside them, what makes several sessions one to their peers:
//!
//! - `membership`: a session's place in its group. `group_names`: what other groups are called.
//!   Pure.

pub(crate) mod accept_queue;
pub(crate) mod accepting;
mod attempting;
pub(super) mod attempts;
mod connecting;
mod departing;
pub(crate) mod group_names;
pub(crate) mod membership;
