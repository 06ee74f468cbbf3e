//! A notification, as a program takes it out.

/// Bytes that a peer has sent to be looked at, and who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notification {
    /// The sender's name, as it is now.
    pub peer: String,
    /// Its bytes; perhaps none, perhaps with NUL among them.
    pub bytes: Vec<u8>,
}
