//! Several comms at once over the raw table: random sizes and memory, every shape, every fault that
//! a caller can get over, with and without helper threads. Every byte is verified; at the end of
//! each lap files and threads are what they were and no bounce page is missing, and memory does not
//! grow.
//!
//! A lap by itself, ten seconds of them in the deep tier, `TCPX_SOAK_SECONDS=600` for a real soak.
//! The seed is printed at the end and where it fails, and can be set with `TCPX_SOAK_SEED`.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, ptr, thread};

use tcpx_softnet::{Entry, Settings, ZeroCopy, pool_stats};
use tcpx_softnet_faults::{Fault, FaultScript, Shape};
use tcpx_sys::PTR_HOST;
use tcpx_testkit::pattern::first_difference;
use tcpx_testkit::{PATIENCE, Random, again, process, until};

use crate::support::{self, KINDS, Memory, Net, PluginPtr, Receiver, Sender, blank_device};

const COMMS: u64 = 4;
const MAX_BYTES: usize = 4 << 20;
const MAX_MESSAGES: usize = 24;
/// Laps before memory is measured for the first time: allocators keep what threads once used.
const WARM_UP_LAPS: u64 = 2;
const GROWTH_BYTES: u64 = 128 << 20;
/// What a scripted call returns; the plugin itself never does.
const SCRIPTED: c_int = 7;

const SECONDS: &str = "TCPX_SOAK_SECONDS";
const SEED: &str = "TCPX_SOAK_SEED";

static MESSAGES: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static FAULTS_MET: AtomicU64 = AtomicU64::new(0);

/// Small, middle and large ones, empty ones too.
fn bytes(random: &mut Random) -> usize {
    let limit = random.pick(&[9, 10_000, 300_000, MAX_BYTES + 1]);
    random.below(limit)
}

fn number(variable: &str, default: u64) -> u64 {
    env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A few calls of every entry that a caller can repeat.
fn faults(random: &mut Random) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (entry, calls) in [
        (Entry::Connect, 300),
        (Entry::Accept, 300),
        (Entry::RegMr, 300),
        (Entry::DeregMr, 300),
        (Entry::Isend, 300),
        (Entry::Irecv, 300),
        (Entry::Iflush, 300),
        (Entry::Test, 5000),
        (Entry::IrecvConsumed, 300),
        (Entry::CloseTransfer, 30),
        (Entry::CloseListen, 15),
    ] {
        faults.extend((0..5).map(|_| Fault::Return {
            entry,
            call: 1 + random.below(calls) as u64,
            code: SCRIPTED,
        }));
    }
    faults
}

fn soaking(settings: &mut Settings, script: &mut FaultScript, helpers: &str, random: &mut Random) {
    settings.chunk_bytes = 65_536 << random.below(4);
    settings.sockets = 1 + random.below(8) as u16;
    settings.threads = 1 + random.below(3) as u16;
    settings.recv_sync = random.below(2) == 1;
    settings.helpers = helpers.parse().expect("0 or 1");
    settings.zerocopy = random.pick(&[ZeroCopy::Off, ZeroCopy::Auto, ZeroCopy::On]);
    // A few of the largest messages fill it.
    settings.pool_bytes = 32 << 20;
    script.shape = Shape::ALL;
    script.seed = random.next();
    script.faults = faults(random);
}

/// Repeats a call until it returns something else than the script's code, which must be 0.
fn repeat<R>(mut call: impl FnMut() -> (c_int, R)) -> R {
    loop {
        match call() {
            (0, answer) => return answer,
            (SCRIPTED, _) => drop(FAULTS_MET.fetch_add(1, Ordering::Relaxed)),
            (rc, _) => panic!("rc {rc}"),
        }
    }
}

fn repeat_rc(mut call: impl FnMut() -> c_int) {
    repeat(|| (call(), ()));
}

fn finish(net: Net, request: PluginPtr) {
    until("it is done", || repeat(|| net.test(request)) == 1);
}

