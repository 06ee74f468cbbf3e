//! Takes the place of `faults` in a build without them: what other modules ask for, with nothing
//! behind it.

use std::ffi::c_int;
use std::fmt;
use std::io;
use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use tcpx_comm::wire::{Side, SocketRole};

use crate::entry::Entry;
use crate::memory::{BounceBuffer, PageRange, Piece, ReceivePages};
use crate::parse_error::ParseError;
use crate::quirk::Quirk;

/// Nothing: this build leaves faults out (feature `faults`).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct FaultScript {}

impl FaultScript {
    pub(crate) fn has(&self, _: Quirk) -> bool {
        false
    }

    pub(crate) fn connect_pause(&self, _: u16) -> Duration {
        Duration::ZERO
    }

    pub(crate) fn accept_manner(&self, _: u16) -> AcceptManner {
        AcceptManner
    }

    pub(crate) fn check(&self) -> Result<(), (String, ParseError)> {
        Ok(())
    }
}

/// It gives a comm at once.
#[derive(Clone, Debug)]
pub(crate) struct AcceptManner;

impl AcceptManner {
    pub(crate) fn pause(&self) -> Duration {
        Duration::ZERO
    }

    pub(crate) fn hears(&self) -> usize {
        usize::MAX
    }

    pub(crate) fn gives_up_after(&self, _: u64) -> bool {
        false
    }

    pub(crate) fn install_rule(&self, _: &TcpStream, _: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }
}

/// There is none.
#[derive(Debug)]
pub(crate) enum ScriptedCall {}

impl ScriptedCall {
    pub(crate) fn play(self) -> Option<i32> {
        match self {}
    }
}

#[derive(Debug)]
pub(crate) struct CallCounter;

impl CallCounter {
    pub(crate) const fn new() -> Self {
        Self
    }

    pub(crate) fn count(&self, _: Entry, _: &FaultScript) -> Option<ScriptedCall> {
        None
    }
}

#[derive(Debug)]
pub(crate) struct CommFaults;

impl CommFaults {
    pub(crate) fn new(_: &FaultScript, _: Side) -> Self {
        Self
    }

    pub(crate) fn step<'a>(&mut self, _: impl Iterator<Item = &'a TcpStream>) {}

    pub(crate) fn counts_calls(&self) -> bool {
        false
    }

    pub(crate) fn loses(&self, _: u64) -> bool {
        false
    }

    pub(crate) fn leaks(&self, _: u64) -> bool {
        false
    }
}

#[derive(Debug)]
pub(crate) struct SocketFaults;

impl SocketFaults {
    pub(crate) fn new(_: &FaultScript, _: u64, _: Side, _: SocketRole) -> Self {
        Self
    }

    pub(crate) fn limit(&mut self, _: &TcpStream) -> io::Result<Option<usize>> {
        Ok(Some(usize::MAX))
    }

    pub(crate) fn signal(&self) -> c_int {
        libc::MSG_NOSIGNAL
    }

    pub(crate) fn is_silent(&self) -> bool {
        false
    }

    pub(crate) fn place(
        &mut self,
        _: &TcpStream,
        _: usize,
        pages: &mut ArrivalPages,
        _: &mut Vec<Piece>,
    ) -> io::Result<()> {
        match *pages {}
    }

    pub(crate) fn moved(&mut self, _: usize) {}
}

/// There are none.
#[derive(Debug)]
pub(crate) enum ArrivalPages {}

impl ArrivalPages {
    pub(crate) fn unplaced(&self) -> usize {
        match *self {}
    }

    pub(crate) fn hand_over(self, _: &mut Vec<PageRange>) {
        match self {}
    }
}

#[derive(Debug)]
pub(crate) struct LostPages;

impl LostPages {
    pub(crate) fn new(_: &FaultScript) -> Self {
        Self
    }

    pub(crate) fn arrived(&mut self, _: &BounceBuffer, _: u64, _: usize, _: &[Piece]) {}

    pub(crate) fn consumed(&mut self, _: &BounceBuffer, _: u64) {}

    pub(crate) fn forget(&mut self, _: &mut Vec<PageRange>) {}

    pub(crate) fn close(&mut self, _: &BounceBuffer) {}
}

#[derive(Debug)]
pub(crate) struct Pace;

impl Pace {
    pub(crate) fn new(_: &FaultScript) -> Self {
        Self
    }

    pub(crate) fn is_slow(&self) -> bool {
        false
    }

    pub(crate) fn begin_call(&mut self, _: u64) {}

    pub(crate) fn admits(&self, _: u64) -> bool {
        true
    }

    pub(crate) fn queued(&mut self) {}

    pub(crate) fn reports(&self, _: u64) -> bool {
        true
    }
}

pub(crate) fn failstop(_: usize) {}

pub(crate) fn crash(_: fmt::Arguments<'_>) {}

pub(crate) fn close_descriptor_zero() {}

/// Gives messages whole pages in order.
#[derive(Debug)]
pub(crate) struct Shaper;

impl Shaper {
    pub(crate) fn new(_: &FaultScript, _: u64) -> Self {
        Self
    }

    pub(crate) fn pages_on_arrival(&self, _: &BounceBuffer, _: usize) -> Option<ArrivalPages> {
        None
    }

    pub(crate) fn allocate_pages(
        &mut self,
        bounce: &BounceBuffer,
        _: u64,
        total: u32,
        chunk_bytes: u32,
        pages: &mut ReceivePages,
    ) -> bool {
        pages.take_pages(bounce, total, chunk_bytes)
    }

    pub(crate) fn close(&mut self, _: &BounceBuffer) {}
}
