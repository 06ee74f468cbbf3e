#![allow(unsafe_code)]
//! Drives the plugin's table from tests: thin methods that return codes as they come.

pub(crate) mod edges;
pub(crate) mod exchange;
mod memory;
pub(crate) mod pair;
mod receiver;
pub(crate) mod sockets;

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

pub(crate) use memory::Memory;
pub(crate) use receiver::Receiver;
use tcpx_softnet::{Settings, comm_encryption};
use tcpx_softnet_faults::{FaultScript, environment, read_all};
use tcpx_sys::{
    COMM_SECRET_BYTES, NcclNetV7, NetDeviceHandle, NetHandle, PTR_CUDA, PTR_HOST,
    UnpackNetDeviceHandle, log_callback,
};
use tcpx_testkit::{PATIENCE, eventually, process};

/// A word of the plugin's: comm, registration or request.
pub(crate) type PluginPtr = *mut c_void;

/// The table after `init`.
#[derive(Clone, Copy)]
pub(crate) struct Net(pub NcclNetV7);

// SAFETY: the table is functions, callable from any thread, and a name that is never written.
unsafe impl Send for Net {}
// SAFETY: as above.
unsafe impl Sync for Net {}

/// Settings that tests start from: loopback, poisoned pages. `TCPX_SOFT_ZEROCOPY=on` tries them all
/// with zero-copy sends.
pub(crate) fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.interfaces = Some("=lo".to_owned());
    settings.poison = true;
    settings.connect_timeout = PATIENCE;
    if let Ok(zerocopy) = std::env::var("TCPX_SOFT_ZEROCOPY") {
        settings.zerocopy = zerocopy.parse().expect("off, auto or on");
    }
    settings
}

/// Initialises the plugin once for the process.
pub(crate) fn start(settings: Settings) -> Net {
    start_faulty(settings, None)
}

/// The same with its double, if there is a script.
fn start_faulty(settings: Settings, script: Option<FaultScript>) -> Net {
    static NET: OnceLock<Net> = OnceLock::new();
    *NET.get_or_init(|| {
        let _ = tracing_subscriber::fmt().with_test_writer().try_init();
        let net = match script {
            None => {
                tcpx_softnet::configure(settings).expect("good settings");
                Net(tcpx_softnet::table())
            }
            Some(script) => {
                tcpx_softnet_faults::configure(settings, script).expect("good settings");
                Net(tcpx_softnet_faults::table())
            }
        };
        // SAFETY: the callback is of the logger's type and thread-safe.
        assert_eq!(unsafe { net.0.init.expect("init")(Some(log_callback())) }.0, 0);
        net
    })
}

/// The same with changes to what tests start from.
///
/// # Panics
/// In a process that other tests run in: the plugin would have the settings of whichever comes
/// first.
pub(crate) fn net(change: impl FnOnce(&mut Settings)) -> Net {
    assert_alone();
    let mut settings = settings();
    change(&mut settings);
    start(settings)
}

/// The same with a script of what goes wrong.
pub(crate) fn faulty_net(change: impl FnOnce(&mut Settings, &mut FaultScript)) -> Net {
    assert_alone();
    let (mut settings, mut script) = (settings(), FaultScript::default());
    change(&mut settings, &mut script);
    start_faulty(settings, Some(script))
}

/// The plugin as the environment wants it, or its double if that has a script.
pub(crate) fn net_of_environment(change: impl FnOnce(&mut Settings)) -> Net {
    assert_alone();
    let (mut settings, script) = read_all(Some(512 << 10), &environment).expect("good variables");
    change(&mut settings);
    start_faulty(settings, Some(script).filter(|script| *script != FaultScript::default()))
}

fn assert_alone() {
    assert!(process::role().is_some(), "the test does not begin with in_own_process!()");
}

/// Runs the rest of the calling test once for each of the roles, in a process of its own, where it
/// is the role.
macro_rules! in_own_processes {
    ($roles:expr) => {
        match tcpx_testkit::process::role() {
            Some(role) => role,
            None => {
                for role in $roles {
                    tcpx_testkit::process::pass(&mut tcpx_testkit::again!(&role));
                }
                return;
            }
        }
    };
}

macro_rules! call {
    ($net:expr, $member:ident ( $($argument:expr),* )) => {
        // SAFETY: the tests pass valid places for outputs; words and data may be wrong where the
        // test is about that.
        unsafe { $net.0.$member.expect(stringify!($member))($($argument),*) }.0
    };
}

