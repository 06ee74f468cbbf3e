#![allow(unsafe_code)]
//! Children of a process whose plugin is at work. This process is a forked child itself, which
//! leaves the harness's threads behind: they would be in the way of forks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use tcpx_softnet::{Helpers, PoolStats, SettingsError, configure, pool_stats};
use tcpx_sys::{NetHandle, log_callback};
use tcpx_testkit::in_own_process;

use crate::support::exchange::exchange;
use crate::support::{
    self, KINDS, Memory, Net, PluginPtr, Receiver, Sender, blank_device, settings,
};

/// Bytes of a message: several chunks.
const BYTES: usize = 1 << 20;
/// A child that takes longer hangs, on whatever machine; SIGALRM ends it.
const CHILD_SECONDS: u32 = 240;
const REFUSED: i32 = 3;

fn net() -> Net {
    support::net(|settings| {
        settings.sockets = 2;
        settings.threads = 2;
        settings.helpers = Helpers::On;
        settings.chunk_bytes = 65_536;
    })
}

/// Runs `work` in a forked child, which must end well.
fn in_child(work: impl FnOnce()) {
    // SAFETY: the child runs `work` and ends. Where this process has other threads, `work` only
    // calls the plugin, which takes no lock there.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        // SAFETY: takes a number only.
        unsafe { libc::alarm(CHILD_SECONDS) };
        let outcome = catch_unwind(AssertUnwindSafe(work));
        // SAFETY: ends the process. No exit handlers run: the plugin has none, and a leak checker's
        // would miss the stacks of the threads that are not there.
        unsafe { libc::_exit(i32::from(outcome.is_err())) };
    }
    let mut status = 0;
    // SAFETY: the status is a live variable.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child panicked, hung or crashed");
}

/// What the parent has when it forks.
struct ParentState {
    listen: PluginPtr,
    handle: NetHandle,
    /// Its connect has begun.
    dialed: NetHandle,
    sender: Sender,
    receiver: Receiver,
    mhandle: PluginPtr,
    send: PluginPtr,
    recv: PluginPtr,
}

/// Every entry, as a child calls it.
fn everything_is_refused(net: Net, parent: &ParentState) {
    let ParentState { sender, receiver, mhandle, send, recv, listen, .. } = parent;
    let (mhandle, send, recv, listen) = (*mhandle, *send, *recv, *listen);
    let (mut byte, mut word, mut number) = (0u8, ptr::null_mut(), 99);
    assert_eq!(call!(net, init(Some(log_callback()))), REFUSED);
    assert_eq!((call!(net, devices(&raw mut number)), number), (REFUSED, 99));
    let mut properties = std::mem::MaybeUninit::uninit();
    assert_eq!(call!(net, get_properties(0, properties.as_mut_ptr())), REFUSED);
    let mut handle = NetHandle::zeroed();
    assert_eq!(call!(net, listen(0, (&raw mut handle).cast(), &raw mut word)), REFUSED);
    assert!(handle == NetHandle::zeroed() && word.is_null(), "nothing is written");
    for mut handle in [parent.handle, parent.dialed] {
        assert_eq!(net.connect(&mut handle), (REFUSED, ptr::null_mut()));
    }
    assert_eq!(net.accept(listen, &mut blank_device()), (REFUSED, ptr::null_mut()));
    let registered = net.register(sender.comm, &raw mut byte, 1, KINDS[1]);
    assert_eq!(registered, (REFUSED, ptr::null_mut()));
    assert_eq!(net.deregister(sender.comm, mhandle), REFUSED);
    assert_eq!(net.isend(sender.comm, &raw mut byte, 1, mhandle).0, REFUSED);
    assert_eq!(net.irecv(receiver.comm, &raw mut byte, 1, mhandle).0, REFUSED);
    for request in [send, recv] {
        assert_eq!(net.test(request), (REFUSED, 77));
        assert_eq!(net.received(receiver.comm, request), (REFUSED, -5));
        assert_eq!(net.consumed(receiver.comm, request), REFUSED);
    }
    assert_eq!(call!(net, get_device_mr(receiver.comm, mhandle, &raw mut word)), REFUSED);
    assert_eq!(configure(settings()), Err(SettingsError::TooLate));
    assert_eq!(pool_stats(), PoolStats::default());
    // A caller that cleans up sees success, as often as it asks.
    for _ in 0..2 {
        assert_eq!((net.close(sender.comm), net.close(receiver.comm)), (0, 0));
        assert_eq!(net.close_listen(listen), 0);
    }
}

#[test]
fn children_are_refused_and_disturb_nothing() {
    in_own_process!();
    in_child(|| fork_often(20));
}

#[test]
#[ignore = "deep: a hundred children"]
fn a_hundred_children_are_refused_and_disturb_nothing() {
    in_own_process!();
    in_child(|| fork_often(100));
}

/// Forks `times` children while other threads are inside the plugin.
fn fork_often(times: usize) {
    let threads = std::fs::read_dir("/proc/self/task").expect("Linux has it");
    assert_eq!(threads.count(), 1, "no other thread may hold a lock when this one forks");
    // Settings alone claim nothing: this child is a process like any other.
    configure(settings()).expect("good settings");
    in_child(|| exchange(net().pair(), (KINDS[1], KINDS[1]), &[BYTES], 1));

    let net = net();
    let (handle, listen) = net.listen();
    let mut dialed = handle;
    assert_eq!(net.connect(&mut dialed).0, 0);
    let (sender, mut receiver) = net.pair();
    let mut memory = Memory::patterned(BYTES, 1);
    let (_, mhandle) = net.register(sender.comm, memory.data(), BYTES, KINDS[1]);
    let (rc, send) = net.isend(sender.comm, memory.data(), BYTES as i32, mhandle);
    assert_eq!(rc, 0);
    let (number, recv) = receiver.post(ptr::null_mut(), BYTES, mhandle);
    let parent = ParentState { listen, handle, dialed, sender, receiver, mhandle, send, recv };
    in_child(|| everything_is_refused(net, &parent));

    // Other threads are inside the plugin when these are made.
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                exchange(net.pair(), (KINDS[1], KINDS[1]), &[BYTES; 4], 2);
                let _ = pool_stats();
            }
        });
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..times {
                in_child(|| everything_is_refused(net, &parent));
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        outcome.expect("every child ends well");
    });

    // What was under way all the time ends as if there had been no child.
    net.finish_both(send, recv);
    assert!(parent.receiver.unpack(number, BYTES) == memory.bytes(), "every byte is right");
    assert_eq!(net.consumed(parent.receiver.comm, recv), 0);
    assert_eq!(net.deregister(parent.sender.comm, mhandle), 0);
    assert_eq!((net.close(parent.sender.comm), net.close(parent.receiver.comm)), (0, 0));
    assert_eq!(net.close_listen(listen), 0);
}
