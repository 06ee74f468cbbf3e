//! A decode host fetches a key-value cache from a prefill host, which does nothing for it: it
//! exports its cache of 10,000 blocks and waits. The decode host reads all of them in one
//! operation, in an order of its own. It changes every third block, writes it back, and sends a
//! notification.
//!
//! ```text
//! kv_pull server [PORT]          the prefill host: exports, prints its port
//! kv_pull client HOST PORT       the decode host: reads and writes
//! ```
#![allow(clippy::print_stdout, reason = "a program's output")]

mod bootstrap;

use std::error::Error;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use bootstrap::{receive_blob, send_blob};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;
use tcpx_core::{
    ExportOptions, MemoryId, MemoryRange, MemoryType, Notification, OperationKind, RemoteAccess,
    RemoteKey, RemoteRange, Session, SessionOptions,
};

const BLOCKS: u64 = 10_000;
const BLOCK_BYTES: u64 = 4096;
const BLOCK_WORDS: u64 = BLOCK_BYTES / 8;
const CACHE_BYTES: u64 = BLOCKS * BLOCK_BYTES;
const CHANGED_EACH: usize = 3;
const NOTE: &[u8] = b"every third block";
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the content of a word of a block: a swap of blocks or words is found.
fn word_of(block: u64, index: u64) -> u64 {
    (block * BLOCK_WORDS + index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns its content after the change of the decode host.
fn changed_word(block: u64, index: u64) -> u64 {
    !word_of(block, index)
}

/// Returns the slot of a block: a permutation, since the factor is prime to the number of blocks.
fn prefill_offset(block: u64) -> u64 {
    (block * 7919) % BLOCKS * BLOCK_BYTES
}

fn decode_offset(block: u64) -> u64 {
    (block * 4001 + 17) % BLOCKS * BLOCK_BYTES
}

/// A session in which a thread makes progress: the prefill host is served while it sleeps.
fn session() -> tcpx_core::Result<Session> {
    Session::new(SessionOptions::default())
}

/// Writes blocks into the cache.
fn fill(
    session: &Session,
    cache: MemoryId,
    blocks: impl Iterator<Item = u64>,
    offset: fn(u64) -> u64,
    word: fn(u64, u64) -> u64,
) -> tcpx_core::Result<()> {
    for block in blocks {
        let words = (0..BLOCK_WORDS).flat_map(|index| word(block, index).to_le_bytes());
        session.write_memory(cache, offset(block), &words.collect::<Vec<u8>>())?;
    }
    Ok(())
}

/// Reads every block of the cache, and says which one is wrong.
fn verify(
    session: &Session,
    cache: MemoryId,
    offset: fn(u64) -> u64,
    word: impl Fn(u64, u64) -> u64,
) -> Result<(), Box<dyn Error>> {
    let mut bytes = vec![0; CACHE_BYTES as usize];
    session.read_memory(cache, 0, &mut bytes)?;
    for block in 0..BLOCKS {
        let expected = (0..BLOCK_WORDS).flat_map(|index| word(block, index).to_le_bytes());
        let found = &bytes[offset(block) as usize..][..BLOCK_BYTES as usize];
        if !expected.eq(found.iter().copied()) {
            return Err(format!("block {block} is wrong").into());
        }
    }
    Ok(())
}

/// Returns the next notification. The program sleeps meanwhile.
fn await_note(session: &Session) -> Result<Notification, Box<dyn Error>> {
    let patience = Timespec::try_from(PATIENCE)?;
    let mut notes = Vec::new();
    loop {
        // This makes the descriptor unreadable until something happens.
        session.poll_completions(&mut Vec::new(), 0)?;
        session.poll_notifications(&mut notes, 1)?;
        if let Some(note) = notes.pop() {
            return Ok(note);
        }
        let descriptor = session.event_fd()?;
        if poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&patience))? == 0 {
            return Err("the decode host says nothing".into());
        }
    }
}

