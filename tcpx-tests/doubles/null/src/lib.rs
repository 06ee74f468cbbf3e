#![allow(unsafe_code)]
//! An ncclNet v7 plugin that moves nothing. Every call succeeds at once, and every receive has
//! arrived, in one fragment of whatever the bounce buffer holds.
//!
//! For benches and instruction counts of `tcpx-core`: what is measured over it is the library's own
//! cost. It has the software plugin's name, so that it can be loaded by path. It is never part of a
//! product.
//!
//! `TCPX_NULL_NAME=hardware` gives it the hardware plugin's name when it is loaded, for tests of
//! what depends on the name. `TCPX_NULL_NIC` names its NIC, `null0` otherwise.

use std::cell::UnsafeCell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{from_ref, null_mut};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tcpx_sys::{
    LoadMeta, Logger, MAX_REQUESTS, NET_DEVICE_UNPACK, NcclNetV7, NcclResult, NetDeviceHandle,
    NetProperties, NetUnpackMeta, PTR_CUDA, PTR_HOST, UNPACK_QUEUE_DEPTH, UNPACK_VERSION,
    UnpackNetDeviceHandle,
};

/// Largest message, and size of the bounce buffer.
const BOUNCE_BYTES: usize = 4 << 20;

/// What a receive comm is: an unpack queue and a count.
struct Comm {
    meta: UnsafeCell<NetUnpackMeta>,
    device: UnsafeCell<UnpackNetDeviceHandle>,
    received: AtomicU64,
    sizes: [AtomicUsize; MAX_REQUESTS],
}

fn new_comm() -> *mut Comm {
    let mut comm = Box::<Comm>::new_uninit();
    // SAFETY: the box is as large as what is written. Every field is plain numbers and pointers,
    // for which zero bytes are a value.
    let mut comm = unsafe {
        comm.as_mut_ptr().write_bytes(0, 1);
        comm.assume_init()
    };
    let bounce = vec![0u8; BOUNCE_BYTES].leak();
    *comm.device.get_mut() = UnpackNetDeviceHandle {
        meta: comm.meta.get(),
        bounce_buf: bounce.as_mut_ptr().cast(),
        head: u64::MAX,
    };
    Box::into_raw(comm)
}

unsafe extern "C" fn init(_: Option<Logger>) -> NcclResult {
    NcclResult::SUCCESS
}

unsafe extern "C" fn devices(ndev: *mut c_int) -> NcclResult {
    // SAFETY: the caller passes a valid output, as it would to any plugin; so in every function
    // below.
    unsafe { ndev.write(1) };
    NcclResult::SUCCESS
}

unsafe extern "C" fn get_properties(_: c_int, properties: *mut NetProperties) -> NcclResult {
    let nic = std::env::var("TCPX_NULL_NIC").ok().and_then(|nic| CString::new(nic).ok());
    let value = NetProperties {
        // A plugin keeps its names for ever.
        name: nic.map_or(c"null0".as_ptr(), |nic| nic.into_raw().cast_const()),
        pci_path: std::ptr::null(),
        guid: 0,
        ptr_support: PTR_HOST | PTR_CUDA,
        speed: 10_000,
        port: 0,
        latency: 0.0,
        max_comms: 65_536,
        max_recvs: 1,
        net_device_type: NET_DEVICE_UNPACK,
        net_device_version: UNPACK_VERSION,
    };
    // SAFETY: a valid output.
    unsafe { properties.write(value) };
    NcclResult::SUCCESS
}

unsafe extern "C" fn listen(_: c_int, _: *mut c_void, listen_comm: *mut *mut c_void) -> NcclResult {
    // SAFETY: a valid output.
    unsafe { listen_comm.write(new_comm().cast()) };
    NcclResult::SUCCESS
}

unsafe extern "C" fn connect(
    _: c_int,
    _: *mut c_void,
    send_comm: *mut *mut c_void,
    _: *mut *mut NetDeviceHandle,
) -> NcclResult {
    // SAFETY: a valid output.
    unsafe { send_comm.write(new_comm().cast()) };
    NcclResult::SUCCESS
}

unsafe extern "C" fn accept(
    listen_comm: *mut c_void,
    recv_comm: *mut *mut c_void,
    device_handle: *mut *mut NetDeviceHandle,
) -> NcclResult {
    let comm: *mut Comm = listen_comm.cast();
    // SAFETY: the comm came from `listen` and is never freed.
    let device = unsafe { (*comm).device.get() };
    let handle = NetDeviceHandle {
        net_device_type: NET_DEVICE_UNPACK,
        net_device_version: UNPACK_VERSION,
        handle: device.cast(),
        size: size_of::<UnpackNetDeviceHandle>(),
        needs_proxy_progress: 1,
    };
    // SAFETY: the contract wants a preallocated struct behind the pointer.
    unsafe { device_handle.read().write(handle) };
    // SAFETY: a valid output.
    unsafe { recv_comm.write(listen_comm) };
    NcclResult::SUCCESS
}

unsafe extern "C" fn reg_mr(
    _: *mut c_void,
    _: *mut c_void,
    _: c_int,
    _: c_int,
    mhandle: *mut *mut c_void,
) -> NcclResult {
    // SAFETY: a valid output; the handle is a number.
    unsafe { mhandle.write(std::ptr::without_provenance_mut(1)) };
    NcclResult::SUCCESS
}

