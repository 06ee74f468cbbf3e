#![allow(unsafe_code)]
//! Tests of threads that copy. A test can hold up one of the threads.

use std::io;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use tcpx_rx::UnpackDescriptor;
use tcpx_testkit::PATIENCE;

use super::*;
use crate::copy_threads::Spawn;

/// Length that a thread copies.
const LONG: usize = 2 * INLINE_BYTES as usize;

/// Bounce buffer and a destination of the same length.
struct Memories {
    bounce: Vec<u8>,
    dst: Vec<u8>,
    whole: [UnpackDescriptor; 1],
}

impl Memories {
    fn new(bytes: usize) -> Self {
        let bounce = (0..bytes).map(|at| (at % 251) as u8 + 1).collect();
        let whole = [UnpackDescriptor { src_off: 0, len: bytes as u32, dst_off: 0 }];
        Self { bounce, dst: vec![0; bytes], whole }
    }

    fn job(&mut self) -> UnpackJob<'_> {
        UnpackJob {
            bounce: self.bounce.as_ptr().expose_provenance() as u64,
            bounce_bytes: self.bounce.len() as u64,
            dst: self.dst.as_mut_ptr().expose_provenance() as u64,
            dst_bytes: self.dst.len() as u64,
            descriptors: &self.whole,
        }
    }
}

/// Thread that reports a finished submit, and then waits until it may go on.
struct PausedThread {
    unpack: ThreadedUnpack,
    finished: Receiver<()>,
    go_on: Sender<()>,
}

fn paused_thread() -> PausedThread {
    let mut unpack = ThreadedUnpack::new(CopyThreads::new(1));
    let ((notify, finished), (go_on, may_go_on)) = (channel(), channel());
    let (notify, may_go_on) = (Mutex::new(notify), Mutex::new(may_go_on));
    let calls_back = unpack.on_finished(Box::new(move || {
        let _ = notify.lock().unwrap().send(());
        let _ = may_go_on.lock().unwrap().recv_timeout(PATIENCE);
    }));
    assert!(calls_back);
    PausedThread { unpack, finished, go_on }
}

#[test]
fn the_callback_comes_after_the_copy_and_short_submits_keep_their_order() {
    let PausedThread { mut unpack, finished, go_on } = paused_thread();
    let [mut first, mut second] = [Memories::new(LONG), Memories::new(LONG)];
    let mut short = Memories::new(100);
    // SAFETY: the memories outlive the unpacker's tickets, here and below.
    let ticket = unsafe { unpack.submit(&[first.job()]) }.unwrap();
    finished.recv_timeout(PATIENCE).expect("the notice");
    assert_eq!(unpack.poll(), Ok(ticket));
    assert!(first.dst == first.bounce);

    // The thread is held up.
    // SAFETY: as above.
    let waiting = unsafe { unpack.submit(&[second.job()]) }.unwrap();
    // SAFETY: as above.
    let last = unsafe { unpack.submit(&[short.job()]) }.unwrap();
    assert!(ticket < waiting && waiting < last);
    assert!(short.dst == short.bounce, "the caller has copied it");
    assert_eq!(unpack.poll(), Ok(ticket));
    go_on.send(()).unwrap();
    finished.recv_timeout(PATIENCE).expect("one notice for both");
    assert_eq!(unpack.poll(), Ok(last));
    assert!(second.dst == second.bounce);
    go_on.send(()).unwrap();
}

#[test]
fn each_submit_that_finishes_is_reported_while_others_run() {
    let PausedThread { mut unpack, finished, go_on } = paused_thread();
    let mut memories = [(); 3].map(|()| Memories::new(LONG));
    let tickets = memories.each_mut().map(|memories| {
        // SAFETY: the memories outlive the unpacker's tickets.
        unsafe { unpack.submit(&[memories.job()]) }.unwrap()
    });
    for ticket in tickets {
        finished.recv_timeout(PATIENCE).expect("the notice");
        // The thread is held up.
        assert_eq!(unpack.poll(), Ok(ticket));
        go_on.send(()).unwrap();
    }
}

