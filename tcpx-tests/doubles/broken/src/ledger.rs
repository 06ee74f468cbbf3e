//! Ledger of what this plugin must remember to break rules on purpose: comms, requests and their
//! outcomes.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use tcpx_sys::UNPACK_QUEUE_DEPTH;

/// A receive comm's device struct, by number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecvComm {
    /// Address of the `UnpackNetDeviceHandle`.
    pub(crate) device: usize,
    /// Receives posted so far.
    pub(crate) posted: u64,
    /// Receives consumed so far.
    pub(crate) consumed: u64,
}

/// A request as it was posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// Its comm.
    pub(crate) comm: usize,
    /// Slot of a receive, `None` for a send.
    pub(crate) slot: Option<usize>,
    /// Bytes that it was posted for.
    pub(crate) bytes: i32,
    /// Where a receive into host memory ends, if it is one.
    pub(crate) host_end: Option<usize>,
    /// Whether `test` said done.
    pub(crate) done: bool,
    /// Whether it was consumed behind the caller's back.
    pub(crate) consumed: bool,
}

/// Everything remembered.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// By address of the comm.
    pub(crate) comms: HashMap<usize, RecvComm>,
    /// By address of the request; the newest of those that shared it.
    pub(crate) requests: HashMap<usize, Request>,
    /// Types of the registrations, by address.
    pub(crate) types: HashMap<usize, i32>,
}

impl Ledger {
    /// Remembers a receive and gives it its slot.
    pub(crate) fn receive(
        &mut self,
        request: usize,
        comm: usize,
        bytes: i32,
        host_end: Option<usize>,
    ) -> Option<RecvComm> {
        let recv_comm = self.comms.get_mut(&comm)?;
        let slot = Some((recv_comm.posted % UNPACK_QUEUE_DEPTH as u64) as usize);
        recv_comm.posted += 1;
        self.requests
            .insert(request, Request { comm, slot, bytes, host_end, done: false, consumed: false });
        Some(*recv_comm)
    }

    /// Receives of all comms that were not consumed.
    pub(crate) fn outstanding(&self) -> u64 {
        self.comms.values().map(|comm| comm.posted - comm.consumed).sum()
    }

    /// Remembers a send.
    pub(crate) fn send(&mut self, request: usize, comm: usize, bytes: i32) {
        let request_of =
            Request { comm, slot: None, bytes, host_end: None, done: false, consumed: false };
        self.requests.insert(request, request_of);
    }
}

/// The ledger of this process.
pub(crate) fn ledger() -> MutexGuard<'static, Ledger> {
    static LEDGER: LazyLock<Mutex<Ledger>> = LazyLock::new(Mutex::default);
    LEDGER.lock().unwrap_or_else(PoisonError::into_inner)
}
