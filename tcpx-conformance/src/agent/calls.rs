#![allow(unsafe_code)]
//! The raw calls, one per command, with the outputs preset so that an untouched one shows.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr;

use tcpx_sys::{
    Entries, LoadError, NcclNetV7, NcclResult, NetDeviceHandle, NetProperties, Plugin, log_callback,
};

use super::host_memory::{address, pointer};
use crate::link::command::{
    CommKind, Command, Counted, DeviceArgument, LoadFailure, Loaded, Made, Properties, Reply,
    Tested, UNTOUCHED, UNTOUCHED_INT,
};
use crate::options::Target;

/// Longest string that is read from the plugin.
const MAX_STRING_BYTES: usize = 4096;

/// The plugin of this process, once it is loaded.
pub(super) struct Calls {
    target: Target,
    table: Option<fn() -> NcclNetV7>,
    entries: Option<Entries>,
}

impl Calls {
    pub(super) const fn new(target: Target, table: Option<fn() -> NcclNetV7>) -> Self {
        Self { target, table, entries: None }
    }

    /// Makes the call that `command` names.
    pub(super) fn make(&mut self, command: &Command) -> Reply {
        if matches!(command, Command::Load) {
            return Reply::Loaded(self.load());
        }
        let Some(entries) = self.entries else {
            return Reply::Impossible("no plugin is loaded".to_owned());
        };
        // SAFETY: the plugin was loaded on the word of whoever started the run that it is one. What its functions do
        // with the arguments, wild pointers included, is what this expendable process is there to find out.
        unsafe { call(&entries, command) }
    }

    fn load(&mut self) -> Result<Loaded, LoadFailure> {
        let plugin = match (&self.target, self.table) {
            // SAFETY: whoever started the run vouches for the file; loading it happens in this process only.
            (Target::Path(path), _) => unsafe { Plugin::load(path, &[]) },
            (Target::Table, Some(table)) => {
                // SAFETY: the program handed over its own table, whose name and functions live as long as it does.
                unsafe { Plugin::from_table(Path::new("the program's own"), table(), &[]) }
            }
            (Target::Table, None) => {
                let text = "the program has no table of its own".to_owned();
                return Err(LoadFailure { member: false, text });
            }
        };
        let plugin = plugin.map_err(|error| LoadFailure {
            member: matches!(error, LoadError::NullMember { .. }),
            text: error.to_string(),
        })?;
        self.entries = Some(*plugin.entries());
        Ok(Loaded {
            name: plugin.name().to_owned(),
            dma_buf: plugin.table().reg_mr_dma_buf.is_some(),
        })
    }

    /// `isend` for the streams; the pointer is the request.
    pub(super) fn isend(&mut self, comm: u64, data: u64, bytes: i32, mhandle: u64) -> Made {
        match self.make(&Command::Isend { comm, data, bytes, tag: 0, mhandle }) {
            Reply::Made(made) => made,
            _ => Made { rc: -1, pointer: 0 },
        }
    }

    /// `irecv` for the streams.
    pub(super) fn irecv(&mut self, comm: u64, data: u64, bytes: i32, mhandle: u64) -> Made {
        match self.make(&Command::Irecv { comm, n: 1, data, bytes, tag: Some(0), mhandle }) {
            Reply::Made(made) => made,
            _ => Made { rc: -1, pointer: 0 },
        }
    }

    /// `test` for the streams.
    pub(super) fn test(&mut self, request: u64) -> Tested {
        match self.make(&Command::Test { request }) {
            Reply::Tested(tested) => tested,
            _ => Tested { rc: -1, done: 0, sizes: 0 },
        }
    }

    /// `irecvConsumed` for the streams.
    pub(super) fn consumed(&mut self, comm: u64, request: u64) -> i32 {
        match self.make(&Command::Consumed { comm, n: 1, request }) {
            Reply::Rc(rc) => rc,
            _ => -1,
        }
    }
}

fn rc(result: NcclResult) -> Reply {
    Reply::Rc(result.0)
}

fn made(result: NcclResult, pointer: *mut c_void) -> Reply {
    Reply::Made(Made { rc: result.0, pointer: address(pointer) })
}

