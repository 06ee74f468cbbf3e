//! What goes with a post of an operation.

use std::time::Duration;

/// What goes with a post of an [`Operation`](crate::Operation), beside its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostOptions<'a> {
    /// What the peer is told when all bytes are in place.
    pub notification: Option<&'a [u8]>,
    /// How long it may take; `None`: for ever.
    pub timeout: Option<Duration>,
}

impl<'a> PostOptions<'a> {
    /// The peer gets these bytes when all bytes of the operation are in place.
    #[must_use]
    pub fn notification(self, notification: &'a [u8]) -> Self {
        Self { notification: Some(notification), ..self }
    }

    /// What has not ended after so long is given up, and ends with
    /// [`Error::Expired`](crate::Error::Expired).
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }
}
