//! The calls of the plugin that may block.

use crate::error::Phase;

/// An entry of the table that may ask another process, join threads, or wait for the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockingCall {
    Listen,
    Connect,
    Accept,
    Register,
    Deregister,
    CloseSend,
    CloseReceive,
    CloseListen,
}

impl BlockingCall {
    /// The entry's name in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Listen => "listen",
            Self::Connect => "connect",
            Self::Accept => "accept",
            Self::Register => "regMr",
            Self::Deregister => "deregMr",
            Self::CloseSend => "closeSend",
            Self::CloseReceive => "closeRecv",
            Self::CloseListen => "closeListen",
        }
    }

    /// Where in the session's life it is made.
    pub(crate) fn phase(self) -> Phase {
        match self {
            Self::Listen => Phase::Listen,
            Self::Connect => Phase::Connect,
            Self::Accept => Phase::Accept,
            Self::Register | Self::Deregister => Phase::Register,
            Self::CloseSend | Self::CloseReceive | Self::CloseListen => Phase::Close,
        }
    }

    /// Whether the original asks RxDM in it, on the thread that calls, without a limit of time: for
    /// the bounce buffer, or to have steering rules removed.
    pub(crate) fn asks_rxdm(self) -> bool {
        matches!(self, Self::Accept | Self::CloseReceive)
    }

    /// Whether it touches unlocked globals of the original plugin, so that it must not run twice at
    /// once in a process.
    pub(super) fn takes_turns(self) -> bool {
        !matches!(self, Self::CloseSend | Self::CloseReceive)
    }
}
