#![allow(unsafe_code)]
//! Benchmark of the cost of a call through the C ABI over the same call in Rust: posting, and
//! asking for completion.
//!
//! Both are timed on live sessions in one process, in turns, so that a machine that slows down
//! slows both. The difference of the medians is the overhead. Sends are posted without a
//! counterpart: nothing of a network is timed.
//!
//! `cargo bench -p tcpx-capi`: prints nanoseconds a call and fails above the bar of 100 ns for post
//! and completion together. Under `cargo test` a few rounds run and no bar applies.

use std::ffi::CString;
use std::process::ExitCode;
use std::time::Instant;

use tcpx_core::{
    Access, MemoryAddress, MemoryId, MemoryType, Post, Session, SessionOptions, Transfer,
};
use tcpx_p2p::{
    TCPX_PTR_HOST, tcpx_session, tcpx_session_accept, tcpx_session_connect, tcpx_session_create,
    tcpx_session_create_transfer, tcpx_session_destroy, tcpx_session_listen,
    tcpx_session_load_remote_conn_info, tcpx_session_register_memory, tcpx_status, tcpx_transfer,
    tcpx_transfer_cancel, tcpx_transfer_is_complete, tcpx_transfer_post_send,
    tcpx_transfer_release,
};

/// Calls timed at a stretch.
const CALLS: usize = 256;
/// Overhead of one post and one question for completion, in nanoseconds.
const BAR_NS: f64 = 100.0;

static MEMORY: [u8; 4096] = [7; 4096];

/// Way to make the two calls.
trait Subject {
    fn post(&self, tag: i32);
    fn is_complete(&self) -> bool;
    /// Withdraws the posted sends, outside the measured time.
    fn clear(&self);
}

struct Rust {
    transfer: Transfer,
    memory: MemoryId,
}

impl Subject for Rust {
    fn post(&self, tag: i32) {
        let post = Post { memory: self.memory, offset: 0, bytes: 64, tag: tag.into() };
        self.transfer.post_send(post).expect("the peer is up");
    }

    fn is_complete(&self) -> bool {
        self.transfer.is_complete().expect("nothing has failed")
    }

    fn clear(&self) {
        self.transfer.cancel();
    }
}

struct C {
    transfer: tcpx_transfer,
    memory: u64,
}

impl Subject for C {
    fn post(&self, tag: i32) {
        ok(tcpx_transfer_post_send(self.transfer, self.memory, 0, 64, tag));
    }

    fn is_complete(&self) -> bool {
        let mut complete = false;
        // SAFETY: the output is local.
        ok(unsafe { tcpx_transfer_is_complete(self.transfer, &raw mut complete) });
        complete
    }

    fn clear(&self) {
        ok(tcpx_transfer_cancel(self.transfer));
    }
}

fn ok(status: tcpx_status) {
    assert_eq!(status, tcpx_status::TCPX_OK);
}

/// Returns two sessions of core, and a transfer of the session that connected.
fn rust_pair() -> (Session, Session) {
    let left = Session::new(SessionOptions::default()).expect("the software plugin is built in");
    let right = Session::new(SessionOptions::default()).expect("the software plugin is built in");
    let info = left.listen().expect("a port is free");
    right.load_remote_conn_info("left", &info).expect("fresh bytes");
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| left.accept("right"));
        right.connect("left").expect("loopback works");
        accepted.join().expect("no panic").expect("loopback works");
    });
    (left, right)
}

/// Returns the same through the C ABI.
fn c_pair() -> (tcpx_session, tcpx_session) {
    let (mut left, mut right) = (tcpx_session::default(), tcpx_session::default());
    let (mut info, mut size) = ([0u8; 4096], 0usize);
    let (left_name, right_name) = (CString::from(c"left"), CString::from(c"right"));
    // SAFETY: outputs and buffers are local and as large as said; names end with NUL.
    unsafe {
        ok(tcpx_session_create(std::ptr::null(), &raw mut left));
        ok(tcpx_session_create(std::ptr::null(), &raw mut right));
        ok(tcpx_session_listen(left, info.as_mut_ptr().cast(), info.len(), &raw mut size));
        let bytes = info.as_ptr().cast();
        ok(tcpx_session_load_remote_conn_info(right, left_name.as_ptr(), bytes, size));
    }
    std::thread::scope(|scope| {
        // SAFETY: the name ends with NUL.
        let accepted = scope.spawn(|| unsafe { tcpx_session_accept(left, right_name.as_ptr()) });
        // SAFETY: as above.
        ok(unsafe { tcpx_session_connect(right, left_name.as_ptr()) });
        ok(accepted.join().expect("no panic"));
    });
    (left, right)
}

