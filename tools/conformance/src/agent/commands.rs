#![allow(unsafe_code)]
//! Execution of commands: raw calls, with outputs preset so that an untouched one shows, and
//! accesses to memory.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::Duration;
use std::{io, ptr};

use tcpx_cuda::CudaGpu;
use tcpx_sys::{
    Entries, LoadError, NcclNetV7, NetDeviceHandle, NetProperties, Plugin, log_callback,
};

use super::agent_memory::{AgentMemory, on_gpu};
use super::host_memory::{self, address, pointer};
use super::stream;
use super::thread_time::ThreadTime;
use crate::link::command::{Commands, Reply};
use crate::link::values::{
    CountReply, DeviceArgument, LoadFailure, LoadedTable, PointerReply, ProcessResources,
    Properties, Stream, StreamQueue, TestReply, UNTOUCHED, UNTOUCHED_INT,
};
use crate::message::pattern::Mismatch;
use crate::message::unpack_row::Entry;
use crate::options::PluginSource;

/// Longest string that is read from the plugin.
const MAX_STRING_BYTES: usize = 4096;
/// Length of each array that `irecv` and `iflush` get: more than any `n` that a check passes.
const ARRAY_LEN: usize = 8;

/// State of an agent: its plugin and its memory.
pub(super) struct Agent<'gpu> {
    target: PluginSource,
    table: Option<fn() -> NcclNetV7>,
    /// The plugin's functions, once it is loaded.
    entries: Option<Entries>,
    memory: AgentMemory<'gpu>,
}

/// Calls one of the plugin's functions. An agent without a plugin cannot.
macro_rules! plugin {
    ($agent:ident.$member:ident($($argument:expr),* $(,)?)) => {{
        let entries = $agent.entries.ok_or("no plugin is loaded")?;
        // SAFETY: the user who started the run vouched that the loaded file is a plugin. Every
        // output and every array is a live local of the declared type. What the function does with
        // the arguments, wild pointers included, is what this expendable process is there to find
        // out.
        unsafe { (entries.$member)($($argument),*) }
    }};
}

/// Calls a function whose last argument is an output pointer, and returns code and pointer.
macro_rules! pointer_reply {
    ($agent:ident.$member:ident($($argument:expr),* $(,)?)) => {{
        let mut out = pointer(UNTOUCHED);
        let result = plugin!($agent.$member($($argument),*, &raw mut out));
        Ok(PointerReply { rc: result.0, pointer: address(out) })
    }};
}

impl<'gpu> Agent<'gpu> {
    pub(super) const fn new(
        target: PluginSource,
        table: Option<fn() -> NcclNetV7>,
        memory: AgentMemory<'gpu>,
    ) -> Self {
        Self { target, table, entries: None, memory }
    }
}

