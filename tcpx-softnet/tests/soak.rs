//! Several comms at once over the raw table: random sizes and memory, every shape, every fault that
//! a caller can get over, with and without helper threads. Every byte is verified; at the end of
//! each lap files and threads are what they were and no bounce page is missing, and memory does not
//! grow.
//!
//! Runs for five seconds; `TCPX_SOAK_SECONDS=600` for a real soak. The seed is printed and can be
//! set with `TCPX_SOAK_SEED`.

mod support;

use std::collections::VecDeque;
use std::env;
use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use support::{KINDS, Memory, Net, Receiver, Sender, Word, blank_device, pattern, settings};
use tcpx_softnet::{Entry, Fault, Helpers, Settings, Shape, ZeroCopy, pool_stats};
use tcpx_sys::PTR_HOST;

const COMMS: u64 = 4;
const MAX_BYTES: u64 = 4 << 20;
const MAX_MESSAGES: u64 = 24;
/// Laps before memory is measured for the first time: allocators keep what threads once used.
const WARM_UP_LAPS: u64 = 2;
const GROWTH_BYTES: u64 = 128 << 20;
/// What a scripted call returns; the plugin itself never does.
const SCRIPTED: c_int = 7;
/// One step may wait for the pages and the processors of all the others.
const PATIENCE: Duration = Duration::from_secs(300);

const HELPERS: &str = "SOAK_TEST_HELPERS";
const SECONDS: &str = "TCPX_SOAK_SECONDS";
const SEED: &str = "TCPX_SOAK_SEED";

static MESSAGES: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static FAULTS_MET: AtomicU64 = AtomicU64::new(0);

/// SplitMix64: a test's dice.
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }

    /// Small, middle and large ones, empty ones too.
    fn bytes(&mut self) -> usize {
        let bytes = match self.roll(4) {
            0 => self.roll(9),
            1 => self.roll(10_000),
            2 => self.roll(300_000),
            _ => self.roll(MAX_BYTES + 1),
        };
        bytes as usize
    }
}

fn number(variable: &str, default: u64) -> u64 {
    env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A few calls of every entry that a caller can repeat.
fn faults(dice: &mut Dice) -> Vec<Fault> {
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
            call: 1 + dice.roll(calls),
            code: SCRIPTED,
        }));
    }
    faults
}

fn soaking(dice: &mut Dice) -> Settings {
    let mut settings = settings();
    settings.connect_timeout = PATIENCE;
    settings.chunk_bytes = 65_536 << dice.roll(4);
    settings.sockets = 1 + dice.roll(8) as u16;
    settings.threads = 1 + dice.roll(3) as u16;
    settings.recv_sync = dice.roll(2) == 1;
    settings.helpers =
        if env::var(HELPERS).is_ok_and(|on| on == "1") { Helpers::On } else { Helpers::Off };
    settings.zerocopy = [ZeroCopy::Off, ZeroCopy::Auto, ZeroCopy::On][dice.roll(3) as usize];
    // A few of the largest messages fill it.
    settings.pool_bytes = 32 << 20;
    settings.script.shape = Shape::ALL;
    settings.script.seed = dice.roll(u64::MAX);
    settings.script.faults = faults(dice);
    settings
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

/// Repeats until there is an answer.
fn wait<R>(mut look: impl FnMut() -> Option<R>) -> R {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = look() {
            return answer;
        }
        assert!(Instant::now() < deadline, "took too long");
        thread::yield_now();
    }
}

fn finish(net: Net, request: Word) {
    wait(|| (repeat(|| net.test(request)) == 1).then_some(()));
}