unsafe extern "C" fn dereg_mr(_: *mut c_void, _: *mut c_void) -> NcclResult {
    NcclResult::SUCCESS
}

unsafe extern "C" fn isend(
    comm: *mut c_void,
    _: *mut c_void,
    _: c_int,
    _: c_int,
    _: *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    // SAFETY: a valid output; any pointer will do as a request.
    unsafe { request.write(comm) };
    NcclResult::SUCCESS
}

unsafe extern "C" fn irecv(
    comm: *mut c_void,
    _: c_int,
    _: *mut *mut c_void,
    sizes: *mut c_int,
    _: *mut c_int,
    _: *mut *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    // SAFETY: the comm came from `accept` and is never freed; only the caller's thread uses it.
    let comm = unsafe { &*comm.cast::<Comm>() };
    // SAFETY: one size, as n = 1 announces.
    let size = unsafe { sizes.read() }.max(0) as usize;
    let slot = (comm.received.fetch_add(1, Ordering::Relaxed) % UNPACK_QUEUE_DEPTH as u64) as usize;
    comm.sizes[slot].store(size, Ordering::Relaxed);
    let entry = LoadMeta { src_off: 0, len: size.min(BOUNCE_BYTES) as u32, dst_off: 0 };
    // SAFETY: the slot is in range; the consumer reads it only after `test`.
    unsafe { (&raw mut (*comm.meta.get()).mem[slot][0]).write(entry) };
    // SAFETY: as above.
    unsafe { (&raw mut (*comm.meta.get()).cnt[slot]).write(1) };
    // SAFETY: a valid output.
    unsafe { request.write(from_ref(&comm.sizes[slot]).cast_mut().cast()) };
    NcclResult::SUCCESS
}

unsafe extern "C" fn iflush(
    _: *mut c_void,
    _: c_int,
    _: *mut *mut c_void,
    sizes: *mut c_int,
    _: *mut *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    // SAFETY: the request came from `irecv`.
    let size = unsafe { &*request.read().cast::<AtomicUsize>() }.load(Ordering::Relaxed);
    // SAFETY: a valid output.
    unsafe { sizes.write(size as c_int) };
    NcclResult::SUCCESS
}

unsafe extern "C" fn test(_: *mut c_void, done: *mut c_int, _: *mut c_int) -> NcclResult {
    // SAFETY: a valid output.
    unsafe { done.write(1) };
    NcclResult::SUCCESS
}

unsafe extern "C" fn close(_: *mut c_void) -> NcclResult {
    NcclResult::SUCCESS
}

unsafe extern "C" fn get_device_mr(
    _: *mut c_void,
    _: *mut c_void,
    device: *mut *mut c_void,
) -> NcclResult {
    // SAFETY: a valid output.
    unsafe { device.write(null_mut()) };
    NcclResult::SUCCESS
}

unsafe extern "C" fn irecv_consumed(_: *mut c_void, _: c_int, _: *mut c_void) -> NcclResult {
    NcclResult::SUCCESS
}

const SOFTWARE_NAME: &[u8] = b"TCPXSoft_v7";
const HARDWARE_NAME: &[u8] = b"GPUDirectTCPX_v7";

/// The table's name, and zeros behind it.
struct Name(UnsafeCell<[u8; 32]>);

// SAFETY: it is written while the library is loaded, by one thread, and only read afterwards.
unsafe impl Sync for Name {}

static NAME: Name = Name(UnsafeCell::new(padded(SOFTWARE_NAME)));

const fn padded(name: &[u8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    let (start, _) = bytes.split_at_mut(name.len());
    start.copy_from_slice(name);
    bytes
}

extern "C" fn choose_name() {
    if std::env::var_os("TCPX_NULL_NAME").is_some_and(|name| name == "hardware") {
        // SAFETY: the dynamic linker runs this before any code can find the table.
        unsafe { NAME.0.get().write(padded(HARDWARE_NAME)) };
    }
}

#[used]
// SAFETY: the section holds pointers to functions that the dynamic linker calls when it has loaded
// the library. Nothing that this one uses needs to be set up before.
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = choose_name;

/// What `dlsym` finds: the table itself, not a pointer to it.
#[allow(non_upper_case_globals, reason = "the ABI's name")]
// SAFETY: no other item of this name exists in the library; its type is the one that the name
// stands for.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v7: NcclNetV7 = NcclNetV7 {
    name: NAME.0.get().cast::<c_char>().cast_const(),
    init: Some(init),
    devices: Some(devices),
    get_properties: Some(get_properties),
    listen: Some(listen),
    connect: Some(connect),
    accept: Some(accept),
    reg_mr: Some(reg_mr),
    reg_mr_dma_buf: None,
    dereg_mr: Some(dereg_mr),
    isend: Some(isend),
    irecv: Some(irecv),
    iflush: Some(iflush),
    test: Some(test),
    close_send: Some(close),
    close_recv: Some(close),
    close_listen: Some(close),
    get_device_mr: Some(get_device_mr),
    irecv_consumed: Some(irecv_consumed),
};