impl Commands for Agent<'_> {
    fn load(&mut self) -> Reply<Result<LoadedTable, LoadFailure>> {
        let plugin = match (&self.target, self.table) {
            // SAFETY: the user who started the run vouches for the file; loading it happens in this
            // process only.
            (PluginSource::Path(path), _) => unsafe { Plugin::load(path, &[]) },
            (PluginSource::Table, Some(table)) => {
                // SAFETY: the program handed over its own table, whose name and functions live as
                // long as it does.
                unsafe { Plugin::from_table(Path::new("the program's own"), table(), &[]) }
            }
            (PluginSource::Table, None) => {
                let text = "the program passed no table to child_main".to_owned();
                return Ok(Err(LoadFailure { has_null_member: false, text }));
            }
        };
        Ok(match plugin {
            Ok(plugin) => {
                self.entries = Some(*plugin.entries());
                let dma_buf = plugin.table().reg_mr_dma_buf.is_some();
                Ok(LoadedTable { name: plugin.name().to_owned(), dma_buf })
            }
            Err(error) => {
                let member = matches!(error, LoadError::NullMember { .. });
                Err(LoadFailure { has_null_member: member, text: error.to_string() })
            }
        })
    }

    fn init(&mut self, logger: bool) -> Reply<i32> {
        Ok(plugin!(self.init(logger.then(log_callback))).0)
    }

    fn devices(&mut self) -> Reply<CountReply> {
        let mut count = UNTOUCHED_INT;
        let result = plugin!(self.devices(&raw mut count));
        Ok(CountReply { rc: result.0, count })
    }

    fn properties(&mut self, dev: i32) -> Reply<Properties> {
        // NULL strings, since a refusing plugin leaves them.
        let mut props = NetProperties {
            name: ptr::null(),
            pci_path: ptr::null(),
            guid: UNTOUCHED,
            ptr_support: UNTOUCHED_INT,
            speed: UNTOUCHED_INT,
            port: UNTOUCHED_INT,
            latency: f32::NAN,
            max_comms: UNTOUCHED_INT,
            max_recvs: UNTOUCHED_INT,
            net_device_type: UNTOUCHED_INT,
            net_device_version: UNTOUCHED_INT,
        };
        let result = plugin!(self.get_properties(dev, &raw mut props));
        // SAFETY: the strings are NULL or the plugin's own, which it says are terminated; this
        // process is expendable.
        let (name, pci_path) = unsafe { (text(props.name), text(props.pci_path)) };
        Ok(Properties {
            rc: result.0,
            name,
            pci_path,
            guid: props.guid,
            ptr_support: props.ptr_support,
            speed: props.speed,
            port: props.port,
            latency: props.latency,
            max_comms: props.max_comms,
            max_recvs: props.max_recvs,
            net_device_type: props.net_device_type,
            net_device_version: props.net_device_version,
        })
    }

    fn listen(&mut self, dev: i32, handle: u64) -> Reply<PointerReply> {
        pointer_reply!(self.listen(dev, pointer(handle)))
    }

    fn connect(&mut self, dev: i32, handle: u64, device: DeviceArgument) -> Reply<PointerReply> {
        let mut out = ptr::null_mut();
        let mut inner = device_handle(device);
        let device = device_argument(device, &raw mut inner);
        let result = plugin!(self.connect(dev, pointer(handle), &raw mut out, device));
        Ok(PointerReply { rc: result.0, pointer: address(out) })
    }

    fn timed_connect(
        &mut self,
        dev: i32,
        handle: u64,
        device: DeviceArgument,
    ) -> Reply<(PointerReply, Duration)> {
        let time = ThreadTime::start();
        let reply = self.connect(dev, handle, device)?;
        Ok((reply, time.elapsed()))
    }

    fn accept(&mut self, listen_comm: u64, device: DeviceArgument) -> Reply<PointerReply> {
        let mut out = ptr::null_mut();
        let mut inner = device_handle(device);
        let device = device_argument(device, &raw mut inner);
        let result = plugin!(self.accept(pointer(listen_comm), &raw mut out, device));
        Ok(PointerReply { rc: result.0, pointer: address(out) })
    }

    fn reg_mr(&mut self, comm: u64, data: u64, bytes: i32, kind: i32) -> Reply<PointerReply> {
        pointer_reply!(self.reg_mr(pointer(comm), pointer(data), bytes, kind))
    }

    fn dereg_mr(&mut self, comm: u64, mhandle: u64) -> Reply<i32> {
        Ok(plugin!(self.dereg_mr(pointer(comm), pointer(mhandle))).0)
    }

    fn isend(
        &mut self,
        comm: u64,
        data: u64,
        bytes: i32,
        tag: i32,
        mhandle: u64,
    ) -> Reply<PointerReply> {
        pointer_reply!(self.isend(pointer(comm), pointer(data), bytes, tag, pointer(mhandle)))
    }

    fn irecv(
        &mut self,
        comm: u64,
        n: i32,
        data: u64,
        bytes: i32,
        tag: Option<i32>,
        mhandle: u64,
    ) -> Reply<PointerReply> {
        let (mut datas, mut mhandles) = ([pointer(data); ARRAY_LEN], [pointer(mhandle); ARRAY_LEN]);
        let (mut sizes, mut tags) = ([bytes; ARRAY_LEN], tag.map(|tag| [tag; ARRAY_LEN]));
        let tags = tags.as_mut().map_or(ptr::null_mut(), |tags| tags.as_mut_ptr());
        let (datas, mhandles) = (datas.as_mut_ptr(), mhandles.as_mut_ptr());
        pointer_reply!(self.irecv(pointer(comm), n, datas, sizes.as_mut_ptr(), tags, mhandles))
    }

    fn iflush(&mut self, comm: u64, n: i32, request: u64) -> Reply<CountReply> {
        let (mut datas, mut mhandles) =
            ([ptr::null_mut(); ARRAY_LEN], [ptr::null_mut(); ARRAY_LEN]);
        let (mut sizes, mut existing) = ([UNTOUCHED_INT; ARRAY_LEN], pointer(request));
        let (datas, mhandles) = (datas.as_mut_ptr(), mhandles.as_mut_ptr());
        let existing = &raw mut existing;
        let result =
            plugin!(self.iflush(pointer(comm), n, datas, sizes.as_mut_ptr(), mhandles, existing));
        Ok(CountReply { rc: result.0, count: sizes[0] })
    }

    fn test(&mut self, request: u64) -> Reply<TestReply> {
        let (mut done, mut sizes) = (UNTOUCHED_INT, UNTOUCHED_INT);
        let result = plugin!(self.test(pointer(request), &raw mut done, &raw mut sizes));
        Ok(TestReply { rc: result.0, done, sizes })
    }

    fn irecv_consumed(&mut self, comm: u64, n: i32, request: u64) -> Reply<i32> {
        Ok(plugin!(self.irecv_consumed(pointer(comm), n, pointer(request))).0)
    }

    fn close_send(&mut self, comm: u64) -> Reply<i32> {
        Ok(plugin!(self.close_send(pointer(comm))).0)
    }

    fn close_recv(&mut self, comm: u64) -> Reply<i32> {
        Ok(plugin!(self.close_recv(pointer(comm))).0)
    }

    fn close_listen(&mut self, comm: u64) -> Reply<i32> {
        Ok(plugin!(self.close_listen(pointer(comm))).0)
    }

    fn get_device_mr(&mut self, comm: u64, mhandle: u64) -> Reply<PointerReply> {
        pointer_reply!(self.get_device_mr(pointer(comm), pointer(mhandle)))
    }

    fn send_stream(&mut self, stream: Stream) -> Reply<Result<(), String>> {
        Ok(stream::send(self, &stream))
    }

    fn recv_stream(
        &mut self,
        stream: Stream,
        queue: Option<StreamQueue>,
    ) -> Reply<Result<(), String>> {
        Ok(stream::receive(self, &stream, queue))
    }

    fn allocate(&mut self, bytes: u64) -> Reply<u64> {
        host_memory::allocate(bytes)
    }

    fn allocate_device(&mut self, bytes: u64) -> Reply<u64> {
        self.memory.allocate_device(bytes)
    }

    fn read_bytes(&mut self, at: u64, bytes: u32) -> Reply<Vec<u8>> {
        self.memory.read(at, bytes as usize).map_err(on_gpu)
    }

    fn word(&mut self, at: u64) -> Reply<u64> {
        self.memory.read_word(at).map_err(on_gpu)
    }

    fn write(&mut self, at: u64, bytes: Vec<u8>) -> Reply<()> {
        self.memory.write(at, &bytes).map_err(on_gpu)
    }

    fn fill(&mut self, at: u64, bytes: u64, seed: u64) -> Reply<()> {
        self.memory.fill(at, bytes as usize, seed).map_err(on_gpu)
    }

    fn verify(&mut self, at: u64, bytes: u64, seed: u64) -> Reply<Option<Mismatch>> {
        self.memory.verify(at, bytes as usize, seed).map_err(on_gpu)
    }

    fn gather(&mut self, bounce: u64, entries: Vec<Entry>, to: u64) -> Reply<()> {
        self.memory.gather(bounce, &entries, to).map_err(on_gpu)
    }

    fn mapped_bytes(&mut self, at: u64) -> Reply<Option<u64>> {
        self.memory.mapped_bytes(at).map_err(|error| format!("the memory map: {error}"))
    }

    fn resources(&mut self) -> Reply<ProcessResources> {
        let count = |folder| std::fs::read_dir(folder).map(|entries| entries.count() as u64);
        let measure = || -> io::Result<ProcessResources> {
            Ok(ProcessResources {
                descriptors: count("/proc/self/fd")?,
                threads: count("/proc/self/task")?,
            })
        };
        measure().map_err(|error| format!("the resources of the agent: {error}"))
    }

    fn descriptor(&mut self, number: i32) -> Reply<Option<(u64, u64)>> {
        let mut found = MaybeUninit::<libc::stat>::uninit();
        // SAFETY: the place is large enough; on a number that is no descriptor fstat fails.
        let result = unsafe { libc::fstat(number, found.as_mut_ptr()) };
        Ok((result == 0).then(|| {
            // SAFETY: fstat succeeded, so it wrote all of it.
            let found = unsafe { found.assume_init() };
            (found.st_dev, found.st_ino)
        }))
    }

    fn use_gpu(&mut self, ordinal: u32) -> Reply<()> {
        // The GPU stays open until the process ends, since requests may refer to its memory.
        let gpu: &CudaGpu = Box::leak(Box::new(CudaGpu::open(ordinal).map_err(on_gpu)?));
        std::mem::forget(gpu.enter().map_err(on_gpu)?);
        self.memory = AgentMemory::new(Some(gpu));
        Ok(())
    }

    fn default_sigpipe(&mut self) -> Reply<()> {
        // SAFETY: SIG_DFL runs no code of this process.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        Ok(())
    }
}

/// Returns the device handle that the last argument of `connect` and `accept` points to.
fn device_handle(device: DeviceArgument) -> *mut NetDeviceHandle {
    match device {
        DeviceArgument::Null | DeviceArgument::PointsToNull => ptr::null_mut(),
        DeviceArgument::At(at) => pointer(at),
    }
}

/// Returns the last argument of `connect` and `accept`: NULL, or the address of `inner`.
fn device_argument(
    device: DeviceArgument,
    inner: *mut *mut NetDeviceHandle,
) -> *mut *mut NetDeviceHandle {
    if device == DeviceArgument::Null { ptr::null_mut() } else { inner }
}

/// Copies a C string, up to `MAX_STRING_BYTES`; `None` for NULL.
///
/// # Safety
/// `text` is NULL or points to a NUL-terminated string.
unsafe fn text(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not NULL; the caller vouches for the end.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
    Some(String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_STRING_BYTES)]).into_owned())
}