/// Returns the nanoseconds of a call: posting, asking.
fn round(subject: &dyn Subject) -> (f64, f64) {
    let started = Instant::now();
    for tag in 0..CALLS {
        subject.post(tag as i32);
    }
    let posted = started.elapsed();
    let started = Instant::now();
    for _ in 0..CALLS {
        assert!(!subject.is_complete(), "the sends have no counterpart");
    }
    let asked = started.elapsed();
    subject.clear();
    (posted.as_nanos() as f64 / CALLS as f64, asked.as_nanos() as f64 / CALLS as f64)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs rounds of both in turns. Returns the nanoseconds of (Rust post, C post, Rust complete, C
/// complete).
fn measure(rust: &Rust, c: &C, rounds: usize) -> [f64; 4] {
    let mut all: [Vec<f64>; 4] = Default::default();
    for number in 0..rounds {
        let (first, second): (&dyn Subject, &dyn Subject) =
            if number % 2 == 0 { (rust, c) } else { (c, rust) };
        let (first, second) = (round(first), round(second));
        let (rust, c) = if number % 2 == 0 { (first, second) } else { (second, first) };
        for (values, value) in all.iter_mut().zip([rust.0, c.0, rust.1, c.1]) {
            values.push(value);
        }
    }
    all.map(median)
}

#[allow(clippy::print_stdout, reason = "a program's output")]
fn main() -> ExitCode {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (rust_left, rust_right) = rust_pair();
    let (c_left, c_right) = c_pair();
    let address = MEMORY.as_ptr();
    // SAFETY: a static that no thread writes, registered for sending.
    let memory = unsafe {
        let address = MemoryAddress::from_ptr(address);
        rust_right.register_memory(address, 4096, MemoryType::Host, Access::ReadOnly)
    };
    let transfer = rust_right.create_transfer("left").expect("the peer is up");
    let rust = Rust { transfer, memory: memory.expect("the memory is there") };
    let mut c = C { transfer: tcpx_transfer::default(), memory: 0 };
    // SAFETY: as above; outputs are local, the name ends with NUL.
    unsafe {
        let address = address.cast_mut().cast();
        ok(tcpx_session_register_memory(
            c_right,
            address,
            4096,
            TCPX_PTR_HOST,
            0,
            &raw mut c.memory,
        ));
        ok(tcpx_session_create_transfer(c_right, c"left".as_ptr(), &raw mut c.transfer));
    }

    measure(&rust, &c, 3);
    let [rust_post, c_post, rust_ask, c_ask] = measure(&rust, &c, if is_bench { 2001 } else { 3 });
    let overhead = (c_post - rust_post) + (c_ask - rust_ask);
    println!(
        "post_send     rust {rust_post:8.1} ns   C {c_post:8.1} ns   {:+.1} ns",
        c_post - rust_post
    );
    println!(
        "is_complete   rust {rust_ask:8.1} ns   C {c_ask:8.1} ns   {:+.1} ns",
        c_ask - rust_ask
    );
    println!("together      {overhead:+.1} ns");

    ok(tcpx_transfer_release(c.transfer));
    drop(rust);
    std::thread::scope(|scope| {
        scope.spawn(|| drop(rust_left));
        drop(rust_right);
        scope.spawn(|| ok(tcpx_session_destroy(c_left)));
        ok(tcpx_session_destroy(c_right));
    });
    if is_bench && overhead > BAR_NS {
        println!("the bar of {BAR_NS} ns is missed");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
