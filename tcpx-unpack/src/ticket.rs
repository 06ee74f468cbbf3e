//! Ticket of a submit, and the order in which submits finish.

use std::fmt;

/// Number of a submit, which all its jobs share.
///
/// Numbers never decrease from one submit to the next. Only a submit without bytes may get the
/// number of the one before it.
///
/// Tickets finish in order, so one comparison answers whether a job is done:
/// `unpack.poll()? >= ticket`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

impl Ticket {
    /// Ticket older than every submit. [`Unpack::poll`](crate::Unpack::poll) returns it before the
    /// first submit has finished.
    pub const NONE: Self = Self(0);

    /// Returns the ticket with this number. Submits count up from [`NONE`](Self::NONE).
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number of the submit.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Returns the ticket with the number that follows.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
