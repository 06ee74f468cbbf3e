#![allow(unsafe_code)]
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
//! Drives the plugin's table from tests: thin methods that return codes as they come.

pub mod edges;
pub mod exchange;
mod receiver;
pub mod sockets;

use std::ffi::{c_int, c_void};
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::ptr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub use receiver::Receiver;
use tcpx_softnet::Settings;
use tcpx_sys::{
    NcclNetV7, NetDeviceHandle, NetHandle, PTR_CUDA, PTR_HOST, UnpackNetDeviceHandle, log_callback,
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
