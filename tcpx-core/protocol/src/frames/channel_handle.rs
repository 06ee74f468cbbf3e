//! Handles of channels, as they travel.

/// Bytes of a handle.
pub const HANDLE_BYTES: usize = 128;

/// What a plugin needs to connect a channel: bytes that its own kind made at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelHandle(pub [u8; HANDLE_BYTES]);
