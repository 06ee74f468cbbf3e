//! Data path of a measurement: the session, or plain sockets.

use super::pattern::{Content, Mismatch, Pattern};
use crate::failure::Failure;

/// The bytes of one iteration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payload {
    pub(super) pattern: Pattern,
    pub(super) bytes: u64,
}

/// Step of an end in an iteration: the sender prepares and sends, the receiver prepares, posts,
/// waits and checks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Sender: writes the payload to its source. Receiver: makes sure that no byte at the
    /// destination is right already.
    Prepare(Content),
    /// Sends the payload, until the memory may be used again.
    Send,
    /// Is ready for the payload from now on.
    Post,
    /// Waits for the last byte.
    Wait,
    /// Checks whether every byte is right.
    Check,
}

/// Path for the bytes of one iteration from client to server.
pub(super) trait DataPath {
    /// For errors.
    fn name(&self) -> &'static str;

    /// Returns the first wrong byte, if the step is to check.
    fn run(&mut self, step: Step, payload: Payload) -> Result<Option<Mismatch>, Failure>;
}
