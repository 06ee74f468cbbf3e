#![allow(unsafe_code)]
//! Owning types for the plugin's listen, send and receive comms, each with the rules that the original punishes.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

use tcpx_rx::UnpackDescriptor;
use tcpx_sys::{
    MAX_REQUESTS, MAX_UNPACK_ENTRIES, NET_DEVICE_UNPACK, NcclResult, NetDeviceHandle, NetHandle,
    UNPACK_VERSION,
};

use crate::device_memory::DeviceMemory;
use crate::error::{Error, Phase, PluginFailure, Result};
use crate::memory::UnpackQueue;
use crate::plugin::Plugin;

/// Consecutive answers of 2 from `test` that make a comm dead. The first may only mean that the peer has closed while
/// its last bytes are still buffered here.
const SYSTEM_ERRORS_IN_A_ROW: u32 = 3;

/// Whose comm it is, for errors.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) peer: Arc<str>,
    pub(crate) channel: u16,
    pub(crate) nic: Arc<str>,
    pub(crate) nic_index: c_int,
    /// What device memory is on it. The plugin reads the GPU off the thread that makes the comm.
    pub(crate) memory: DeviceMemory,
}

impl Place {
    fn check(&self, call: &'static str, code: NcclResult, phase: Phase) -> Result<()> {
        if code.is_success() {
            return Ok(());
        }
        Err(Error::Plugin(PluginFailure {
            call,
            code,
            phase,
            peer: Some(self.peer.to_string()),
            channel: Some(self.channel),
            nic: Some(self.nic.to_string()),
        }))
    }
}

/// A request of the plugin. Only good for the comm that gave it out, until that comm is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request(NonNull<c_void>);

/// What `regMr` gave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryHandle(NonNull<c_void>);

#[cfg(test)]
impl MemoryHandle {
    /// A handle that no plugin gave out.
    pub(crate) fn for_tests(number: u64) -> Self {
        Self(NonNull::new(number.max(1) as *mut c_void).expect("not zero"))
    }
}

// SAFETY: both are numbers to this library, tied to no thread; the plugin takes them back from any thread.
unsafe impl Send for Request {}
// SAFETY: as above.
unsafe impl Send for MemoryHandle {}

/// A comm's address in the plugin, with the two calls that every comm answers to.
#[derive(Debug)]
struct RawComm {
    plugin: Arc<Plugin>,
    place: Place,
    raw: NonNull<c_void>,
    system_errors: u32,
    /// Taken back right after the comm has closed: until then requests in flight may use them.
    registered: Vec<MemoryHandle>,
}

// SAFETY: the plugin allows a comm to be used from any thread as long as uses do not overlap; `RawComm` is only used
// through `&mut`, except for `regMr`, which runs under the plugin's own lock.
unsafe impl Send for RawComm {}

impl RawComm {
    fn test(&mut self, request: Request, phase: Phase) -> Result<bool> {
        let mut done: c_int = 0;
        let mut sizes: c_int = 0;
        // SAFETY: the request came from this comm, which is open; both outputs are valid ints during the call.
        let code = unsafe {
            (self.plugin.entries().test)(request.0.as_ptr(), &raw mut done, &raw mut sizes)
        };
        if code == NcclResult::SYSTEM_ERROR {
            self.system_errors += 1;
            if self.system_errors < SYSTEM_ERRORS_IN_A_ROW {
                return Ok(false);
            }
        } else {
            self.system_errors = 0;
        }
        self.place.check("test", code, phase)?;
        Ok(done != 0)
    }

