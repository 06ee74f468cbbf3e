//! Takes the place of `faults` in a build without them: what other modules ask for, with nothing
//! behind it.

use std::io;
use std::net::TcpStream;

use crate::entry::Entry;
use crate::memory::{BounceBuffer, ReceivePages};
use crate::parse_error::ParseError;
use crate::wire::{Side, SocketRole};

/// Nothing: this build leaves faults out (feature `faults`).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct FaultScript {}

impl FaultScript {
    pub(crate) fn check(&self) -> Result<(), (String, ParseError)> {
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

    pub(crate) fn moved(&mut self, _: usize) {}
}

/// Gives messages whole pages in order.
#[derive(Debug)]
pub(crate) struct Shaper;

impl Shaper {
    pub(crate) fn new(_: &FaultScript, _: u64) -> Self {
        Self
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