/// Variable of the environment: comms are to be encrypted.
pub(crate) const ENCRYPTED: &str = "TCPX_TEST_ENCRYPTED";

/// Secret of both ends of a comm, if the environment wants comms encrypted.
pub(crate) fn secret_of_environment() -> Option<[u8; COMM_SECRET_BYTES]> {
    std::env::var_os(ENCRYPTED).map(|_| [0x5e; COMM_SECRET_BYTES])
}

impl Net {
    pub(crate) fn listen(self) -> (NetHandle, PluginPtr) {
        self.listen_with(None)
    }

    /// Listens; with a secret for a peer that is encrypted.
    pub(crate) fn listen_with(
        self,
        secret: Option<[u8; COMM_SECRET_BYTES]>,
    ) -> (NetHandle, PluginPtr) {
        let (mut handle, mut comm) = (NetHandle::zeroed(), ptr::null_mut());
        let rc = call!(self, listen(0, (&raw mut handle).cast(), &raw mut comm));
        assert_eq!(rc, 0);
        if let Some(secret) = secret {
            assert_eq!(encrypt_listen(comm, &secret), 0);
        }
        (handle, comm)
    }

    pub(crate) fn connect(self, handle: &mut NetHandle) -> (c_int, PluginPtr) {
        self.connect_with(handle, None)
    }

    /// Polls an attempt to connect, encrypted with a secret.
    pub(crate) fn connect_with(
        self,
        handle: &mut NetHandle,
        secret: Option<[u8; COMM_SECRET_BYTES]>,
    ) -> (c_int, PluginPtr) {
        let mut comm = ptr::null_mut();
        let mut device = ptr::null_mut();
        let handle = ptr::from_mut(handle).cast();
        let rc = match secret {
            None => call!(self, connect(0, handle, &raw mut comm, &raw mut device)),
            Some(secret) => {
                let connect = comm_encryption().connect_encrypted.expect("it is set");
                // SAFETY: the secret and both outputs are live variables.
                unsafe {
                    connect(0, handle, secret.as_ptr().cast(), &raw mut comm, &raw mut device)
                }
                .0
            }
        };
        (rc, comm)
    }

    pub(crate) fn accept(
        self,
        listen: PluginPtr,
        device: &mut NetDeviceHandle,
    ) -> (c_int, PluginPtr) {
        let mut comm = ptr::null_mut();
        let mut place: *mut NetDeviceHandle = device;
        let rc = call!(self, accept(listen, &raw mut comm, &raw mut place));
        (rc, comm)
    }

    /// Polls until the final answer.
    pub(crate) fn connect_all(self, handle: &mut NetHandle) -> (c_int, PluginPtr) {
        eventually(|| Some(self.connect(handle)).filter(|&(rc, comm)| rc != 0 || !comm.is_null()))
    }

    /// Polls until the final answer.
    pub(crate) fn accept_all(self, listen: PluginPtr) -> (c_int, PluginPtr, NetDeviceHandle) {
        let mut device = blank_device();
        let (rc, comm) = eventually(|| {
            Some(self.accept(listen, &mut device)).filter(|&(rc, comm)| rc != 0 || !comm.is_null())
        });
        (rc, comm, device)
    }

    pub(crate) fn register(
        self,
        comm: PluginPtr,
        data: *mut u8,
        bytes: usize,
        kind: c_int,
    ) -> (c_int, PluginPtr) {
        let mut mhandle = ptr::null_mut();
        let rc = call!(self, reg_mr(comm, data.cast(), bytes as c_int, kind, &raw mut mhandle));
        (rc, mhandle)
    }

    pub(crate) fn deregister(self, comm: PluginPtr, mhandle: PluginPtr) -> c_int {
        call!(self, dereg_mr(comm, mhandle))
    }

    pub(crate) fn isend(
        self,
        comm: PluginPtr,
        data: *mut u8,
        bytes: c_int,
        mhandle: PluginPtr,
    ) -> (c_int, PluginPtr) {
        let mut request = ptr::null_mut();
        let rc = call!(self, isend(comm, data.cast(), bytes, 7, mhandle, &raw mut request));
        (rc, request)
    }

