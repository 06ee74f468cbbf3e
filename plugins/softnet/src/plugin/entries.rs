//! Entries in safe Rust, and the comms behind the callers' ids.

pub(super) mod additions;
pub(super) mod registering;
pub(super) mod requests;

use std::ffi::{c_int, c_void};
use std::net::Ipv4Addr;

use tcpx_cuda::CudaGpu;
use tcpx_seal::secret::SharedSecret;
use tcpx_sys::UnpackNetDeviceHandle;

use super::gpu_mismatch::device_content;
use super::misuse::misuse;
use super::nic::Nic;
use super::registry::{Id, IdKind, LookupError, Registry};
use super::runtime::{Runtime, runtime};
use super::stager_slots;
use crate::comm::{RecvComm, SendComm};
use crate::connect::{AcceptPoll, ConnectAttempt, ConnectPoll, ListenComm, ListenHandle};
use crate::failure::Failure;
use crate::hooks::hooks;
use crate::last_failure::log_and_set_last_failure;
use crate::log;
use crate::memory::{BounceBuffer, gpu_of_thread, ordinal_of_thread};
use crate::nic_memory::{NicRegion, Steering};

/// A comm of any kind. Boxed, so that a slot of the registry stays small.
enum Comm {
    Listen(Box<Listener>),
    Send(Box<SendComm>),
    Recv(Box<RecvComm>),
}

/// A listen comm, its NIC, and the GPU that was current when it was made.
struct Listener {
    comm: ListenComm,
    nic: usize,
    gpu: Option<u32>,
}

impl Comm {
    /// The kind of comm that memory cannot be registered with.
    const LISTENS: u32 = 1;
    /// Tag of a send comm over the NIC whose index is added: memory that is registered with it is
    /// sent by the NIC where it is.
    const SENDS_BY_NIC: u32 = 2;
}

static COMMS: Registry<Comm, 256> = Registry::new();
static CONNECTS: Registry<ConnectAttempt, 256> = Registry::new();

pub(crate) fn listen(dev: c_int) -> Result<(ListenHandle, *mut c_void), Failure> {
    let runtime = runtime()?;
    runtime.check_refusal("listen")?;
    let settings = &runtime.settings;
    let (nic, Nic { interface, .. }) = runtime.nic(dev)?;
    let address = interface.address;
    let gpu = ordinal_of_thread("listen", settings.memory)?;
    let steering = steering(runtime, nic)?;
    let comm = ListenComm::open(
        address,
        settings.sockets,
        settings.threads,
        settings.recv_sync,
        settings.connect_timeout,
        steering,
    )
    .map_err(|error| {
        log::warn!("listen on {address}: {error}");
        Failure::System
    })?;
    let handle = comm.handle();
    let comm = Comm::Listen(Box::new(Listener { comm, nic, gpu }));
    Ok((handle, insert(Comm::LISTENS, comm)?.pointer(IdKind::Comm)))
}

/// What a listen comm has of what its NIC receives into, where payload is to come there.
fn steering(runtime: &Runtime, nic: usize) -> Result<Option<Steering>, Failure> {
    let gpu = runtime.gpu_for_nic("listen")?;
    let region = runtime.region(nic, gpu.as_ref());
    let steering = region.and_then(|region| {
        let Some(region) = region else { return Ok(None) };
        // What accept would be refused is known before any peer comes.
        gpu.as_ref().map_or(Ok(()), |gpu| region.register(gpu))?;
        Steering::new(region, runtime.settings.sockets).map(Some)
    });
    steering.map_err(|error| {
        log_and_set_last_failure("listen", error);
        Failure::System
    })
}

/// `tag`: what regMr has to know of the comm.
fn insert(tag: u32, comm: Comm) -> Result<Id, Failure> {
    COMMS.insert_tagged(tag, |_| comm).ok_or_else(|| {
        log::warn!("too many comms");
        Failure::Internal
    })
}

