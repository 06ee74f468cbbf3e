//! Messages that go to, and come from, host memory and a GPU's by turns, for the guest with NICs
//! that receive into device memory (tcpx-tests/doubles/devmem-vm.sh).
//!
//! ```text
//! turns receive ADDRESS FILE
//! turns send FILE
//! ```
//!
//! The receiver puts its connection info into the file, and verifies every byte, also around what
//! it was sent. All messages of a round are under way at once. The session's settings are those of
//! the environment. Over a CUDA driver that counts its calls, each end also verifies that messages
//! whose memory is registered make nothing there, and look nothing up but at the first time: such a
//! call may wait for another thread of a program, and takes longer than a chunk's unpacking.
#![allow(clippy::print_stdout, reason = "a program's output")]

use std::collections::BTreeMap;
use std::error::Error;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use tcpx_core::{MemoryId, MemoryType, Post, Session, SessionOptions};
use tcpx_cuda::{QUEUEING_CALLS, driver_calls, driver_calls_since};
use tcpx_testkit::pattern;

type Outcome = Result<(), Box<dyn Error>>;

/// An odd number of lengths, so that each goes to both kinds of memory.
const LENGTHS: [u64; 5] = [300_007, 1, 4097, 65_537, 700_001];
const MESSAGES: u64 = 12;
/// The first one registers the memory, and in the last one the other end may leave.
const ROUNDS: u64 = 4;
const MID_TRANSFER: Range<u64> = 1..ROUNDS - 1;
/// From the place of one message to that of the next.
const STEP: u64 = 768 << 10;
/// What lies around messages.
const MARK: u8 = 0xa5;
/// Longer than anything takes here.
const PATIENCE: Duration = Duration::from_secs(60);

/// What else may be called of the CUDA driver while messages are under way.
const ALLOWED: [&str; 1] = ["cuLaunchKernel"];

/// The calls of the CUDA driver in a part of the program, if it counts them.
struct Calls(Option<BTreeMap<String, u64>>);

impl Calls {
    fn begin() -> Self {
        Self(driver_calls())
    }

    /// How many there were since.
    ///
    /// # Errors
    /// One of them was none of those that are allowed.
    fn end(self) -> Result<u64, Box<dyn Error>> {
        let Some(before) = self.0 else { return Ok(0) };
        let mut count = 0;
        for (name, times) in driver_calls_since(&before) {
            if !QUEUEING_CALLS.contains(&name.as_str()) && !ALLOWED.contains(&name.as_str()) {
                return Err(format!("{name} was called {times} times in mid-transfer").into());
            }
            count += times;
        }
        Ok(count)
    }
}

/// Memory of both kinds, with a place for each message.
struct Memories {
    host: MemoryId,
    device: MemoryId,
}

impl Memories {
    fn new(session: &Session) -> Result<Self, Box<dyn Error>> {
        let allocate = |kind| session.allocate(MESSAGES * STEP, kind);
        Ok(Self { host: allocate(MemoryType::Host)?, device: allocate(MemoryType::Device)? })
    }

    /// The place of message `number` of `round`, in memory of the host or not.
    fn place(&self, is_host: bool, round: u64, number: u64) -> Post {
        let memory = if is_host { self.host } else { self.device };
        let bytes = LENGTHS[((round + number) % LENGTHS.len() as u64) as usize];
        // Messages begin anywhere in memory of the host.
        let offset = number * STEP + if is_host { 1 + number } else { 0 };
        Post { memory, offset, bytes, tag: 7 }
    }
}

/// What a message is made of.
fn seed(round: u64, number: u64) -> u64 {
    round * MESSAGES + number
}

fn receive(address: &str, file: &Path) -> Outcome {
    let options = SessionOptions::default().progress_thread(false).with_env()?;
    let listen = SocketAddr::new(address.parse()?, 0);
    let session = Session::new(options.listen(listen))?;
    let unfinished = file.with_extension("new");
    std::fs::write(&unfinished, session.listen()?)?;
    std::fs::rename(unfinished, file)?;
    session.accept("sender")?;
    let memories = Memories::new(&session)?;
    let transfer = session.create_transfer("sender")?;
    let mut calls = 0;
    for round in 0..ROUNDS {
        for memory in [memories.host, memories.device] {
            session.write_memory(memory, 0, &vec![MARK; (MESSAGES * STEP) as usize])?;
        }
        let posts: Vec<_> =
            (0..MESSAGES).map(|number| memories.place(number % 2 == 0, round, number)).collect();
        let before = Calls::begin();
        transfer.post_recv_batch(&posts)?;
        transfer.wait(Some(PATIENCE))?;
        if MID_TRANSFER.contains(&round) {
            calls += before.end()?;
        }
        for (number, post) in (0..).zip(&posts) {
            let mut found = vec![0; STEP as usize];
            session.read_memory(post.memory, number * STEP, &mut found)?;
            let before = (post.offset - number * STEP) as usize;
            let (before, found) = found.split_at(before);
            let (found, after) = found.split_at(post.bytes as usize);
            if let Some(at) = pattern::first_difference(seed(round, number), 0, found) {
                return Err(format!("round {round}: byte {at} of message {number} is wrong").into());
            }
            if before.iter().chain(after).any(|&byte| byte != MARK) {
                return Err(format!("round {round}: message {number} went beyond its end").into());
            }
        }
    }
    drop(transfer);
    session.disconnect("sender")?;
    println!("{} messages, {calls} calls of the driver in mid-transfer", ROUNDS * MESSAGES);
    Ok(())
}

fn send(file: &Path) -> Outcome {
    let session = Session::new(SessionOptions::default().progress_thread(false).with_env()?)?;
    session.load_remote_conn_info("receiver", &std::fs::read(file)?)?;
    session.connect("receiver")?;
    let memories = Memories::new(&session)?;
    let transfer = session.create_transfer("receiver")?;
    for round in 0..ROUNDS {
        // Two of each, so that each kind goes to both.
        let posts: Vec<_> = (0..MESSAGES)
            .map(|number| memories.place(number / 2 % 2 == 0, round, number))
            .collect();
        for (number, post) in (0..).zip(&posts) {
            let mut bytes = vec![0; post.bytes as usize];
            pattern::fill(seed(round, number), 0, &mut bytes);
            session.write_memory(post.memory, post.offset, &bytes)?;
        }
        let before = Calls::begin();
        transfer.post_send_batch(&posts)?;
        transfer.wait(Some(PATIENCE))?;
        if MID_TRANSFER.contains(&round) {
            before.end()?;
        }
    }
    drop(transfer);
    session.disconnect("receiver")?;
    Ok(())
}

fn main() -> Outcome {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["receive", address, file] => receive(address, Path::new(file)),
        ["send", file] => send(Path::new(file)),
        _ => Err("see the source for what it takes".into()),
    }
}