    pub(crate) fn irecv(
        self,
        comm: PluginPtr,
        data: *mut u8,
        bytes: c_int,
        mhandle: PluginPtr,
    ) -> (c_int, PluginPtr) {
        let (mut data, mut size, mut tag): (PluginPtr, c_int, c_int) = (data.cast(), bytes, 9);
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
    pub(crate) fn test(self, request: PluginPtr) -> (c_int, c_int) {
        let (mut done, mut sizes) = (77, 4711);
        let rc = call!(self, test(request, &raw mut done, &raw mut sizes));
        assert_eq!(sizes, 4711, "test never writes sizes");
        (rc, done)
    }

    /// Tests until done; any error fails.
    pub(crate) fn finish(self, request: PluginPtr) {
        eventually(|| {
            let (rc, done) = self.test(request);
            assert_eq!(rc, 0, "test failed");
            (done == 1).then_some(())
        });
    }

    /// Drives a send and its receive from one thread until both are done; any error fails.
    pub(crate) fn finish_both(self, send: PluginPtr, recv: PluginPtr) {
        let (mut sent, mut received) = (false, false);
        let done = |request| {
            let (rc, done) = self.test(request);
            assert_eq!(rc, 0, "test failed");
            done == 1
        };
        eventually(|| {
            sent = sent || done(send);
            received = received || done(recv);
            (sent && received).then_some(())
        });
    }

    /// Tests until an error comes; done fails.
    pub(crate) fn fails_with(self, request: PluginPtr) -> c_int {
        eventually(|| {
            let (rc, done) = self.test(request);
            assert_eq!(done, 0, "must not complete");
            (rc != 0).then_some(rc)
        })
    }

    pub(crate) fn consumed(self, comm: PluginPtr, request: PluginPtr) -> c_int {
        call!(self, irecv_consumed(comm, 1, request))
    }

    /// The size query that iflush is.
    pub(crate) fn received(self, comm: PluginPtr, request: PluginPtr) -> (c_int, c_int) {
        let (mut size, mut request) = (-5, request);
        let rc = call!(
            self,
            iflush(comm, 1, ptr::null_mut(), &raw mut size, ptr::null_mut(), &raw mut request)
        );
        (rc, size)
    }

    pub(crate) fn close(self, comm: PluginPtr) -> c_int {
        call!(self, close_send(comm))
    }

    pub(crate) fn close_listen(self, comm: PluginPtr) -> c_int {
        call!(self, close_listen(comm))
    }

    /// A connected pair in this process.
    pub(crate) fn pair(self) -> (Sender, Receiver) {
        self.pair_with(None)
    }

    /// The same, encrypted with a secret.
    pub(crate) fn pair_with(self, secret: Option<[u8; COMM_SECRET_BYTES]>) -> (Sender, Receiver) {
        let (mut handle, listen) = self.listen_with(secret);
        let accept = std::thread::spawn({
            let listen = listen.addr();
            move || {
                let (rc, comm, device) = self.accept_all(ptr::without_provenance_mut(listen));
                assert_eq!(rc, 0);
                (comm.addr(), device.handle.expose_provenance())
            }
        });
        let (rc, send) = eventually(|| {
            let answer = self.connect_with(&mut handle, secret);
            Some(answer).filter(|&(rc, comm)| rc != 0 || !comm.is_null())
        });
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

/// Has a listen comm's peer encrypted.
pub(crate) fn encrypt_listen(comm: PluginPtr, secret: &[u8; COMM_SECRET_BYTES]) -> c_int {
    let encrypt = comm_encryption().encrypt_listen.expect("it is set");
    // SAFETY: the function takes any word for a comm; the secret is 32 bytes.
    unsafe { encrypt(comm, secret.as_ptr().cast()) }.0
}

pub(crate) fn blank_device() -> NetDeviceHandle {
    NetDeviceHandle {
        net_device_type: 0,
        net_device_version: 0,
        handle: ptr::null_mut(),
        size: 0,
        needs_proxy_progress: 0,
    }
}

/// A send comm.
#[derive(Clone, Copy)]
pub(crate) struct Sender {
    pub(crate) net: Net,
    pub(crate) comm: PluginPtr,
}

// SAFETY: the comm is an id, and the tests use each comm from one thread at a time.
unsafe impl Send for Sender {}

/// Host and device registrations of one buffer: the two kinds that tests run through.
pub(crate) const KINDS: [c_int; 2] = [PTR_HOST, PTR_CUDA];
