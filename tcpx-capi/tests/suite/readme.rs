//! Test that the README's program in C++ receives, unchanged, what a session sends.

use tcpx_core::{MemoryType, Post, Session, SessionOptions};
use tcpx_testkit::PATIENCE;
use tempfile::TempDir;

use crate::program::Program;
use crate::toolchain::{CLANGXX, Compiler, GXX, Linkage, Workshop, root};

/// Code around the function: it hands out the connection info, and checks what was received.
const BEFORE: &str = r#"#include "tcpx_p2p.hpp"
#include <cstdio>
static void give(const std::string& info) {
  std::printf("port ");
  for (const char byte : info) std::printf("%02x", static_cast<unsigned char>(byte));
  std::printf("\n");
  std::fflush(stdout);
}
"#;
const AFTER: &str = r#"
int main() {
  std::vector<char> buffer(100003);
  receive(buffer);
  for (std::size_t at = 0; at < buffer.size(); ++at)
    if (buffer[at] != static_cast<char>(at % 127)) return 1;
  std::puts("PASSED");
}
"#;

fn from_hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn send(info: &[u8]) {
    let message: Vec<u8> = (0..100_003_u32).map(|byte| (byte % 127) as u8).collect();
    let session = Session::new(SessionOptions::default()).unwrap();
    session.load_remote_conn_info("receiver", info).unwrap();
    session.connect("receiver").unwrap();
    let bytes = message.len() as u64;
    let memory = session.allocate(bytes, MemoryType::Host).unwrap();
    session.write_memory(memory, 0, &message).unwrap();
    let transfer = session.create_transfer("receiver").unwrap();
    transfer.post_send(Post { memory, offset: 0, bytes, tag: 42 }).unwrap();
    transfer.wait(Some(PATIENCE)).unwrap();
}

fn readmes_program_receives(compiler: Compiler, linkage: Linkage) {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let (_, block) = readme.split_once("```cpp\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    assert!(block.lines().count() <= 11, "{block}");
    if !compiler.is_here() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let source = folder.path().join("readme.cpp");
    std::fs::write(&source, [BEFORE, block, AFTER].concat()).unwrap();
    let workshop = Workshop::new();
    let program = workshop.build(compiler, linkage, &source, &[]);
    let (receiver, info) = Program::serve(&program, &[]);
    send(&from_hex(&info));
    receiver.pass();
}

#[test]
fn the_readmes_program_receives() {
    readmes_program_receives(GXX, Linkage::Shared);
}

#[test]
#[ignore = "deep: all compilers"]
fn the_readmes_program_receives_from_clang_too() {
    readmes_program_receives(CLANGXX, Linkage::Static);
}