/// Starts an attempt and returns the state word to keep in the caller's handle. With a `secret`,
/// which the listener has too, all is encrypted.
pub(crate) fn connect_start(
    dev: c_int,
    handle: &ListenHandle,
    secret: Option<SharedSecret>,
) -> Result<u64, Failure> {
    let runtime = runtime()?;
    runtime.check_refusal("connect")?;
    let settings = &runtime.settings;
    let from: Ipv4Addr = runtime.nic(dev)?.1.interface.address;
    if handle.recv_sync != settings.recv_sync {
        log::warn!(
            "RECV_SYNC is {} here and {} at the listener",
            settings.recv_sync,
            handle.recv_sync
        );
        return Err(Failure::Internal);
    }
    let timeout = settings.connect_timeout;
    let attempt = ConnectAttempt::start(from, *handle, settings.chunk_bytes, secret, timeout);
    let attempt = attempt.map_err(|error| {
        log::warn!("connect: cannot start a thread: {error}");
        Failure::System
    })?;
    CONNECTS.insert(attempt).map(|id| id.word(IdKind::Connect)).ok_or_else(|| {
        log::warn!("too many connect attempts");
        Failure::Internal
    })
}

/// Polls an attempt: `None` while it runs, then once its comm or failure.
pub(crate) fn connect_poll(dev: c_int, state: u64) -> Result<Option<*mut c_void>, Failure> {
    let runtime = runtime()?;
    let (nic, _) = runtime.nic(dev)?;
    let attempt = Id::from_word(state, IdKind::Connect).ok_or(LookupError::Stale);
    let answer = attempt.and_then(|id| Ok((id, CONNECTS.with(id, ConnectAttempt::poll)?)));
    let (id, answer) = match answer {
        Ok((_, ConnectPoll::Pending)) => return Ok(None),
        Ok((id, ConnectPoll::Over(answer))) => (id, answer),
        Err(missing) => {
            return Err(misuse(format_args!(
                "connect polled with a handle that had its final answer, or a foreign one: \
                 {missing:?}"
            )));
        }
    };
    // The only holder of this id: the word in the caller's handle is stale from here on.
    let _ = CONNECTS.remove_if(id, |_| true);
    let sockets = answer?;
    let options = runtime.next_comm(nic);
    let memory = match sockets.stay_on_host() || sockets.are_encrypted() {
        true => Ok(None),
        false => {
            let gpu = runtime.gpu_for_nic("connect")?;
            runtime.send_memory(nic, gpu.as_ref(), sockets.chunk_bytes)
        }
    };
    let memory = memory.map_err(|error| {
        log_and_set_last_failure("connect", error);
        Failure::System
    })?;
    // A NIC needs no copies of a GPU's memory.
    let (slot, tag) = match &memory {
        None => (stager_slots::for_new(sockets.chunk_bytes, runtime.settings.memory), 0),
        // At most some hundred NICs.
        Some(_) => (None, Comm::SENDS_BY_NIC + nic as u32),
    };
    let comm = SendComm::new(sockets, &options, slot.clone(), memory).map_err(|error| {
        log::warn!("connect: cannot start: {error}");
        Failure::System
    })?;
    let id = insert(tag, Comm::Send(Box::new(comm)))?;
    if let Some(slot) = slot {
        stager_slots::insert(id, slot);
    }
    Ok(Some(id.pointer(IdKind::Comm)))
}

/// Polls a listen comm: `None` while there is no peer, then once the comm and its device struct.
pub(crate) fn accept(
    listen_comm: *mut c_void,
) -> Result<Option<(*mut c_void, *mut UnpackNetDeviceHandle)>, Failure> {
    let runtime = runtime()?;
    let accepted = with_comm("accept", listen_comm, |comm| match comm {
        Comm::Listen(listen) => Ok((listen.comm.accept()?, listen.nic, listen.gpu)),
        Comm::Send(_) | Comm::Recv(_) => wrong_kind("accept", "listen"),
    })?;
    let (sockets, nic, listened) = match accepted {
        (AcceptPoll::Pending, ..) => return Ok(None),
        (AcceptPoll::Ready(sockets), nic, gpu) => (sockets, nic, gpu),
        (AcceptPoll::Over, ..) => {
            return Err(misuse(format_args!(
                "accept called again after its final answer; a listen comm has one peer"
            )));
        }
    };
    let gpu = gpu_of_thread("accept", runtime.settings.memory)?;
    let content = device_content(listened, gpu.as_ref().map(CudaGpu::ordinal), hooks())?;
    let bounce = match &sockets.steering {
        Some(steering) => bounce_of(steering.region(), gpu.as_ref())?,
        None => runtime.bounce(gpu.as_ref())?,
    };
    let comm = RecvComm::new(sockets, &runtime.next_comm(nic), bounce, gpu.as_ref(), content)?;
    let device = comm.device();
    Ok(Some((insert(0, Comm::Recv(Box::new(comm)))?.pointer(IdKind::Comm), device)))
}