fn pair(net: Net) -> (Sender, Receiver) {
    let (mut handle, listen) = net.listen();
    let mut device = blank_device();
    let (mut send, mut recv): (Word, Word) = (ptr::null_mut(), ptr::null_mut());
    wait(|| {
        if send.is_null() {
            send = repeat(|| net.connect(&mut handle));
        }
        if recv.is_null() {
            recv = repeat(|| net.accept(listen, &mut device));
        }
        (!send.is_null() && !recv.is_null()).then_some(())
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

struct Round {
    messages: Vec<Message>,
    windows: [usize; 2],
}

impl Round {
    fn draw(dice: &mut Dice) -> Self {
        let count = 1 + dice.roll(MAX_MESSAGES);
        let windows = [dice.roll(16), dice.roll(16)].map(|window| 1 + window as usize);
        let mut message = || Message {
            bytes: dice.bytes(),
            salt: dice.roll(1 << 30) as usize,
            send_kind: KINDS[dice.roll(2) as usize],
            recv_kind: KINDS[dice.roll(2) as usize],
            shift: [dice.roll(64), dice.roll(64)].map(|shift| shift as usize),
        };
        Self { messages: (0..count).map(|_| message()).collect(), windows }
    }

    fn send(&self, sender: Sender) {
        let Sender { net, comm } = sender;
        let mut flying: VecDeque<(Memory, Word, Word)> = VecDeque::new();
        let land = |flight: Option<(Memory, Word, Word)>| {
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
            let mut memory = Memory::patterned(bytes + shift, message.salt);
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
            let sent = |place: usize| pattern(place + message.shift[0], message.salt);
            let wrong = if message.recv_kind == PTR_HOST {
                let landed = &memory.bytes()[message.shift[1]..][..bytes];
                (0..bytes).find(|&place| landed[place] != sent(place))
            } else {
                let landed = receiver.unpack(number, bytes);
                (0..bytes).find(|&place| landed[place] != sent(place))
            };
            assert_eq!(wrong, None, "a byte of {bytes}");
            repeat_rc(|| net.consumed(comm, request));
            repeat_rc(|| net.deregister(comm, mhandle));
            MESSAGES.fetch_add(1, Ordering::Relaxed);
            BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        repeat_rc(|| net.close(comm));
    }

    fn post(&self, receiver: &mut Receiver, message: &Message) -> (Memory, Word, u64, Word) {
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

fn lap(net: Net, dice: &mut Dice) {
    thread::scope(|scope| {
        for _ in 0..COMMS {
            let mut dice = Dice(dice.roll(u64::MAX));
            scope.spawn(move || {
                let round = &Round::draw(&mut dice);
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

#[test]
#[ignore = "a process of the soak"]
fn laps() {
    let (seconds, seed) = (number(SECONDS, 5), number(SEED, 1));
    let mut dice = Dice(seed);
    let net = support::net(|| soaking(&mut dice));
    let (before, mut settled) = (footprint(), 0);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut laps = 0;
    while laps < WARM_UP_LAPS || Instant::now() < end {
        lap(net, &mut dice);
        laps += 1;
        // A joined thread is in the list of tasks until the kernel has let go of it.
        let give_up_at = Instant::now() + PATIENCE;
        while footprint() != before && Instant::now() < give_up_at {
            thread::yield_now();
        }
        assert_eq!(footprint(), before, "files and threads after lap {laps}");
        let pool = pool_stats();
        assert_eq!(pool.free_pages, pool.total_pages, "bounce pages were lost in lap {laps}");
        if laps == WARM_UP_LAPS {
            settled = resident_bytes();
        }
    }
    let (messages, met) = (MESSAGES.load(Ordering::Relaxed), FAULTS_MET.load(Ordering::Relaxed));
    let (grown, bytes) = (resident_bytes().saturating_sub(settled), BYTES.load(Ordering::Relaxed));
    support::say(&format!(
        "{SEED}={seed} {HELPERS}={}: {laps} laps, {messages} messages, {} MB, \
         {met} scripted codes, {before:?} files and threads, {} MB more memory",
        env::var(HELPERS).unwrap_or_default(),
        bytes / 1_000_000,
        grown / 1_000_000
    ));
    assert!(messages >= laps * COMMS && met > 0);
    assert!(grown < GROWTH_BYTES, "memory grew by {grown} bytes");
}

#[test]
fn soak() {
    let seed = number(SEED, 1);
    // One after the other: side by side they would fight for the processors.
    for helpers in ["0", "1"] {
        let seconds = (number(SECONDS, 5).div_ceil(2)).to_string();
        let seed = (seed * 2 + u64::from(helpers == "1")).to_string();
        let variables = [(HELPERS, helpers), (SECONDS, &*seconds), (SEED, &*seed)];
        let mut child = support::spawn_peer("laps", &variables);
        let mut out = child.stdout.take().expect("stdout");
        let text = std::io::read_to_string(&mut out).expect("output");
        let status = child.wait().expect("child");
        println!("{text}");
        assert!(status.success() && text.contains("1 passed"), "helpers {helpers}, seed {seed}");
    }
}