    /// # Safety
    /// `data..data + bytes` stays valid memory of kind `ptr_type` until the handle was deregistered.
    unsafe fn register(&self, data: u64, bytes: u32, ptr_type: c_int) -> Result<MemoryHandle> {
        let mut mhandle = std::ptr::null_mut();
        let size = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        let _entered = self.place.memory.enter()?;
        let code = self.plugin.one_at_a_time(|entries| {
            // SAFETY: the comm is open; the caller vouches for the memory; the output is a valid pointer.
            unsafe {
                (entries.reg_mr)(
                    self.raw.as_ptr(),
                    data as *mut c_void,
                    size,
                    ptr_type,
                    &raw mut mhandle,
                )
            }
        });
        self.place.check("regMr", code, Phase::Register)?;
        NonNull::new(mhandle)
            .map(MemoryHandle)
            .ok_or_else(|| self.null_output("regMr", Phase::Register))
    }

    fn deregister(&self, mhandle: MemoryHandle) {
        let _entered = self.place.memory.try_enter();
        // SAFETY: the comm gave out the handle, and the registration table has forgotten it. The plugin takes handles back
        // by themselves: the comm may be closed by now.
        let code = self.plugin.one_at_a_time(|entries| unsafe {
            (entries.dereg_mr)(self.raw.as_ptr(), mhandle.0.as_ptr())
        });
        if let Err(error) = self.place.check("deregMr", code, Phase::Register) {
            tracing::warn!(%error, "memory stays known to the plugin");
        }
    }

    fn deregister_left(&mut self) {
        for mhandle in std::mem::take(&mut self.registered) {
            self.deregister(mhandle);
        }
    }

    fn null_output(&self, call: &'static str, phase: Phase) -> Error {
        self.place.check(call, NcclResult::INTERNAL_ERROR, phase).err().unwrap_or(Error::Closed)
    }
}

/// What send and receive comms have in common for registrations.
pub(crate) trait Registrar {
    /// Makes memory known to this comm.
    ///
    /// # Safety
    /// `data..data + bytes` stays valid memory of kind `ptr_type` until [`deregister`](Self::deregister).
    unsafe fn register(&self, data: u64, bytes: u32, ptr_type: c_int) -> Result<MemoryHandle>;

    /// Takes back what `register` of this comm gave out.
    fn deregister(&self, mhandle: MemoryHandle);
}

macro_rules! registrar {
    ($type:ty) => {
        impl Registrar for $type {
            unsafe fn register(
                &self,
                data: u64,
                bytes: u32,
                ptr_type: c_int,
            ) -> Result<MemoryHandle> {
                // SAFETY: the caller's promise is passed on.
                unsafe { self.raw.register(data, bytes, ptr_type) }
            }

            fn deregister(&self, mhandle: MemoryHandle) {
                self.raw.deregister(mhandle);
            }
        }
    };
}
registrar!(SendComm);
registrar!(RecvComm);

/// Waits for one peer.
#[derive(Debug)]
pub(crate) struct ListenComm {
    raw: RawComm,
    handle: NetHandle,
    /// Filled by the accept that returns the comm; must not move until then.
    device_handle: Box<NetDeviceHandle>,
    accepting: bool,
}

// SAFETY: as for `RawComm`; the device handle is plain data that only this listen comm and the plugin's accept touch.
unsafe impl Send for ListenComm {}

impl ListenComm {
    pub(crate) fn open(plugin: &Arc<Plugin>, place: Place) -> Result<Self> {
        let mut handle = NetHandle::zeroed();
        let mut raw = std::ptr::null_mut();
        let entered = place.memory.enter()?;
        let code = plugin.one_at_a_time(|entries| {
            // SAFETY: the handle is 128 writable bytes; the output is a valid pointer; the NIC index came from the plugin.
            unsafe { (entries.listen)(place.nic_index, handle.0.as_mut_ptr().cast(), &raw mut raw) }
        });
        drop(entered);
        place.check("listen", code, Phase::Listen)?;
        tracing::debug!(peer = %place.peer, channel = place.channel, nic = %place.nic, ?handle, "listening");
        let Some(raw) = NonNull::new(raw) else {
            return Err(place
                .check("listen", NcclResult::INTERNAL_ERROR, Phase::Listen)
                .err()
                .unwrap_or(Error::Closed));
        };
        let device_handle = Box::new(NetDeviceHandle {
            net_device_type: NET_DEVICE_UNPACK,
            net_device_version: UNPACK_VERSION,
            handle: std::ptr::null_mut(),
            size: 0,
            needs_proxy_progress: 0,
        });
        let raw = RawComm {
            plugin: Arc::clone(plugin),
            place,
            raw,
            system_errors: 0,
            registered: Vec::new(),
        };
        Ok(Self { raw, handle, device_handle, accepting: false })
    }

