#![allow(unsafe_code)]
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
//! Drives the plugin's table from tests: thin methods that return codes as they come.

pub mod edges;
pub mod exchange;
pub mod sockets;

use std::ffi::{c_int, c_void};
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::ptr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tcpx_softnet::Settings;
use tcpx_sys::{
    LoadMeta, NcclNetV7, NetDeviceHandle, NetHandle, NetUnpackMeta, PTR_CUDA, PTR_HOST,
    UnpackNetDeviceHandle, log_callback,
};

/// Longest time that anything in a test may take before the test fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A word of the plugin's: comm, registration or request.
pub type Word = *mut c_void;

/// The table after `init`.
#[derive(Clone, Copy)]
pub struct Net(pub NcclNetV7);

// SAFETY: the table is functions, callable from any thread, and a name that is never written.
unsafe impl Send for Net {}
// SAFETY: as above.
unsafe impl Sync for Net {}

/// Settings that tests start from: loopback, poisoned pages. `TCPX_SOFT_ZEROCOPY=on` tries them all
/// with sends in place.
pub fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.interfaces = Some("=lo".to_owned());
    settings.poison = true;
    settings.connect_timeout = Duration::from_secs(10);
    if let Ok(zerocopy) = std::env::var("TCPX_SOFT_ZEROCOPY") {
        settings.zerocopy = zerocopy.parse().expect("off, auto or on");
    }
    settings
}

/// Initialises the plugin once for the process.
pub fn net(make: impl FnOnce() -> Settings) -> Net {
    static NET: OnceLock<Net> = OnceLock::new();
    *NET.get_or_init(|| {
        let _ = tracing_subscriber::fmt().with_test_writer().try_init();
        tcpx_softnet::configure(make()).expect("good settings");
        let net = Net(tcpx_softnet::table());
        // SAFETY: the callback is of the logger's type and thread-safe.
        assert_eq!(unsafe { net.0.init.expect("init")(Some(log_callback())) }.0, 0);
        net
    })
}

macro_rules! call {
    ($net:expr, $member:ident ( $($argument:expr),* )) => {
        // SAFETY: the tests pass valid places for outputs; words and data may be wrong where the
        // test is about that.
        unsafe { $net.0.$member.expect(stringify!($member))($($argument),*) }.0
    };
}

impl Net {
    pub fn listen(self) -> (NetHandle, Word) {
        let (mut handle, mut comm) = (NetHandle::zeroed(), ptr::null_mut());
        let rc = call!(self, listen(0, (&raw mut handle).cast(), &raw mut comm));
        assert_eq!(rc, 0);
        (handle, comm)
    }

    pub fn connect(self, handle: &mut NetHandle) -> (c_int, Word) {
        let mut comm = ptr::null_mut();
        let mut device = ptr::null_mut();
        let rc =
            call!(self, connect(0, ptr::from_mut(handle).cast(), &raw mut comm, &raw mut device));
        (rc, comm)
    }

    pub fn accept(self, listen: Word, device: &mut NetDeviceHandle) -> (c_int, Word) {
        let mut comm = ptr::null_mut();
        let mut place: *mut NetDeviceHandle = device;
        let rc = call!(self, accept(listen, &raw mut comm, &raw mut place));
        (rc, comm)
    }

    /// Polls until the final answer.
    pub fn connect_all(self, handle: &mut NetHandle) -> (c_int, Word) {
        poll(|| Some(self.connect(handle)).filter(|&(rc, comm)| rc != 0 || !comm.is_null()))
    }

    /// Polls until the final answer.
    pub fn accept_all(self, listen: Word) -> (c_int, Word, NetDeviceHandle) {
        let mut device = blank_device();
        let (rc, comm) = poll(|| {
            Some(self.accept(listen, &mut device)).filter(|&(rc, comm)| rc != 0 || !comm.is_null())
        });
        (rc, comm, device)
    }

    pub fn register(self, comm: Word, data: *mut u8, bytes: usize, kind: c_int) -> (c_int, Word) {
        let mut mhandle = ptr::null_mut();
        let rc = call!(self, reg_mr(comm, data.cast(), bytes as c_int, kind, &raw mut mhandle));
        (rc, mhandle)
    }

    pub fn deregister(self, comm: Word, mhandle: Word) -> c_int {
        call!(self, dereg_mr(comm, mhandle))
    }

    pub fn isend(self, comm: Word, data: *mut u8, bytes: c_int, mhandle: Word) -> (c_int, Word) {
        let mut request = ptr::null_mut();
        let rc = call!(self, isend(comm, data.cast(), bytes, 7, mhandle, &raw mut request));
        (rc, request)
    }

    pub fn irecv(self, comm: Word, data: *mut u8, bytes: c_int, mhandle: Word) -> (c_int, Word) {
        let (mut data, mut size, mut tag): (Word, c_int, c_int) = (data.cast(), bytes, 9);
        let (mut mhandle, mut request) = (mhandle, ptr::null_mut());
        let rc = call!(
            self,
            irecv(
                comm,
                1,
                &raw mut data,
                &raw mut size,
                &raw mut tag,
                &raw mut mhandle,
                &raw mut request
            )
        );
        (rc, request)
    }

