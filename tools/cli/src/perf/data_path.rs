//! Data path of a measurement: the session, or plain sockets.

use super::pattern::{Content, Mismatch, Pattern};
use crate::failure::Failure;

/// The bytes of one iteration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payload {
    pub(super) pattern: Pattern,
    pub(super) bytes: u64,
}

/// Step of one end in an iteration: the sender prepares and sends, the receiver prepares, posts,
/// waits and checks.
#[derive(Clone, Copy, Debug)]
pub(super) enum PathStep {
    /// Sender: writes the payload to its source. Receiver: fills the destination with other bytes.
    Prepare(Content),
    /// Sends the payload, until the memory may be used again.
    Send,
    /// Posts the receive of the payload.
    Post,
    /// Waits for the last byte.
    Wait,
    /// Checks whether every byte is right.
    Check,
}

/// Path for the bytes of one iteration from one end to the other.
pub(super) trait DataPath {
    /// Returns the name in errors.
    fn name(&self) -> &'static str;

    /// Runs one step. Returns the first wrong byte, if the step is a check.
    fn run(&mut self, step: PathStep, payload: Payload) -> Result<Option<Mismatch>, Failure>;
}
