#![allow(unsafe_code)]
//! Children forked from a process with sessions. The process is the test's own. Its only other
//! thread is that of the harness, which waits.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use tcpx_core::{
    Access, Code, Device, Error, ExportOptions, MemoryAddress, MemoryId, MemoryRange, MemoryType,
    Operation, OperationKind, PluginChoice, Post, RemoteAccess, RemoteKey, RemoteRange, Session,
    SessionReport, Transfer, gpu_count, is_forked,
};
use tcpx_testkit::in_own_process;
use tcpx_tests::sessions::{self, soft};

/// Bytes of a message: several chunks.
const BYTES: u64 = 1 << 20;
/// A child that takes longer hangs, on whatever machine; SIGALRM ends it.
const CHILD_SECONDS: u32 = 240;

/// Runs `work` in a forked child, which must end well.
fn in_child(work: impl FnOnce()) {
    // SAFETY: the child runs `work` and ends. Where this process has other threads, `work` calls
    // nothing but the library, which takes no lock there.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        // SAFETY: takes a number only.
        unsafe { libc::alarm(CHILD_SECONDS) };
        let outcome = catch_unwind(AssertUnwindSafe(work));
        // SAFETY: ends the process, with its exit handlers.
        unsafe { libc::exit(i32::from(outcome.is_err())) };
    }
    let mut status = 0;
    // SAFETY: the status is a live variable.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child panicked, hung or crashed");
}

/// Two connected sessions with what they hold when a child is made.
struct Pair {
    left: Session,
    right: Session,
    /// A receive of left's that waits for its send.
    receive: Transfer,
    to: MemoryId,
    lent: MemoryId,
}

impl Pair {
    fn new(progress_thread: bool) -> Self {
        let [left, right] = sessions::pair(soft().progress_thread(progress_thread));
        let to = left.allocate(BYTES, MemoryType::Device).expect("memory");
        let receive = left.create_transfer("right").expect("it is up");
        receive.post_recv(Post { memory: to, offset: 0, bytes: BYTES, tag: 7 }).expect("posted");
        let lent = left.register_buffer(vec![5; 4096], Access::ReadWrite).expect("registered");
        Self { left, right, receive, to, lent }
    }

    /// Sends a message that `receive` waits for under `tag`, and looks at every byte.
    fn send(&self, receive: &Transfer, to: MemoryId, tag: i64) {
        let sent: Vec<u8> = (0..BYTES).map(|at| (at * 31 + tag as u64) as u8).collect();
        let from = self.right.register_buffer(sent.clone(), Access::ReadOnly).expect("registered");
        let send = self.right.create_transfer("left").expect("it is up");
        send.post_send(Post { memory: from, offset: 0, bytes: BYTES, tag }).expect("posted");
        while !receive.is_complete().expect("it succeeds") {
            self.right.progress();
        }
        send.wait(None).expect("it succeeds");
        let mut received = vec![0; BYTES as usize];
        self.left.read_memory(to, 0, &mut received).expect("nothing is posted on it");
        assert!(received == sent, "every byte is right");
        self.right.deregister_memory(from).expect("the send is over");
    }

    fn exchange(&self, tag: i64) {
        let to = self.left.allocate(BYTES, MemoryType::Device).expect("memory");
        let receive = self.left.create_transfer("right").expect("it is up");
        receive.post_recv(Post { memory: to, offset: 0, bytes: BYTES, tag }).expect("posted");
        self.send(&receive, to, tag);
        self.left.deregister_memory(to).expect("the receive is over");
    }

    /// What waited all the time arrives, and both ends part in order.
    fn end(self) {
        self.send(&self.receive, self.to, 7);
        let buffer = self.left.take_buffer(self.lent).expect("it is lent");
        assert_eq!(*buffer, [5; 4096]);
        sessions::disconnect_both(&self.left, &self.right);
    }
}

fn refused<T: std::fmt::Debug>(result: Result<T, Error>) {
    let error = result.expect_err("nothing works in a forked child");
    assert!(matches!(error, Error::Forked), "{error}");
    assert_eq!(error.id().map(Code::number), Some(827));
}

