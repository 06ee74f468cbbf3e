#![allow(unsafe_code)]
//! Every command, carried out: the raw calls, with outputs preset so that an untouched one shows,
//! and the accesses to memory.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::Duration;
use std::{io, ptr};

use tcpx_cuda::CudaGpu;
use tcpx_sys::{
    Entries, LoadError, NcclNetV7, NetDeviceHandle, NetProperties, Plugin, log_callback,
};

use super::device_memory::{Memory, on_gpu};
use super::host_memory::{self, address, pointer};
use super::own_time::OwnTime;
use super::stream;
use crate::link::command::{Answer, Commands};
use crate::link::values::{
    Census, Counted, DeviceArgument, LoadFailure, Loaded, Made, Properties, Stream, StreamQueue,
    Tested, UNTOUCHED, UNTOUCHED_INT,
};
use crate::message::pattern::Mismatch;
use crate::message::unpack_row::Entry;
use crate::options::Target;

/// Longest string that is read from the plugin.
const MAX_STRING_BYTES: usize = 4096;
/// Members of each array that `irecv` and `iflush` are given: more than any `n` that a check
/// passes.
const ARRAY: usize = 8;

/// What an agent works with.
pub(super) struct Agent<'gpu> {
    target: Target,
    table: Option<fn() -> NcclNetV7>,
    /// The plugin's functions, once it is loaded.
    entries: Option<Entries>,
    memory: Memory<'gpu>,
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

/// The same, of a function whose last argument is a pointer that it makes.
macro_rules! made {
    ($agent:ident.$member:ident($($argument:expr),* $(,)?)) => {{
        let mut out = pointer(UNTOUCHED);
        let result = plugin!($agent.$member($($argument),*, &raw mut out));
        Ok(Made { rc: result.0, pointer: address(out) })
    }};
}

impl<'gpu> Agent<'gpu> {
    pub(super) const fn new(
        target: Target,
        table: Option<fn() -> NcclNetV7>,
        memory: Memory<'gpu>,
    ) -> Self {
        Self { target, table, entries: None, memory }
    }
}