    /// The value to send to the peer.
    pub(crate) fn handle(&self) -> NetHandle {
        self.handle
    }

    /// Polls for the peer. After `Some` or an error the listen comm must be dropped: one more poll is fatal in the original.
    pub(crate) fn poll_accept(&mut self) -> Result<Option<RecvComm>> {
        let mut comm = std::ptr::null_mut();
        let mut device_handle: *mut NetDeviceHandle = &raw mut *self.device_handle;
        let entered = self.raw.place.memory.enter()?;
        self.accepting = true;
        let listen_comm = self.raw.raw.as_ptr();
        // SAFETY: the listen comm is open and its accept has given no final answer yet; `device_handle` points to a
        // struct that lives, unmoved, as long as this listen comm.
        let code = self.raw.plugin.one_at_a_time(|entries| unsafe {
            (entries.accept)(listen_comm, &raw mut comm, &raw mut device_handle)
        });
        drop(entered);
        self.accepting = code.is_success() && comm.is_null();
        self.raw.place.check("accept", code, Phase::Accept)?;
        let Some(raw) = NonNull::new(comm) else { return Ok(None) };
        let place = self.raw.place.clone();
        let raw = RawComm {
            plugin: Arc::clone(&self.raw.plugin),
            place,
            raw,
            system_errors: 0,
            registered: Vec::new(),
        };
        // Owned from here on, so that an unusable queue still closes the comm.
        let mut comm = RecvComm { raw, queue: UnpackQueue::default(), received: 0 };
        comm.queue = UnpackQueue::read(&self.device_handle, &self.raw.place.memory)?;
        tracing::debug!(
            peer = %comm.raw.place.peer, channel = comm.raw.place.channel, recv_comm = ?comm.raw.raw,
            "connection accepted; device handle: {}", comm.queue
        );
        Ok(Some(comm))
    }
}

impl Drop for ListenComm {
    fn drop(&mut self) {
        if self.accepting && self.raw.plugin.is_hardware() {
            // Its helper thread sits in accept(2) and would use the comm after it is freed.
            tracing::warn!(peer = %self.raw.place.peer, "a listen comm that nobody reached is left to the plugin");
            return;
        }
        let _entered = self.raw.place.memory.try_enter();
        // SAFETY: the comm is open and is not used again.
        let code = self
            .raw
            .plugin
            .one_at_a_time(|entries| unsafe { (entries.close_listen)(self.raw.raw.as_ptr()) });
        if let Err(error) = self.raw.place.check("closeListen", code, Phase::Close) {
            tracing::warn!(%error);
        }
    }
}

/// A connection attempt to the peer's listen comm.
#[derive(Debug)]
pub(crate) struct PendingConnect {
    plugin: Arc<Plugin>,
    place: Place,
    /// The plugin keeps its state inside this buffer: it must stay where it is until the final answer.
    handle: Option<Box<NetHandle>>,
}

impl PendingConnect {
    pub(crate) fn new(plugin: &Arc<Plugin>, place: Place, handle: NetHandle) -> Self {
        Self { plugin: Arc::clone(plugin), place, handle: Some(Box::new(handle)) }
    }

