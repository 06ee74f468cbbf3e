//! A way for the bytes of one iteration to get from client to server.

use super::pattern::{Content, Mismatch, Pattern};
use crate::failure::Failure;

/// The bytes of one iteration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payload {
    pub(super) pattern: Pattern,
    pub(super) bytes: u64,
}

pub(super) trait DataPath {
    /// For errors.
    fn name(&self) -> &'static str;

    /// Sender: puts the payload where it is sent from. Receiver: makes sure that no byte at the
    /// destination is right already.
    fn prepare(&mut self, payload: Payload, content: Content) -> Result<(), Failure>;

    /// Sender: sends it, until the memory may be used again.
    fn send(&mut self, payload: Payload) -> Result<(), Failure>;

    /// Receiver: is ready for the payload from now on.
    fn post(&mut self, payload: Payload) -> Result<(), Failure>;

    /// Receiver: waits for the last byte.
    fn wait(&mut self, payload: Payload) -> Result<(), Failure>;

    /// Receiver: whether every byte is right.
    fn check(&mut self, payload: Payload) -> Result<Option<Mismatch>, Failure>;
}
