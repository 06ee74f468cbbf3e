//! What a measurement runs over: the session, or plain sockets.

use super::pattern::{Content, Mismatch, Pattern};
use crate::failure::Failure;

/// The bytes of one iteration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payload {
    pub(super) pattern: Pattern,
    pub(super) bytes: u64,
}

/// What an end does in an iteration: the sender prepares and sends, the receiver prepares, posts,
/// waits and checks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Sender: puts the payload where it is sent from. Receiver: makes sure that no byte at the
    /// destination is right already.
    Prepare(Content),
    /// Sends the payload, until the memory may be used again.
    Send,
    /// Is ready for the payload from now on.
    Post,
    /// Waits for the last byte.
    Wait,
    /// Sees whether every byte is right.
    Check,
}

/// A way for the bytes of one iteration to get from client to server.
pub(super) trait DataPath {
    /// For errors.
    fn name(&self) -> &'static str;

    /// Returns the first wrong byte, if the step is to check.
    fn run(&mut self, step: Step, payload: Payload) -> Result<Option<Mismatch>, Failure>;
}