fn pair(net: Net) -> (Sender, Receiver) {
    let (mut handle, listen) = net.listen();
    let mut device = blank_device();
    let (mut send, mut recv): (PluginPtr, PluginPtr) = (ptr::null_mut(), ptr::null_mut());
    until("both have a comm", || {
        if send.is_null() {
            send = repeat(|| net.connect(&mut handle));
        }
        if recv.is_null() {
            recv = repeat(|| net.accept(listen, &mut device));
        }
        !send.is_null() && !recv.is_null()
    });
    repeat_rc(|| net.close_listen(listen));
    (Sender { net, comm: send }, Receiver::new(net, recv, device.handle.cast()))
}

/// One message, as both ends draw it.
struct Message {
    bytes: usize,
    salt: usize,
    send_kind: c_int,
    recv_kind: c_int,
    /// Bytes by which it misses the start of a page, at the sender and at the receiver.
    shift: [usize; 2],
}

struct MessageRound {
    messages: Vec<Message>,
    windows: [usize; 2],
}

impl MessageRound {
    fn draw(random: &mut Random) -> Self {
        let count = 1 + random.below(MAX_MESSAGES);
        let windows = [random.below(16), random.below(16)].map(|window| 1 + window);
        let mut message = || Message {
            bytes: bytes(random),
            salt: random.below(1 << 30),
            send_kind: random.pick(&KINDS),
            recv_kind: random.pick(&KINDS),
            shift: [random.below(64), random.below(64)],
        };
        Self { messages: (0..count).map(|_| message()).collect(), windows }
    }

    fn send(&self, sender: Sender) {
        let Sender { net, comm } = sender;
        let mut flying: VecDeque<(Memory, PluginPtr, PluginPtr)> = VecDeque::new();
        let land = |flight: Option<(Memory, PluginPtr, PluginPtr)>| {
            let (memory, mhandle, request) = flight.expect("a request");
            finish(net, request);
            repeat_rc(|| net.deregister(comm, mhandle));
            drop(memory);
        };
        for message in &self.messages {
            if flying.len() == self.windows[0] {
                land(flying.pop_front());
            }
            let (bytes, shift) = (message.bytes, message.shift[0]);
            let mut memory = Memory::shifted(bytes, message.salt, shift);
            let data = memory.data();
            let mhandle = repeat(|| net.register(comm, data, bytes + shift, message.send_kind));
            let place = data.wrapping_add(shift);
            flying.push_back((
                memory,
                mhandle,
                repeat(|| net.isend(comm, place, bytes as c_int, mhandle)),
            ));
        }
        while !flying.is_empty() {
            land(flying.pop_front());
        }
        repeat_rc(|| net.close(comm));
    }

