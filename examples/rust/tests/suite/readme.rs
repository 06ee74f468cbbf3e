//! Tests of the README's program in Rust: it is the one below, and moves its bytes.

use std::time::Duration;

use tcpx_core::{MemoryType, Post, Session, SessionOptions};
use tcpx_testkit::PATIENCE;

fn send(info: &[u8], bytes: &[u8]) -> tcpx_core::Result<()> {
    let session = Session::new(SessionOptions::default())?;
    session.load_remote_conn_info("receiver", info)?; // what its `listen` returned
    session.connect("receiver")?;
    let memory = session.allocate(bytes.len() as u64, MemoryType::Device)?;
    session.write_memory(memory, 0, bytes)?;
    let transfer = session.create_transfer("receiver")?;
    transfer.post_send(Post { memory, offset: 0, bytes: bytes.len() as u64, tag: 42 })?;
    transfer.wait(Some(Duration::from_secs(30)))
}

#[test]
fn the_readme_shows_this_function() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let (_, block) = readme.split_once("```rust\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    assert!(include_str!("readme.rs").contains(block), "{block}");
    assert!(block.starts_with("fn send(") && block.lines().count() <= 11, "{block}");
}

#[test]
fn the_programs_message_arrives() {
    // Long enough that it is not complete before an end receives it.
    let message: Vec<u8> = (0..1_000_003_u32).map(|byte| (byte % 251) as u8).collect();
    let session = Session::new(SessionOptions::default()).unwrap();
    let info = session.listen().unwrap();
    let sent = message.clone();
    let sender = std::thread::spawn(move || send(&info, &sent));
    session.accept("sender").unwrap();
    let bytes = message.len() as u64;
    let memory = session.allocate(bytes, MemoryType::Device).unwrap();
    let transfer = session.create_transfer("sender").unwrap();
    transfer.post_recv(Post { memory, offset: 0, bytes, tag: 42 }).unwrap();
    transfer.wait(Some(PATIENCE)).unwrap();
    let mut received = vec![0; message.len()];
    session.read_memory(memory, 0, &mut received).unwrap();
    assert!(received == message, "other bytes came");
    sender.join().unwrap().unwrap();
}