/// The memory of a NIC's region, if the consumer is on the GPU for which listen has made it. That
/// of the host is for all of them.
fn bounce_of(
    region: &'static NicRegion,
    gpu: Option<&CudaGpu>,
) -> Result<&'static BounceBuffer, Failure> {
    let name = |gpu: Option<u32>| gpu.map_or("no GPU".to_owned(), |gpu| format!("GPU {gpu}"));
    if let Some(gpu) = gpu {
        region.register(gpu).map_err(|error| {
            log_and_set_last_failure("accept", error);
            Failure::Cuda
        })?;
    }
    let accepted = gpu.map(CudaGpu::ordinal);
    if accepted != region.gpu() && !region.has_ring() {
        let (accepted, listened) = (name(accepted), name(region.gpu()));
        log::warn!("accept: {accepted} is current, and listen was called with {listened}");
        return Err(Failure::Internal);
    }
    Ok(region.bounce())
}

fn with_comm<R>(
    entry: &str,
    comm: *mut c_void,
    body: impl FnOnce(&mut Comm) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let found = COMMS.with(comm_id(entry, comm)?, body);
    found.unwrap_or_else(|missing| Err(explain(entry, missing)))
}

fn explain(entry: &str, missing: LookupError) -> Failure {
    match missing {
        LookupError::Stale => {
            misuse(format_args!("{entry}: the comm is closed, or none of this plugin's"))
        }
        LookupError::Busy => misuse(format_args!(
            "{entry}: the comm is in use by another thread; calls on a comm must take turns"
        )),
        LookupError::Broken => {
            log::warn!("{entry}: an earlier call on the comm panicked; close it");
            Failure::Internal
        }
    }
}

fn wrong_kind<R>(entry: &str, expected: &str) -> Result<R, Failure> {
    Err(misuse(format_args!("{entry}: not a {expected} comm")))
}

fn comm_id(entry: &str, comm: *mut c_void) -> Result<Id, Failure> {
    if comm.is_null() {
        return Err(misuse(format_args!("{entry}: NULL communicator")));
    }
    Id::from_pointer(comm, IdKind::Comm).ok_or_else(|| explain(entry, LookupError::Stale))
}

/// Which entry closes a comm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseEntry {
    /// `closeSend` and `closeRecv`, which are one function in the original.
    Transfer,
    /// `closeListen`.
    Listen,
}

pub(crate) fn close(comm: *mut c_void, entry: CloseEntry) -> Result<(), Failure> {
    if comm.is_null() {
        return Ok(());
    }
    let name = if entry == CloseEntry::Listen { "closeListen" } else { "closeSend/closeRecv" };
    let id = comm_id(name, comm)?;
    let wanted = |comm: &Comm| matches!(comm, Comm::Listen(_)) == (entry == CloseEntry::Listen);
    match COMMS.remove_if(id, wanted) {
        // Dropped here, outside the registry's lock: joins threads and closes sockets.
        Ok(comm) => {
            stager_slots::remove(id);
            drop(comm);
            Ok(())
        }
        Err(LookupError::Busy) => {
            wrong_kind(name, if entry == CloseEntry::Listen { "listen" } else { "send or receive" })
        }
        Err(missing) => Err(explain(name, missing)),
    }
}