    fn receive(&self, mut receiver: Receiver) {
        let (net, comm) = (receiver.net, receiver.comm);
        let mut posted = VecDeque::new();
        let mut waiting = self.messages.iter();
        for message in &self.messages {
            while posted.len() < self.windows[1]
                && let Some(next) = waiting.next()
            {
                posted.push_back(self.post(&mut receiver, next));
            }
            let (memory, mhandle, number, request) = posted.pop_front().expect("a receive");
            finish(net, request);
            let bytes = message.bytes;
            assert_eq!(repeat(|| net.received(comm, request)), bytes as c_int);
            let seed = message.salt as u64;
            let wrong = if message.recv_kind == PTR_HOST {
                first_difference(seed, 0, &memory.bytes()[message.shift[1]..][..bytes])
            } else {
                first_difference(seed, 0, &receiver.unpack(number, bytes))
            };
            assert_eq!(wrong, None, "a byte of {bytes}");
            repeat_rc(|| net.consumed(comm, request));
            repeat_rc(|| net.deregister(comm, mhandle));
            MESSAGES.fetch_add(1, Ordering::Relaxed);
            BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        repeat_rc(|| net.close(comm));
    }

    fn post(
        &self,
        receiver: &mut Receiver,
        message: &Message,
    ) -> (Memory, PluginPtr, u64, PluginPtr) {
        let (net, comm, shift) = (receiver.net, receiver.comm, message.shift[1]);
        let mut memory = Memory::new(message.bytes + shift);
        let data = memory.data();
        let kind = message.recv_kind;
        let mhandle = repeat(|| net.register(comm, data, message.bytes + shift, kind));
        let place = data.wrapping_add(shift);
        let (number, request) = repeat(|| receiver.try_post(place, message.bytes, mhandle));
        (memory, mhandle, number, request)
    }
}

fn lap(net: Net, random: &mut Random) {
    thread::scope(|scope| {
        for _ in 0..COMMS {
            let mut random = Random::new(random.next());
            scope.spawn(move || {
                let round = &MessageRound::draw(&mut random);
                let (sender, receiver) = pair(net);
                thread::scope(|ends| {
                    let sending = ends.spawn(move || round.send(sender));
                    round.receive(receiver);
                    sending.join().expect("the sender");
                });
            });
        }
    });
}

/// Open files and threads.
fn footprint() -> [usize; 2] {
    ["/proc/self/fd", "/proc/self/task"]
        .map(|folder| std::fs::read_dir(folder).expect("procfs").count())
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("procfs");
    let pages: u64 = statm.split(' ').nth(1).and_then(|text| text.parse().ok()).expect("a number");
    pages * 4096
}

/// Runs at least `least` laps, and more of them for `seconds` seconds.
fn laps(helpers: &str, least: u64, seconds: u64) -> String {
    let seed = number(SEED, 1) * 2 + u64::from(helpers == "1");
    let mut random = Random::new(seed);
    let net =
        support::faulty_net(|settings, script| soaking(settings, script, helpers, &mut random));
    let (before, mut settled) = (footprint(), 0);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut laps = 0;
    while laps < least || Instant::now() < end {
        lap(net, &mut random);
        laps += 1;
        // A joined thread is in the list of tasks until the kernel has let go of it.
        until("files and threads are what they were", || footprint() == before);
        let pool = pool_stats();
        assert_eq!(pool.free_pages, pool.total_pages, "bounce pages were lost in lap {laps}");
        if laps <= WARM_UP_LAPS {
            settled = resident_bytes();
        }
    }
    let (messages, met) = (MESSAGES.load(Ordering::Relaxed), FAULTS_MET.load(Ordering::Relaxed));
    let (grown, bytes) = (resident_bytes().saturating_sub(settled), BYTES.load(Ordering::Relaxed));
    let summary = format!(
        "{SEED}={seed}: {laps} laps, {messages} messages, {} MB, {met} scripted codes, {before:?} \
         files and threads, {} MB more memory",
        bytes / 1_000_000,
        grown / 1_000_000
    );
    assert!(messages >= laps * COMMS && met > 0, "{summary}");
    assert!(grown < GROWTH_BYTES, "memory grew by {grown} bytes: {summary}");
    summary
}

#[test]
fn one_soak_lap() {
    println!("{}", laps(&in_own_processes!(["0", "1"]), 1, 0));
}

#[test]
#[ignore = "deep: laps for ten seconds, or as many as TCPX_SOAK_SECONDS says"]
fn soak() {
    let seconds = number(SECONDS, 10).div_ceil(2);
    if let Some(helpers) = process::role() {
        return println!("{}", laps(&helpers, WARM_UP_LAPS + 1, seconds));
    }
    // One after the other: side by side they would fight for the processors.
    for helpers in ["0", "1"] {
        let limit = Duration::from_secs(seconds) + 2 * PATIENCE;
        let output = process::finish(&mut again!(helpers), limit);
        let text = process::printed(&output);
        println!("{text}");
        assert!(output.status.success() && text.contains("1 passed"), "helpers {helpers}");
    }
}
