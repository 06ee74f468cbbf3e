//! Entries of requests: what sends, receives, tests and gives back.

use std::ffi::c_void;
use std::ptr;

use super::{COMMS, Comm, comm_id, explain, with_comm, wrong_kind};
use crate::comm::Destination;
use crate::failure::Failure;
use crate::log;
use crate::memory::{MemoryKind, Piece, Registration};
use crate::plugin::arguments::accepts_unchecked;
use crate::plugin::misuse::misuse;
use crate::plugin::registrations;
use crate::plugin::registry::{Id, LookupError, RequestId};
use crate::plugin::runtime::runtime;

/// Memory of a request, where it lies in the registration. `None`: a hook takes it all the same.
fn within(
    entry: &str,
    memory: Option<Piece>,
    registration: &Registration,
) -> Result<Option<Piece>, Failure> {
    let fits = memory.filter(|memory| registration.contains(*memory));
    if let Some(memory) = memory.filter(|_| fits.is_none())
        && !accepts_unchecked()
    {
        let (bytes, at) = (memory.len(), memory.address());
        log::warn!("{entry}: {bytes} bytes at {at:#x} are outside the registration");
        return Err(Failure::Internal);
    }
    Ok(fits)
}

/// `memory` is what the caller wants sent. `None`: its size is negative.
pub(crate) fn isend(
    comm: *mut c_void,
    memory: Option<Piece>,
    mhandle: *mut c_void,
) -> Result<*mut c_void, Failure> {
    let id = comm_id("isend", comm)?;
    let registration = registrations::find("isend", mhandle)?;
    let memory = within("isend", memory, &registration)?;
    let waits = runtime()?.mode.is_nccls();
    let number = with_comm("isend", comm, |comm| match comm {
        Comm::Send(send) if waits && send.is_full() => Ok(None),
        Comm::Send(send) => send.post(memory, registration).map(Some),
        Comm::Listen(_) | Comm::Recv(_) => wrong_kind("isend", "send"),
    })?;
    Ok(request_pointer(id, number))
}

/// What the caller calls the request; NULL for none: NCCL comes back with what has no room.
fn request_pointer(comm: Id, number: Option<u64>) -> *mut c_void {
    number.map_or(ptr::null_mut(), |number| RequestId::new(comm, number).pointer())
}

/// `memory` is where the caller wants the bytes; only host receives use it. `None`: its size is
/// negative.
pub(crate) fn irecv(
    comm: *mut c_void,
    memory: Option<Piece>,
    mhandle: *mut c_void,
) -> Result<*mut c_void, Failure> {
    let id = comm_id("irecv", comm)?;
    let registration = registrations::find("irecv", mhandle)?;
    // The length came from a C int.
    let posted = memory.map_or(0, |memory| memory.len() as u32);
    let destination = match registration.kind() {
        MemoryKind::Device => memory.map(|posted| Destination::Device { posted }),
        MemoryKind::Host => within("irecv", memory, &registration)?
            .map(|memory| Destination::Host { memory, _registration: registration }),
    };
    let waits = runtime()?.mode.is_nccls();
    let number = with_comm("irecv", comm, |comm| match comm {
        Comm::Recv(recv) if waits && recv.is_full() => Ok(None),
        Comm::Recv(recv) => recv.post(destination, posted).map(Some),
        Comm::Listen(_) | Comm::Send(_) => wrong_kind("irecv", "receive"),
    })?;
    Ok(request_pointer(id, number))
}

fn with_request<R>(
    entry: &str,
    request: *mut c_void,
    body: impl FnOnce(&mut Comm, u32) -> Result<R, Failure>,
) -> Result<R, Failure> {
    if request.is_null() {
        log::warn!("{entry}: NULL request");
        return Err(Failure::Internal);
    }
    let request = RequestId::from_pointer(request)
        .ok_or_else(|| misuse(format_args!("{entry}: not a request of this plugin's")))?;
    let owner = COMMS.owner(request).ok_or(LookupError::Stale);
    let found = owner.and_then(|id| COMMS.with(id, |comm| body(comm, request.number)));
    found.unwrap_or_else(|missing| Err(explain(entry, missing)))
}

/// The length of the message, once it is done. Where nothing is unpacked a receive is over then.
pub(crate) fn test(request: *mut c_void) -> Result<Option<u32>, Failure> {
    let unpacks = runtime()?.mode.unpacks();
    with_request("test", request, |comm, number| match comm {
        Comm::Send(send) => send.test(number),
        Comm::Recv(recv) => {
            let done = recv.test(number)?;
            if done.is_some() && !unpacks {
                recv.consume(number)?;
            }
            Ok(done)
        }
        Comm::Listen(_) => wrong_kind("test", "send or receive"),
    })
}

/// Bytes that came, or are coming, for a receive.
pub(crate) fn received_bytes(comm: *mut c_void, request: *mut c_void) -> Result<u32, Failure> {
    same_comm("iflush", comm, request)?;
    with_request("iflush", request, |comm, number| match comm {
        Comm::Recv(recv) => recv.received_bytes(number).ok_or_else(|| {
            log::warn!("iflush: the request is consumed, or its size is not known yet");
            Failure::Internal
        }),
        Comm::Listen(_) | Comm::Send(_) => wrong_kind("iflush", "receive"),
    })
}

pub(crate) fn consumed(comm: *mut c_void, request: *mut c_void) -> Result<(), Failure> {
    if !runtime()?.mode.unpacks() {
        // `test` has freed it.
        return Ok(());
    }
    same_comm("irecvConsumed", comm, request)?;
    with_request("irecvConsumed", request, |comm, number| match comm {
        Comm::Recv(recv) => recv.consume(number),
        Comm::Listen(_) | Comm::Send(_) => wrong_kind("irecvConsumed", "receive"),
    })
}

fn same_comm(entry: &str, comm: *mut c_void, request: *mut c_void) -> Result<(), Failure> {
    let id = comm_id(entry, comm)?;
    match RequestId::from_pointer(request) {
        Some(request) if request.belongs_to(id) => Ok(()),
        None if request.is_null() && entry == "irecvConsumed" => {
            log::warn!("{entry}: NULL request");
            Err(Failure::Internal)
        }
        _ => Err(misuse(format_args!("{entry}: NULL request, or one of another comm"))),
    }
}