/// Every method, as a child calls it.
fn everything_is_refused(pair: &Pair) {
    let Pair { left, right, receive, to, lent } = pair;
    let post = Post { memory: *to, offset: 0, bytes: 1, tag: 1 };
    let mut byte = [0];
    assert!(is_forked());
    refused(Session::new(soft()));
    refused(left.listen());
    refused(left.accept("x"));
    refused(right.load_remote_conn_info("x", b"x"));
    refused(right.connect("left"));
    refused(left.disconnect("right"));
    refused(left.create_transfer("right"));
    let address = MemoryAddress::from_ptr(byte.as_ptr());
    // SAFETY: it is refused.
    refused(unsafe { left.register_memory(address, 1, MemoryType::Host, Access::ReadOnly) });
    refused(left.register_buffer([1u8; 9].to_vec(), Access::ReadOnly));
    refused(left.allocate(1, MemoryType::Host));
    refused(left.take_buffer(*lent));
    refused(left.deregister_memory(*lent));
    refused(left.memory_info(*lent));
    refused(left.write_memory(*lent, 0, &byte));
    refused(left.read_memory(*lent, 0, &mut byte));
    refused(receive.post_send(post));
    refused(receive.post_recv(post));
    refused(receive.post_send_batch(&[post]));
    refused(receive.post_recv_batch(&[post]));
    refused(receive.is_complete());
    refused(receive.wait(None));
    refused(receive.counts());
    refused(receive.round_counts());
    receive.cancel();
    assert!(matches!(receive.error(), Some(Error::Forked)));
    assert!(!left.progress() && left.nics().is_empty() && gpu_count() == 0);
    assert_eq!(left.stats(), SessionReport::default());
    assert!(left.options().plugin == PluginChoice::Soft, "its settings need no lock");
    refused(left.close());
    assert!(!left.is_settled(), "nothing is known of it");
}

/// Ends the child's copies of everything.
///
/// # Safety
/// In a forked child, and nothing uses the pair afterwards.
unsafe fn drop_in_child(pair: &Pair) {
    // SAFETY: no thread of the parent's is here, and the caller leaves the pair alone.
    drop(unsafe { std::ptr::read(pair) });
}

/// What is dropped stays open: it is not the child's to close.
fn nothing_is_closed(pair: &Pair) {
    let open = || std::fs::read_dir("/proc/self/fd").expect("Linux").count();
    let before = open();
    // SAFETY: the child ends without another look at it.
    unsafe { drop_in_child(pair) };
    assert_eq!(open(), before, "descriptors");
}

fn children_are_refused_and_disturb_nothing(progress_thread: bool, forks: usize) {
    let pair = Pair::new(progress_thread);
    let is_over = AtomicBool::new(false);
    let while_running = |work: &dyn Fn()| {
        while !is_over.load(Ordering::Relaxed) {
            work();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| while_running(&|| pair.exchange(1)));
        scope.spawn(|| while_running(&|| _ = (pair.left.progress(), pair.right.stats())));
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..forks {
                in_child(|| {
                    everything_is_refused(&pair);
                    // SAFETY: the child ends without another look at it.
                    unsafe { drop_in_child(&pair) };
                });
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        outcome.expect("every child ends well");
    });
    // A grandchild is no better off, and a child that only ends does no harm either.
    in_child(|| in_child(|| everything_is_refused(&pair)));
    in_child(|| nothing_is_closed(&pair));
    in_child(|| {});
    pair.end();
}

#[test]
fn children_of_a_process_with_sessions_are_refused() {
    in_own_process!();
    refuse_children(20);
}

#[test]
#[ignore = "deep: at very many moments"]
fn children_of_a_process_with_sessions_are_refused_at_any_moment() {
    in_own_process!();
    refuse_children(200);
}

/// Two sessions of all devices, and a write between GPUs of theirs that ordinary memory stands in
/// for.
struct AllDevicePair {
    left: Session,
    right: Session,
    info: Vec<u8>,
    from: MemoryId,
    key: RemoteKey,
    write: Operation,
}

