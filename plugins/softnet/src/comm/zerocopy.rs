//! Zero-copy sends: the system reads a chunk's own memory until the peer's host has acknowledged
//! the bytes, instead of copying them first (MSG_ZEROCOPY).

use std::ffi::c_int;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::str::FromStr;
use std::sync::atomic::Ordering;
use std::{fmt, io};

use tcpx_comm::{OutstandingSends, enable_zerocopy, next_completed};

use crate::log;
use crate::memory::{IoList, IoOutcome};
use crate::parse_error::ParseError;
use crate::sync::AtomicU64;

/// Fewest bytes of a zero-copy send. The system pins each page and reports each end; its
/// documentation says that this takes longer than a copy of up to about 10 KB. The larger bound
/// also pays for the system call that reads the end.
const LEAST_BYTES: usize = 64 << 10;

/// Whether the system sends chunks without a copy, from the memory of their messages
/// (MSG_ZEROCOPY).
///
/// Such a send is done when the peer's host has acknowledged its bytes, and not as soon as the
/// system has them. So this is for NICs that are fast enough for the copy to matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ZeroCopy {
    /// The system copies them.
    #[default]
    Off,
    /// Calls of 64 KiB and more are zero-copy. A data socket copies for good once the
    /// system says that it copies nevertheless, as over loopback, or does not want to send in
    /// place.
    Auto,
    /// Every call is zero-copy, also where the system copies nevertheless. For testing.
    On,
}

impl FromStr for ZeroCopy {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text {
            "off" => Ok(Self::Off),
            "auto" => Ok(Self::Auto),
            "on" => Ok(Self::On),
            _ => Err(ParseError::new("off, auto or on")),
        }
    }
}

/// Totals of zero-copy calls, over all comms of this process. A call counts when
/// the system is done with its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ZeroCopyStats {
    /// Number of bytes that were sent without a copy.
    pub sent_bytes: u64,
    /// Number of bytes that the system copied nevertheless.
    pub copied_bytes: u64,
}

static SENT_BYTES: AtomicU64 = AtomicU64::new(0);
static COPIED_BYTES: AtomicU64 = AtomicU64::new(0);

/// Returns the totals of zero-copy sends so far. All zero unless
/// [`Settings::zerocopy`](crate::Settings) asks for it.
#[must_use]
pub fn zerocopy_stats() -> ZeroCopyStats {
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    ZeroCopyStats { sent_bytes: get(&SENT_BYTES), copied_bytes: get(&COPIED_BYTES) }
}

/// Whether the next call may be zero-copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Permission {
    Granted,
    /// When a call under way is over: the system would not take more.
    AfterAnEnd,
    Withdrawn,
}

/// Zero-copy sends of one data socket.
#[derive(Debug)]
pub(super) struct ZerocopySends {
    /// Index of the data socket in its comm.
    index: usize,
    /// Whether the socket goes on with zero-copy sends where the system copies.
    is_forced: bool,
    permission: Permission,
    sends: OutstandingSends,
}

impl ZerocopySends {
    /// Returns `None` when all calls on the socket are to copy.
    pub(super) fn new(socket: &TcpStream, index: usize, wanted: ZeroCopy) -> Option<Self> {
        if wanted == ZeroCopy::Off {
            return None;
        }
        let (is_forced, permission) = (wanted == ZeroCopy::On, Permission::Granted);
        let mut all = Self { index, is_forced, permission, sends: OutstandingSends::default() };
        if let Err(error) = enable_zerocopy(socket) {
            all.give_up(&error);
            return None;
        }
        Some(all)
    }

    /// Sends from the list, without a copy if that may be. Also returns how many calls must be
    /// complete before the bytes that have moved may change; 0: they may at once.
    pub(super) fn send(
        &mut self,
        socket: &TcpStream,
        list: &mut IoList<'_>,
        signal: c_int,
    ) -> (IoOutcome, u64) {
        let is_long = self.is_forced || list.bytes() >= LEAST_BYTES;
        if is_long && self.permission == Permission::Granted {
            match list.send_zerocopy(socket.as_fd(), signal) {
                Ok(IoOutcome::Bytes(bytes)) => {
                    return (IoOutcome::Bytes(bytes), self.sends.begin(bytes));
                }
                Ok(outcome) => return (outcome, 0),
                Err(refusal) => self.refused(&refusal),
            }
        }
        (list.send(socket.as_fd(), signal), 0)
    }

    /// Reads from the system which calls are over.
    pub(super) fn reap_completions(&mut self, socket: &TcpStream) {
        while !self.sends.is_empty()
            && let Some(ended) = next_completed(socket)
        {
            let bytes = self.sends.end(ended.from, ended.to) as u64;
            let counter = if ended.copied { &COPIED_BYTES } else { &SENT_BYTES };
            counter.fetch_add(bytes, Ordering::Relaxed);
            if self.permission == Permission::AfterAnEnd {
                self.permission = Permission::Granted;
            }
            if ended.copied && !self.is_forced {
                self.give_up(&"it copies them nevertheless");
            }
        }
    }

    /// Returns whether the first `count` calls are over.
    pub(super) fn are_complete(&self, count: u64) -> bool {
        self.sends.are_complete(count)
    }

    /// Returns whether no call is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.sends.is_empty()
    }

    /// Handles a refusal. The system's limits are for the calls under way. If none is, the system
    /// refuses zero-copy sends altogether, or others take all of its limit.
    fn refused(&mut self, refusal: &io::Error) {
        if !self.sends.is_empty() {
            self.permission = Permission::AfterAnEnd;
        } else if !self.is_forced {
            self.give_up(refusal);
        }
    }

    fn give_up(&mut self, why: &dyn fmt::Display) {
        if self.permission != Permission::Withdrawn {
            log::info!(
                "data socket {}: the system does not support zero-copy sends: {why}",
                self.index
            );
        }
        self.permission = Permission::Withdrawn;
    }
}
