//! Operations of the client on memory of the server, as a plan has them, and the notifications
//! behind them. Pure.

use serde::{Deserialize, Serialize};
use tcpx_core::OperationKind;

use crate::rendezvous::Message;

/// Most operations under way at a time.
pub(super) const MAX_DEPTH: u32 = 4096;

/// Operations of the client on memory of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OneSided {
    pub(super) direction: Direction,
    /// Operations under way at a time.
    pub(super) depth: u32,
    /// Ranges of one.
    pub(super) descriptors: u32,
    /// Whether ranges that follow one another lie apart in memory, at both ends.
    pub(super) is_scattered: bool,
    /// Whether each is measured by itself.
    pub(super) is_latency: bool,
    /// Whether a notification follows the bytes of each, which the server's program answers.
    pub(super) is_notified: bool,
}

/// Direction in which an operation moves its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Direction {
    /// From the client to the server.
    Write,
    /// From the server to the client.
    Read,
}

impl Direction {
    pub(super) fn kind(self) -> OperationKind {
        match self {
            Self::Write => OperationKind::Write,
            Self::Read => OperationKind::Read,
        }
    }
}

impl OneSided {
    /// Checks what does not depend on sizes. Numbers from the other end are not trusted.
    pub(super) fn check(&self) -> Result<(), String> {
        let Self { depth, .. } = *self;
        if !(1..=MAX_DEPTH).contains(&depth) {
            return Err(format!("{depth} operations at a time: must be 1 to {MAX_DEPTH}"));
        }
        if self.is_latency && depth != 1 {
            return Err(format!("--depth {depth}: with --latency it is always 1"));
        }
        if self.is_scattered && self.descriptors == 1 {
            return Err(
                "--scattered: with --op write or read only with several --descriptors".into()
            );
        }
        if self.is_notified && self.direction == Direction::Read {
            return Err("notifications behind reads: they follow writes only".into());
        }
        Ok(())
    }
}

/// Client: notification behind the bytes of the write in this slot. Server: its program has seen
/// that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Written(pub(super) u64);

impl Message for Written {
    const KIND: u16 = 17;
}