/// # Safety
/// `entries` are the functions of a v7 plugin, and this process may be lost to them.
unsafe fn call(entries: &Entries, command: &Command) -> Reply {
    let mut out: *mut c_void = pointer(UNTOUCHED);
    // SAFETY: the caller's promise covers every call below; every output points to a live local of the declared type.
    unsafe {
        match *command {
            Command::Init { logger } => rc((entries.init)(logger.then(log_callback))),
            Command::Devices => {
                let mut count = UNTOUCHED_INT;
                let result = (entries.devices)(&raw mut count);
                Reply::Counted(Counted { rc: result.0, count })
            }
            Command::Properties { dev } => properties(entries, dev),
            Command::Listen { dev, handle } => {
                let result = (entries.listen)(dev, pointer(handle), &raw mut out);
                made(result, out)
            }
            Command::Connect { dev, handle, device } => {
                out = ptr::null_mut();
                let result = with_device(device, |device| {
                    (entries.connect)(dev, pointer(handle), &raw mut out, device)
                });
                made(result, out)
            }
            Command::Accept { listen_comm, device } => {
                out = ptr::null_mut();
                let result = with_device(device, |device| {
                    (entries.accept)(pointer(listen_comm), &raw mut out, device)
                });
                made(result, out)
            }
            Command::RegMr { comm, data, bytes, kind } => {
                let result =
                    (entries.reg_mr)(pointer(comm), pointer(data), bytes, kind, &raw mut out);
                made(result, out)
            }
            Command::DeregMr { comm, mhandle } => {
                rc((entries.dereg_mr)(pointer(comm), pointer(mhandle)))
            }
            Command::Close { kind, comm } => {
                let close = match kind {
                    CommKind::Send => entries.close_send,
                    CommKind::Recv => entries.close_recv,
                    CommKind::Listen => entries.close_listen,
                };
                rc(close(pointer(comm)))
            }
            Command::DeviceMr { comm, mhandle } => {
                let result = (entries.get_device_mr)(pointer(comm), pointer(mhandle), &raw mut out);
                made(result, out)
            }
            _ => request(entries, command),
        }
    }
}

/// The calls of the data path.
///
/// # Safety
/// As [`call`].
unsafe fn request(entries: &Entries, command: &Command) -> Reply {
    let mut out: *mut c_void = pointer(UNTOUCHED);
    // SAFETY: as in `call`; the arrays of `irecv` and `iflush` are read up to `n`, which the plugin must check first,
    // and are longer than any `n` that a check passes.
    unsafe {
        match *command {
            Command::Isend { comm, data, bytes, tag, mhandle } => {
                let result = (entries.isend)(
                    pointer(comm),
                    pointer(data),
                    bytes,
                    tag,
                    pointer(mhandle),
                    &raw mut out,
                );
                made(result, out)
            }
            Command::Irecv { comm, n, data, bytes, tag, mhandle } => {
                let mut datas: [*mut c_void; 8] = [pointer(data); 8];
                let (mut sizes, mut tags) = ([bytes; 8], tag.map(|tag| [tag; 8]));
                let mut mhandles: [*mut c_void; 8] = [pointer(mhandle); 8];
                let tags = tags.as_mut().map_or(ptr::null_mut(), |tags| tags.as_mut_ptr());
                let result = (entries.irecv)(
                    pointer(comm),
                    n,
                    datas.as_mut_ptr(),
                    sizes.as_mut_ptr(),
                    tags,
                    mhandles.as_mut_ptr(),
                    &raw mut out,
                );
                made(result, out)
            }
            Command::Iflush { comm, n, request } => {
                let mut datas: [*mut c_void; 8] = [ptr::null_mut(); 8];
                let (mut sizes, mut mhandles) = ([UNTOUCHED_INT; 8], [ptr::null_mut(); 8]);
                let mut existing: *mut c_void = pointer(request);
                let result = (entries.iflush)(
                    pointer(comm),
                    n,
                    datas.as_mut_ptr(),
                    sizes.as_mut_ptr(),
                    mhandles.as_mut_ptr(),
                    &raw mut existing,
                );
                Reply::Counted(Counted { rc: result.0, count: sizes[0] })
            }
            Command::Test { request } => {
                let (mut done, mut sizes): (c_int, c_int) = (UNTOUCHED_INT, UNTOUCHED_INT);
                let result = (entries.test)(pointer(request), &raw mut done, &raw mut sizes);
                Reply::Tested(Tested { rc: result.0, done, sizes })
            }
            Command::Consumed { comm, n, request } => {
                rc((entries.irecv_consumed)(pointer(comm), n, pointer(request)))
            }
            _ => Reply::Impossible(format!("{command:?} is no call")),
        }
    }
}

/// Lends the last argument of `connect` and `accept` in the wanted shape.
fn with_device(
    device: DeviceArgument,
    call: impl FnOnce(*mut *mut NetDeviceHandle) -> NcclResult,
) -> NcclResult {
    let mut inner: *mut NetDeviceHandle = match device {
        DeviceArgument::Null => return call(ptr::null_mut()),
        DeviceArgument::PointsToNull => ptr::null_mut(),
        DeviceArgument::At(at) => pointer(at),
    };
    call(&raw mut inner)
}

/// # Safety
/// As [`call`].
unsafe fn properties(entries: &Entries, dev: i32) -> Reply {
    // Preset to what no plugin writes; NULL strings, since a refusing plugin leaves them.
    let mut props = MaybeUninit::<NetProperties>::uninit();
    props.write(NetProperties {
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
    });
    // SAFETY: as in `call`; the output points to a live local.
    let result = unsafe { (entries.get_properties)(dev, props.as_mut_ptr()) };
    // SAFETY: written above, member by member, and any bits are valid in its members.
    let props = unsafe { props.assume_init() };
    // SAFETY: the strings are NULL or the plugin's own; see the head of this file.
    let (name, pci_path) = unsafe { (text(props.name), text(props.pci_path)) };
    Reply::Properties(Properties {
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