fn server(port: u16) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?;
    // On Linux this also limits how long `accept` waits.
    SockRef::from(&listener).set_read_timeout(Some(PATIENCE))?;
    println!("port {}", listener.local_addr()?.port());

    let session = session()?;
    let conn_info = session.listen()?;
    let cache = session.allocate(CACHE_BYTES, MemoryType::Device)?;
    fill(&session, cache, 0..BLOCKS, prefill_offset, word_of)?;
    let key = session.export(cache, ExportOptions::new(RemoteAccess::ReadWrite))?;
    let (mut decode, _) = listener.accept().map_err(|error| format!("no client came: {error}"))?;
    // A peer with the key and the connection info may read and write the blocks.
    send_blob(&mut decode, &conn_info)?;
    send_blob(&mut decode, &key.serialize())?;
    session.accept("decode")?;

    let note = await_note(&session)?;
    if (note.peer.as_str(), &note.bytes[..]) != ("decode", NOTE) {
        return Err(format!("this is not the notification: {note:?}").into());
    }
    // No peer reads or writes them any more.
    session.unexport(&key)?;
    verify(&session, cache, prefill_offset, |block, index| {
        let is_changed = block % CHANGED_EACH as u64 == 0;
        if is_changed { changed_word(block, index) } else { word_of(block, index) }
    })?;
    println!("every third of {BLOCKS} blocks was changed\nPASSED");
    session.disconnect("decode")?;
    Ok(())
}

/// Moves blocks between this cache and the one that the key leads to, as one operation.
fn move_blocks(
    session: &Session,
    kind: OperationKind,
    cache: MemoryId,
    key: &RemoteKey,
    blocks: impl Iterator<Item = u64> + Clone,
    note: Option<&[u8]>,
) -> tcpx_core::Result<()> {
    let bytes = BLOCK_BYTES;
    let here = |block| MemoryRange { memory: cache, offset: decode_offset(block), bytes };
    let there = |block| RemoteRange { key, offset: prefill_offset(block), bytes };
    let local: Vec<_> = blocks.clone().map(here).collect();
    let remote: Vec<_> = blocks.map(there).collect();
    let operation = session.prepare("prefill", kind, &local, &remote)?;
    let started = Instant::now();
    operation.post(note)?;
    operation.wait(Some(PATIENCE))?;
    let (took, moved) = (started.elapsed().as_secs_f64(), local.len() as u64 * BLOCK_BYTES);
    println!(
        "{kind:?}: {} blocks of {BLOCK_BYTES} bytes in {:.1} ms, {:.2} GB/s",
        local.len(),
        took * 1e3,
        moved as f64 / took / 1e9
    );
    Ok(())
}

fn client(host: &str, port: u16) -> Result<(), Box<dyn Error>> {
    let mut prefill = TcpStream::connect((host, port))?;
    prefill.set_read_timeout(Some(PATIENCE))?;

    let session = session()?;
    session.load_remote_conn_info("prefill", &receive_blob(&mut prefill)?)?;
    let key = RemoteKey::deserialize(&receive_blob(&mut prefill)?)?;
    session.connect("prefill")?;
    let cache = session.allocate(CACHE_BYTES, MemoryType::Device)?;

    move_blocks(&session, OperationKind::Read, cache, &key, 0..BLOCKS, None)?;
    verify(&session, cache, decode_offset, word_of)?;
    let changed = || (0..BLOCKS).step_by(CHANGED_EACH);
    fill(&session, cache, changed(), decode_offset, changed_word)?;
    move_blocks(&session, OperationKind::Write, cache, &key, changed(), Some(NOTE))?;
    println!("PASSED");
    session.disconnect("prefill")?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["server"] => server(0),
        ["server", port] => server(port.parse()?),
        ["client", host, port] => client(host, port.parse()?),
        _ => Err("usage: kv_pull server [PORT] | client HOST PORT".into()),
    }
}