impl AllDevicePair {
    fn new() -> Self {
        let [left, right] = ["left", "right"].map(|name| {
            let options = soft().name(name).all_devices(true).emulated_gpus(2);
            Session::new(options).expect("the software plugin is always there")
        });
        let info = right.listen().expect("listen");
        left.load_remote_conn_info("right", &info).expect("own bytes load");
        let from = left.allocate(BYTES, Device::Gpu(0)).expect("memory");
        let to = right.allocate(BYTES, Device::Gpu(1)).expect("memory");
        let key = right.export(to, ExportOptions::new(RemoteAccess::Write)).expect("registered");
        let write = Self::prepare(&left, from, &key).expect("it fits");
        write.post(None).expect("it waits");
        write.wait(None).expect("it succeeds");
        Self { left, right, info, from, key, write }
    }

    fn prepare(left: &Session, from: MemoryId, key: &RemoteKey) -> Result<Operation, Error> {
        let local = [MemoryRange { memory: from, offset: 0, bytes: BYTES }];
        let remote = [RemoteRange { key, offset: 0, bytes: BYTES }];
        left.prepare("right", OperationKind::Write, &local, &remote)
    }

    /// Takes the locks of names and devices again and again, as a child may find them.
    fn work(&self) {
        self.left.load_remote_conn_info("again", &self.info).expect("own bytes load");
        self.left.stats_by_device();
        Self::prepare(&self.left, self.from, &self.key).expect("it fits");
    }

    /// The methods that concern several devices, as a child calls them.
    fn is_refused(&self) {
        let Self { left, info, from, key, write, .. } = self;
        refused(left.load_remote_conn_info("again", info));
        refused(left.forget_remote_conn_info("again"));
        refused(left.connect("right"));
        refused(left.peer_state("right"));
        refused(left.disconnect("right"));
        refused(left.start_disconnect("right"));
        refused(left.create_transfer("right"));
        refused(left.allocate(1, Device::Gpu(0)));
        refused(left.allocate(1, Device::Gpu(1)));
        refused(left.memory_info(*from));
        refused(left.export(*from, ExportOptions::new(RemoteAccess::Read)));
        refused(left.unexport(key));
        refused(left.deregister_memory(*from));
        refused(Self::prepare(left, *from, key));
        refused(left.prepare_notification("right"));
        refused(left.notify("right", b"x"));
        let mut notes = Vec::new();
        refused(left.poll_notifications(&mut notes, 1));
        refused(left.wait_notifications(&mut notes, 1, None));
        refused(left.poll_events(&mut Vec::new(), 1));
        refused(write.post(None));
        refused(write.wait(None));
        assert!(!left.progress() && !left.is_settled());
        assert_eq!(left.stats_by_device(), [(Device::Host, SessionReport::default())]);
        refused(left.close());
    }
}

fn children_are_refused_all_devices(forks: usize) {
    let wide = AllDevicePair::new();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                wide.work();
            }
        });
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..forks {
                in_child(|| {
                    wide.is_refused();
                    // SAFETY: no thread of the parent's is here, and the child ends without another
                    // look at it.
                    drop(unsafe { std::ptr::read(&raw const wide) });
                });
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        outcome.expect("every child ends well");
    });
    wide.write.post(Some(b"done")).expect("the parent goes on");
    wide.write.wait(None).expect("it succeeds");
    let mut notes = Vec::new();
    wide.right.wait_notifications(&mut notes, 1, None).expect("it is there");
    wide.left.close().expect("both answer");
}

fn refuse_children(forks: usize) {
    let exchange = || {
        let pair = Pair::new(true);
        pair.exchange(3);
        pair.end();
    };
    // Before the first session a child is a process like any other.
    in_child(exchange);
    let _ = gpu_count();
    in_child(exchange);
    children_are_refused_and_disturb_nothing(false, forks);
    children_are_refused_and_disturb_nothing(true, forks);
    children_are_refused_all_devices(forks);
    // It is the use that counts, not what is left of it.
    in_child(|| assert!(matches!(Session::new(soft()), Err(Error::Forked))));
}