impl Commands for Agent<'_> {
    fn load(&mut self) -> Answer<Result<Loaded, LoadFailure>> {
        let plugin = match (&self.target, self.table) {
            // SAFETY: the user who started the run vouches for the file; loading it happens in this
            // process only.
            (Target::Path(path), _) => unsafe { Plugin::load(path, &[]) },
            (Target::Table, Some(table)) => {
                // SAFETY: the program handed over its own table, whose name and functions live as
                // long as it does.
                unsafe { Plugin::from_table(Path::new("the program's own"), table(), &[]) }
            }
            (Target::Table, None) => {
                let text = "the program has no table of its own".to_owned();
                return Ok(Err(LoadFailure { member: false, text }));
            }
        };
        Ok(match plugin {
            Ok(plugin) => {
                self.entries = Some(*plugin.entries());
                let dma_buf = plugin.table().reg_mr_dma_buf.is_some();
                Ok(Loaded { name: plugin.name().to_owned(), dma_buf })
            }
            Err(error) => {
                let member = matches!(error, LoadError::NullMember { .. });
                Err(LoadFailure { member, text: error.to_string() })
            }
        })
    }

    fn init(&mut self, logger: bool) -> Answer<i32> {
        Ok(plugin!(self.init(logger.then(log_callback))).0)
    }

    fn devices(&mut self) -> Answer<Counted> {
        let mut count = UNTOUCHED_INT;
        let result = plugin!(self.devices(&raw mut count));
        Ok(Counted { rc: result.0, count })
    }

    fn properties(&mut self, dev: i32) -> Answer<Properties> {
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

    fn listen(&mut self, dev: i32, handle: u64) -> Answer<Made> {
        made!(self.listen(dev, pointer(handle)))
    }

    fn connect(&mut self, dev: i32, handle: u64, device: DeviceArgument) -> Answer<Made> {
        let mut out = ptr::null_mut();
        let mut inner = device_handle(device);
        let device = outer(device, &raw mut inner);
        let result = plugin!(self.connect(dev, pointer(handle), &raw mut out, device));
        Ok(Made { rc: result.0, pointer: address(out) })
    }

    fn timed_connect(
        &mut self,
        dev: i32,
        handle: u64,
        device: DeviceArgument,
    ) -> Answer<(Made, Duration)> {
        let time = OwnTime::start();
        let made = self.connect(dev, handle, device)?;
        Ok((made, time.elapsed()))
    }

    fn accept(&mut self, listen_comm: u64, device: DeviceArgument) -> Answer<Made> {
        let mut out = ptr::null_mut();
        let mut inner = device_handle(device);
        let device = outer(device, &raw mut inner);
        let result = plugin!(self.accept(pointer(listen_comm), &raw mut out, device));
        Ok(Made { rc: result.0, pointer: address(out) })
    }

    fn reg_mr(&mut self, comm: u64, data: u64, bytes: i32, kind: i32) -> Answer<Made> {
        made!(self.reg_mr(pointer(comm), pointer(data), bytes, kind))
    }

    fn dereg_mr(&mut self, comm: u64, mhandle: u64) -> Answer<i32> {
        Ok(plugin!(self.dereg_mr(pointer(comm), pointer(mhandle))).0)
    }

    fn isend(&mut self, comm: u64, data: u64, bytes: i32, tag: i32, mhandle: u64) -> Answer<Made> {
        made!(self.isend(pointer(comm), pointer(data), bytes, tag, pointer(mhandle)))
    }

    fn irecv(
        &mut self,
        comm: u64,
        n: i32,
        data: u64,
        bytes: i32,
        tag: Option<i32>,
        mhandle: u64,
    ) -> Answer<Made> {
        let (mut datas, mut mhandles) = ([pointer(data); ARRAY], [pointer(mhandle); ARRAY]);
        let (mut sizes, mut tags) = ([bytes; ARRAY], tag.map(|tag| [tag; ARRAY]));
        let tags = tags.as_mut().map_or(ptr::null_mut(), |tags| tags.as_mut_ptr());
        let (datas, mhandles) = (datas.as_mut_ptr(), mhandles.as_mut_ptr());
        made!(self.irecv(pointer(comm), n, datas, sizes.as_mut_ptr(), tags, mhandles))
    }

    fn iflush(&mut self, comm: u64, n: i32, request: u64) -> Answer<Counted> {
        let (mut datas, mut mhandles) = ([ptr::null_mut(); ARRAY], [ptr::null_mut(); ARRAY]);
        let (mut sizes, mut existing) = ([UNTOUCHED_INT; ARRAY], pointer(request));
        let (datas, mhandles) = (datas.as_mut_ptr(), mhandles.as_mut_ptr());
        let existing = &raw mut existing;
        let result =
            plugin!(self.iflush(pointer(comm), n, datas, sizes.as_mut_ptr(), mhandles, existing));
        Ok(Counted { rc: result.0, count: sizes[0] })
    }

    fn test(&mut self, request: u64) -> Answer<Tested> {
        let (mut done, mut sizes) = (UNTOUCHED_INT, UNTOUCHED_INT);
        let result = plugin!(self.test(pointer(request), &raw mut done, &raw mut sizes));
        Ok(Tested { rc: result.0, done, sizes })
    }

    fn irecv_consumed(&mut self, comm: u64, n: i32, request: u64) -> Answer<i32> {
        Ok(plugin!(self.irecv_consumed(pointer(comm), n, pointer(request))).0)
    }

    fn close_send(&mut self, comm: u64) -> Answer<i32> {
        Ok(plugin!(self.close_send(pointer(comm))).0)
    }

    fn close_recv(&mut self, comm: u64) -> Answer<i32> {
        Ok(plugin!(self.close_recv(pointer(comm))).0)
    }

    fn close_listen(&mut self, comm: u64) -> Answer<i32> {
        Ok(plugin!(self.close_listen(pointer(comm))).0)
    }

    fn get_device_mr(&mut self, comm: u64, mhandle: u64) -> Answer<Made> {
        made!(self.get_device_mr(pointer(comm), pointer(mhandle)))
    }

    fn send_stream(&mut self, stream: Stream) -> Answer<Result<(), String>> {
        Ok(stream::send(self, &stream))
    }

    fn recv_stream(
        &mut self,
        stream: Stream,
        queue: Option<StreamQueue>,
    ) -> Answer<Result<(), String>> {
        Ok(stream::receive(self, &stream, queue))
    }

    fn allocate(&mut self, bytes: u64) -> Answer<u64> {
        host_memory::allocate(bytes)
    }

    fn allocate_device(&mut self, bytes: u64) -> Answer<u64> {
        self.memory.allocate_device(bytes)
    }

    fn read_bytes(&mut self, at: u64, bytes: u32) -> Answer<Vec<u8>> {
        self.memory.read(at, bytes as usize).map_err(on_gpu)
    }

    fn word(&mut self, at: u64) -> Answer<u64> {
        self.memory.read_word(at).map_err(on_gpu)
    }

    fn write(&mut self, at: u64, bytes: Vec<u8>) -> Answer<()> {
        self.memory.write(at, &bytes).map_err(on_gpu)
    }

    fn fill(&mut self, at: u64, bytes: u64, seed: u64) -> Answer<()> {
        self.memory.fill(at, bytes as usize, seed).map_err(on_gpu)
    }

    fn verify(&mut self, at: u64, bytes: u64, seed: u64) -> Answer<Option<Mismatch>> {
        self.memory.verify(at, bytes as usize, seed).map_err(on_gpu)
    }

    fn gather(&mut self, bounce: u64, entries: Vec<Entry>, to: u64) -> Answer<()> {
        self.memory.gather(bounce, &entries, to).map_err(on_gpu)
    }

    fn mapped_bytes(&mut self, at: u64) -> Answer<Option<u64>> {
        self.memory.mapped_bytes(at).map_err(|error| format!("the memory map: {error}"))
    }

    fn census(&mut self) -> Answer<Census> {
        let count = |folder| std::fs::read_dir(folder).map(|entries| entries.count() as u64);
        let census = || -> io::Result<Census> {
            Ok(Census { descriptors: count("/proc/self/fd")?, threads: count("/proc/self/task")? })
        };
        census().map_err(|error| format!("the census: {error}"))
    }

    fn descriptor(&mut self, number: i32) -> Answer<Option<(u64, u64)>> {
        let mut found = MaybeUninit::<libc::stat>::uninit();
        // SAFETY: the place is large enough; on a number that is no descriptor fstat fails.
        let result = unsafe { libc::fstat(number, found.as_mut_ptr()) };
        Ok((result == 0).then(|| {
            // SAFETY: fstat succeeded, so it wrote all of it.
            let found = unsafe { found.assume_init() };
            (found.st_dev, found.st_ino)
        }))
    }

    fn use_gpu(&mut self, ordinal: u32) -> Answer<()> {
        // Held until the process ends, as requests may refer to its memory until then.
        let gpu: &CudaGpu = Box::leak(Box::new(CudaGpu::open(ordinal).map_err(on_gpu)?));
        std::mem::forget(gpu.enter().map_err(on_gpu)?);
        self.memory = Memory::new(Some(gpu));
        Ok(())
    }

    fn default_sigpipe(&mut self) -> Answer<()> {
        // SAFETY: SIG_DFL runs no code of this process.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        Ok(())
    }
}

/// The pointer behind the last argument of `connect` and `accept`.
fn device_handle(device: DeviceArgument) -> *mut NetDeviceHandle {
    match device {
        DeviceArgument::Null | DeviceArgument::PointsToNull => ptr::null_mut(),
        DeviceArgument::At(at) => pointer(at),
    }
}

/// That argument itself.
fn outer(device: DeviceArgument, inner: *mut *mut NetDeviceHandle) -> *mut *mut NetDeviceHandle {
    if device == DeviceArgument::Null { ptr::null_mut() } else { inner }
}

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