    /// Polls the attempt. `None` while it goes on, and for ever after its final answer.
    pub(crate) fn poll(&mut self) -> Result<Option<SendComm>> {
        let Some(handle) = &mut self.handle else { return Ok(None) };
        let mut comm = std::ptr::null_mut();
        let mut device_handle = std::ptr::null_mut();
        let nic_index = self.place.nic_index;
        let buffer: *mut c_void = handle.0.as_mut_ptr().cast();
        let _entered = self.place.memory.enter()?;
        let code = self.plugin.one_at_a_time(|entries| {
            // SAFETY: the buffer is the same 128 bytes on each poll and there was no final answer yet; both outputs are
            // valid pointers.
            unsafe { (entries.connect)(nic_index, buffer, &raw mut comm, &raw mut device_handle) }
        });
        if code.is_success() && comm.is_null() {
            return Ok(None);
        }
        self.handle = None;
        self.place.check("connect", code, Phase::Connect)?;
        let Some(raw) = NonNull::new(comm) else { return Ok(None) };
        tracing::debug!(peer = %self.place.peer, channel = self.place.channel, send_comm = ?raw, "connection established");
        let raw = RawComm {
            plugin: Arc::clone(&self.plugin),
            place: self.place.clone(),
            raw,
            system_errors: 0,
            registered: Vec::new(),
        };
        Ok(Some(SendComm { raw }))
    }
}

impl Drop for PendingConnect {
    fn drop(&mut self) {
        // The plugin's thread may still look at the buffer: 128 bytes are the price of an abandoned attempt.
        if let Some(handle) = self.handle.take() {
            Box::leak(handle);
        }
    }
}

/// The sending end of a channel.
#[derive(Debug)]
pub(crate) struct SendComm {
    raw: RawComm,
}

impl SendComm {
    /// Queues a send; `None` when the plugin wants to be asked again later.
    ///
    /// # Safety
    /// `data..data + bytes` stays readable, and inside what `mhandle` covers, until the request is done or the comm closed.
    pub(crate) unsafe fn isend(
        &mut self,
        data: u64,
        bytes: u32,
        tag: c_int,
        mhandle: MemoryHandle,
    ) -> Result<Option<Request>> {
        let mut request = std::ptr::null_mut();
        let size = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        // SAFETY: the comm is open; the caller vouches for data and handle; the output is a valid pointer.
        let code = unsafe {
            (self.raw.plugin.entries().isend)(
                self.raw.raw.as_ptr(),
                data as *mut c_void,
                size,
                tag,
                mhandle.0.as_ptr(),
                &raw mut request,
            )
        };
        self.raw.place.check("isend", code, Phase::Send)?;
        Ok(NonNull::new(request).map(Request))
    }

    /// Drives the comm; true once, when the request is done.
    pub(crate) fn test(&mut self, request: Request) -> Result<bool> {
        self.raw.test(request, Phase::Send)
    }
}

impl SendComm {
    /// Closes the comm and then takes back what it had registered.
    pub(crate) fn close(mut self, registered: Vec<MemoryHandle>) {
        self.raw.registered = registered;
    }
}

impl Drop for SendComm {
    fn drop(&mut self) {
        let entered = self.raw.place.memory.try_enter();
        // SAFETY: the comm is open and is not used again.
        let code = unsafe { (self.raw.plugin.entries().close_send)(self.raw.raw.as_ptr()) };
        if let Err(error) = self.raw.place.check("closeSend", code, Phase::Close) {
            tracing::warn!(%error);
        }
        drop(entered);
        self.raw.deregister_left();
    }
}

/// The receiving end of a channel, with its unpack queue.
#[derive(Debug)]
pub(crate) struct RecvComm {
    raw: RawComm,
    queue: UnpackQueue,
    /// Receives posted so far: the k-th, from 0, uses slot k mod 16.
    received: u64,
}