    /// Return code and `done`; checks that `sizes` is left alone.
    pub fn test(self, request: Word) -> (c_int, c_int) {
        let (mut done, mut sizes) = (77, 4711);
        let rc = call!(self, test(request, &raw mut done, &raw mut sizes));
        assert_eq!(sizes, 4711, "test never writes sizes");
        (rc, done)
    }

    /// Tests until done; any error fails.
    pub fn finish(self, request: Word) {
        poll(|| {
            let (rc, done) = self.test(request);
            assert_eq!(rc, 0, "test failed");
            (done == 1).then_some(())
        });
    }

    /// Drives a send and its receive from one thread until both are done; any error fails.
    pub fn finish_both(self, send: Word, recv: Word) {
        let (mut sent, mut received) = (false, false);
        let done = |request| {
            let (rc, done) = self.test(request);
            assert_eq!(rc, 0, "test failed");
            done == 1
        };
        poll(|| {
            sent = sent || done(send);
            received = received || done(recv);
            (sent && received).then_some(())
        });
    }

    /// Tests until an error comes; done fails.
    pub fn fails_with(self, request: Word) -> c_int {
        poll(|| {
            let (rc, done) = self.test(request);
            assert_eq!(done, 0, "must not complete");
            (rc != 0).then_some(rc)
        })
    }

    pub fn consumed(self, comm: Word, request: Word) -> c_int {
        call!(self, irecv_consumed(comm, 1, request))
    }

    /// The size query that iflush is.
    pub fn received(self, comm: Word, request: Word) -> (c_int, c_int) {
        let (mut size, mut request) = (-5, request);
        let rc = call!(
            self,
            iflush(comm, 1, ptr::null_mut(), &raw mut size, ptr::null_mut(), &raw mut request)
        );
        (rc, size)
    }

    pub fn close(self, comm: Word) -> c_int {
        call!(self, close_send(comm))
    }

    pub fn close_listen(self, comm: Word) -> c_int {
        call!(self, close_listen(comm))
    }

    /// A connected pair in this process.
    pub fn pair(self) -> (Sender, Receiver) {
        let (mut handle, listen) = self.listen();
        let accept = std::thread::spawn({
            let listen = listen.addr();
            move || {
                let (rc, comm, device) = self.accept_all(ptr::without_provenance_mut(listen));
                assert_eq!(rc, 0);
                (comm.addr(), device.handle.expose_provenance())
            }
        });
        let (rc, send) = self.connect_all(&mut handle);
        assert_eq!(rc, 0);
        let (recv, device) = accept.join().expect("accept thread");
        assert_eq!(self.close_listen(listen), 0);
        let device = ptr::with_exposed_provenance::<UnpackNetDeviceHandle>(device);
        (
            Sender { net: self, comm: send },
            Receiver::new(self, ptr::without_provenance_mut(recv), device),
        )
    }
}

pub fn blank_device() -> NetDeviceHandle {
    NetDeviceHandle {
        net_device_type: 0,
        net_device_version: 0,
        handle: ptr::null_mut(),
        size: 0,
        needs_proxy_progress: 0,
    }
}

/// Repeats until there is an answer; panics when it takes too long.
pub fn poll<R>(mut body: impl FnMut() -> Option<R>) -> R {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = body() {
            return answer;
        }
        assert!(Instant::now() < deadline, "took too long");
        std::thread::yield_now();
    }
}

/// Page-aligned memory.
pub struct Memory {
    map: memmap2::MmapMut,
}

impl Memory {
    pub fn new(bytes: usize) -> Self {
        Self { map: memmap2::MmapMut::map_anon(bytes.max(1)).expect("mapping") }
    }

    /// Bytes that depend on their place and on `salt`.
    pub fn patterned(bytes: usize, salt: usize) -> Self {
        let mut memory = Self::new(bytes);
        for (place, byte) in memory.map.iter_mut().enumerate() {
            *byte = pattern(place, salt);
        }
        memory
    }

    pub fn data(&mut self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    pub fn fill(&mut self, byte: u8) {
        self.map.fill(byte);
    }
}

pub fn pattern(place: usize, salt: usize) -> u8 {
    (place.wrapping_mul(31) ^ (place >> 8).wrapping_mul(17) ^ salt.wrapping_mul(101)) as u8
}

/// A send comm.
#[derive(Clone, Copy)]
pub struct Sender {
    pub net: Net,
    pub comm: Word,
}

// SAFETY: the comm is an id, and the tests use each comm from one thread at a time.
unsafe impl Send for Sender {}

/// A receive comm and its unpack queue.
pub struct Receiver {
    pub net: Net,
    pub comm: Word,
    meta: *const NetUnpackMeta,
    bounce: *const u8,
    posted: u64,
}

// SAFETY: the comm is an id, the queue is read by the thread that has the receiver.
unsafe impl Send for Receiver {}

impl Receiver {
    pub fn new(net: Net, comm: Word, device: *const UnpackNetDeviceHandle) -> Self {
        // SAFETY: accept returned this pointer, and the comm is open.
        let device = unsafe { device.read() };
        assert_eq!(device.head, u64::MAX);
        Self { net, comm, meta: device.meta, bounce: device.bounce_buf.cast(), posted: 0 }
    }