#[test]
fn a_full_queue_is_busy_and_nothing_was_touched() {
    let PausedThread { mut unpack, finished, go_on } = paused_thread();
    let mut memories: Vec<_> = (0..16).map(|_| Memories::new(8 << 20)).collect();
    let (first, others) = memories.split_first_mut().unwrap();
    // SAFETY: the memories outlive the unpacker's tickets, here and below.
    unsafe { unpack.submit(&[first.job()]) }.unwrap();
    finished.recv_timeout(PATIENCE).expect("the notice");
    let mut last = Ticket::NONE;
    let mut others = others.iter_mut();
    let refused = others.find_map(|next| {
        // SAFETY: as above.
        match unsafe { unpack.submit(&[next.job()]) } {
            Ok(ticket) => last = ticket,
            Err(error) => return Some((error, next)),
        }
        None
    });
    let (error, refused) = refused.expect("the queue is bounded");
    assert_eq!(error, UnpackError::Busy);
    drop(go_on);
    while unpack.poll().unwrap() < last {
        finished.recv_timeout(PATIENCE).expect("they go on");
    }
    assert!(refused.dst.iter().all(|&byte| byte == 0));
    // SAFETY: as above.
    let ticket = unsafe { unpack.submit(&[refused.job()]) }.expect("there is room again");
    while unpack.poll().unwrap() < ticket {
        finished.recv_timeout(PATIENCE).expect("it goes on");
    }
    assert!(refused.dst == refused.bounce);
}

#[test]
fn submits_under_way_finish_after_a_shutdown_and_then_the_threads_end() {
    let PausedThread { mut unpack, finished, go_on } = paused_thread();
    let [mut first, mut second] = [Memories::new(LONG), Memories::new(LONG)];
    // SAFETY: the memories outlive the unpacker's tickets, here and below.
    unsafe { unpack.submit(&[first.job()]) }.unwrap();
    finished.recv_timeout(PATIENCE).expect("the notice");
    // SAFETY: as above.
    unsafe { unpack.submit(&[second.job()]) }.unwrap();
    assert!(!unpack.shutdown(), "the second waits");
    // SAFETY: as above.
    let refused = unsafe { unpack.submit(&[first.job()]) };
    assert_eq!(refused, Err(UnpackError::ShutDown));
    go_on.send(()).unwrap();
    finished.recv_timeout(PATIENCE).expect("the notice");
    assert!(unpack.shutdown());
    assert!(second.dst == second.bounce);
    go_on.send(()).unwrap();
}

#[test]
fn pieces_that_no_thread_has_begun_are_not_copied_after_the_drop() {
    let PausedThread { mut unpack, finished, go_on } = paused_thread();
    let [mut first, mut second] = [Memories::new(LONG), Memories::new(LONG)];
    // SAFETY: the memories outlive the unpacker, here and below.
    unsafe { unpack.submit(&[first.job()]) }.unwrap();
    finished.recv_timeout(PATIENCE).expect("the notice");
    // SAFETY: as above.
    unsafe { unpack.submit(&[second.job()]) }.unwrap();
    // The thread is held up until the queue is empty.
    let waits = unpack.threads.waiting();
    let thread = thread::spawn(move || drop(unpack));
    while waits() > 0 {
        thread::yield_now();
    }
    go_on.send(()).unwrap();
    thread.join().expect("no panic");
    assert!(second.dst.iter().all(|&byte| byte == 0));
}

#[test]
fn the_caller_copies_if_no_thread_can_be_started() {
    let refused = |_, _| Err(io::ErrorKind::WouldBlock.into());
    let mut unpack = ThreadedUnpack::new(CopyThreads::with_spawn(2, refused));
    let mut memories = Memories::new(LONG);
    // SAFETY: the memories outlive the ticket.
    let ticket = unsafe { unpack.submit(&[memories.job()]) }.unwrap();
    assert_eq!(unpack.poll(), Ok(ticket));
    assert!(memories.dst == memories.bounce);
    assert!(unpack.shutdown());
}

#[test]
fn nothing_is_started_for_short_submits() {
    static STARTED: Mutex<usize> = Mutex::new(0);
    let count: Spawn = |builder, work| {
        *STARTED.lock().unwrap() += 1;
        builder.spawn(work)
    };
    let mut unpack = ThreadedUnpack::new(CopyThreads::with_spawn(9, count));
    let mut memories = Memories::new(INLINE_BYTES as usize);
    // SAFETY: the memories outlive the ticket.
    let ticket = unsafe { unpack.submit(&[memories.job()]) }.unwrap();
    assert_eq!(unpack.poll(), Ok(ticket));
    assert_eq!(*STARTED.lock().unwrap(), 0);
    let mut memories = Memories::new(INLINE_BYTES as usize + 1);
    // SAFETY: the unpacker is dropped before the memories.
    unsafe { unpack.submit(&[memories.job()]) }.unwrap();
    drop(unpack);
    assert_eq!(*STARTED.lock().unwrap(), 3, "no more than it has pieces");
}