impl RecvComm {
    /// Queues a receive and says which slot of the unpack queue it uses; `None` when the plugin wants to be asked later.
    ///
    /// # Safety
    /// For host memory, `data..data + bytes` stays writable until the request is done or the comm closed. For device
    /// memory the plugin touches neither.
    pub(crate) unsafe fn irecv(
        &mut self,
        data: u64,
        bytes: u32,
        tag: c_int,
        mhandle: MemoryHandle,
    ) -> Result<Option<(Request, usize)>> {
        let mut request = std::ptr::null_mut();
        let mut data = data as *mut c_void;
        let mut size = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        let mut tag = tag;
        let mut mhandle = mhandle.0.as_ptr();
        // SAFETY: the comm is open; all arrays have the one element that n = 1 announces; the caller vouches for `data`.
        let code = unsafe {
            (self.raw.plugin.entries().irecv)(
                self.raw.raw.as_ptr(),
                1,
                &raw mut data,
                &raw mut size,
                &raw mut tag,
                &raw mut mhandle,
                &raw mut request,
            )
        };
        self.raw.place.check("irecv", code, Phase::Receive)?;
        let Some(request) = NonNull::new(request) else { return Ok(None) };
        let slot = (self.received % MAX_REQUESTS as u64) as usize;
        self.received += 1;
        Ok(Some((Request(request), slot)))
    }

    /// Drives the comm; true once, when the request has arrived.
    pub(crate) fn test(&mut self, request: Request) -> Result<bool> {
        self.raw.test(request, Phase::Receive)
    }

    /// Bytes that an arrived, unconsumed request received.
    pub(crate) fn received_bytes(&self, request: Request) -> Result<u64> {
        let mut size: c_int = -1;
        let mut raw_request = request.0.as_ptr();
        let mut data = std::ptr::null_mut();
        let mut mhandle = std::ptr::null_mut();
        // SAFETY: the comm is open; the request is one of its own that was not consumed; arrays have one element.
        let code = unsafe {
            (self.raw.plugin.entries().iflush)(
                self.raw.raw.as_ptr(),
                1,
                &raw mut data,
                &raw mut size,
                &raw mut mhandle,
                &raw mut raw_request,
            )
        };
        self.raw.place.check("iflush", code, Phase::Receive)?;
        u64::try_from(size).map_err(|_| self.raw.null_output("iflush", Phase::Receive))
    }

    /// Copies the unpack descriptors of an arrived request out of the queue.
    pub(crate) fn descriptors(&self, slot: usize, out: &mut Vec<UnpackDescriptor>) -> Result<()> {
        let count = self.queue.read_slot(slot, out);
        if count <= MAX_UNPACK_ENTRIES as u64 {
            return Ok(());
        }
        let detail =
            format!("unpack queue slot {slot} announces {count} entries, {MAX_UNPACK_ENTRIES} fit");
        tracing::error!(peer = %self.raw.place.peer, channel = self.raw.place.channel, "{detail}");
        Err(Error::Protocol { peer: self.raw.place.peer.to_string(), detail })
    }

    /// Where fragments lie.
    pub(crate) fn queue(&self) -> &UnpackQueue {
        &self.queue
    }

    /// Gives the pages of the oldest arrived request back. Its bytes must have been copied out.
    pub(crate) fn consumed(&mut self, request: Request) -> Result<()> {
        // SAFETY: the comm is open and the request is its own.
        let code = unsafe {
            (self.raw.plugin.entries().irecv_consumed)(self.raw.raw.as_ptr(), 1, request.0.as_ptr())
        };
        self.raw.place.check("irecvConsumed", code, Phase::Receive)
    }
}

impl RecvComm {
    /// Closes the comm and then takes back what it had registered.
    pub(crate) fn close(mut self, registered: Vec<MemoryHandle>) {
        self.raw.registered = registered;
    }
}

impl Drop for RecvComm {
    fn drop(&mut self) {
        let entered = self.raw.place.memory.try_enter();
        // SAFETY: the comm is open and is not used again; whoever drops it has waited for its unpacks.
        let code = unsafe { (self.raw.plugin.entries().close_recv)(self.raw.raw.as_ptr()) };
        if let Err(error) = self.raw.place.check("closeRecv", code, Phase::Close) {
            tracing::warn!(%error);
        }
        drop(entered);
        self.raw.deregister_left();
    }
}