    /// Posts a receive; its number is how many were posted before.
    pub fn post(&mut self, data: *mut u8, bytes: usize, mhandle: Word) -> (u64, Word) {
        let (rc, posted) = self.try_post(data, bytes, mhandle);
        assert_eq!(rc, 0);
        posted
    }

    /// The same, with the code. A receive that was refused does not count.
    pub fn try_post(&mut self, data: *mut u8, bytes: usize, mhandle: Word) -> (c_int, (u64, Word)) {
        let (rc, request) = self.net.irecv(self.comm, data, bytes as c_int, mhandle);
        let number = self.posted;
        self.posted += u64::from(rc == 0);
        (rc, (number, request))
    }

    /// The entries of a done receive.
    pub fn entries(&self, number: u64) -> Vec<LoadMeta> {
        let slot = (number % 16) as usize;
        // SAFETY: the queue lives as long as the comm; done was reported, so the slot is not being
        // written.
        let count =
            unsafe { (&raw const (*self.meta).cnt).cast::<u64>().add(slot).read_volatile() };
        assert!(count <= 2048);
        // SAFETY: as above; the row has 2048 entries.
        let row = unsafe { (&raw const (*self.meta).mem).cast::<LoadMeta>().add(slot * 2048) };
        // SAFETY: as above, `count` is within the row.
        (0..count as usize).map(|index| unsafe { row.add(index).read_volatile() }).collect()
    }

    /// The count of a slot as it is now, done or not.
    fn raw_count(&self, slot: usize) -> u64 {
        // SAFETY: the queue lives as long as the comm; a racing write is what `read_volatile` is
        // for.
        unsafe { (&raw const (*self.meta).cnt).cast::<u64>().add(slot).read_volatile() }
    }

    /// Copies a done device receive to `place`, as a consumer does that trusts the plugin.
    ///
    /// # Safety
    /// `place` has room for the message.
    pub unsafe fn unpack_to(&self, number: u64, place: *mut u8) {
        let slot = (number % 16) as usize;
        let count = self.raw_count(slot) as usize;
        // SAFETY: the queue lives as long as the comm; the row has 2048 entries.
        let row = unsafe { (&raw const (*self.meta).mem).cast::<LoadMeta>().add(slot * 2048) };
        for index in 0..count.min(2048) {
            // SAFETY: as above, `index` is within the row.
            let entry = unsafe { row.add(index).read_volatile() };
            // SAFETY: entries lie in the bounce region and within the message; the caller gave room
            // for that.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    self.bounce.add(entry.src_off as usize),
                    place.add(entry.dst_off as usize),
                    entry.len as usize,
                );
            }
        }
    }

    /// Bytes of the bounce region as they are now.
    pub fn read(&self, offset: u32, bytes: usize) -> Vec<u8> {
        assert!(offset as usize + bytes <= tcpx_softnet::bounce_bytes() as usize);
        // SAFETY: the range lies in the bounce region, which is mapped for good.
        unsafe { std::slice::from_raw_parts(self.bounce.add(offset as usize), bytes) }.to_vec()
    }

    /// Gathers a done device receive of `bytes` bytes from its entries, checking every one of them.
    pub fn unpack(&self, number: u64, bytes: usize) -> Vec<u8> {
        let mut gathered = vec![0; bytes];
        let mut covered = vec![false; bytes];
        for entry in self.entries(number) {
            let (from, len, to) =
                (entry.src_off as usize, entry.len as usize, entry.dst_off as usize);
            assert!(len > 0 && from + len <= tcpx_softnet::bounce_bytes() as usize, "{entry:?}");
            assert_eq!(from / 4096, (from + len - 1) / 4096, "crosses a page: {entry:?}");
            assert!(to + len <= bytes, "{entry:?} in a message of {bytes}");
            assert!(covered[to..to + len].iter().all(|covered| !covered), "overlaps: {entry:?}");
            covered[to..to + len].fill(true);
            // SAFETY: the entry lies in the bounce region (checked above), which is mapped for
            // good.
            let source = unsafe { std::slice::from_raw_parts(self.bounce.add(from), len) };
            gathered[to..to + len].copy_from_slice(source);
        }
        assert!(covered.iter().all(|&covered| covered), "entries do not cover the message");
        gathered
    }
}

/// Host and device registrations of one buffer: the two kinds that tests run through.
pub const KINDS: [c_int; 2] = [PTR_HOST, PTR_CUDA];

/// A line to the parent process.
pub fn say(line: &str) {
    let mut out = std::io::stdout();
    out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).expect("stdout");
}

/// This test binary again, to run one (ignored) test; `variables` tell it what to do.
pub fn peer_command(test: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("own path"));
    command.args(["--exact", test, "--ignored", "--nocapture"]).envs(variables.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Starts it as the peer.
pub fn spawn_peer(test: &str, variables: &[(&str, &str)]) -> Child {
    peer_command(test, variables).spawn().expect("peer process")
}
