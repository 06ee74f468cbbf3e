//! Two sessions of one process over the plugin that moves nothing: what is left is the library's own cost.

use std::path::PathBuf;
use std::thread;

use tcpx_core::{MemoryType, PluginChoice, Post, Session, SessionOptions};

/// Bytes of a chunk: as small as they can be, so that copying costs little.
pub const CHUNK_BYTES: u64 = 4096;

/// Two connected sessions with registered memory.
#[derive(Debug)]
pub struct NullPair {
    left: Session,
    right: Session,
    source: u64,
    target: u64,
}

/// Where cargo puts the plugin for a test or bench of this crate: beside it.
fn plugin() -> PathBuf {
    let mut path = std::env::current_exe().expect("a program knows where it is");
    path.pop();
    path.push("libtcpx_null_plugin.so");
    path
}

impl NullPair {
    /// Connects two sessions with memory for `chunks` chunks.
    ///
    /// # Panics
    /// When a step fails.
    #[must_use]
    pub fn new(chunks: u64, memory: MemoryType) -> Self {
        let session = || {
            Session::new(SessionOptions {
                plugin: PluginChoice::Path(plugin()),
                preflight: false,
                channels: 2,
                chunk_bytes: CHUNK_BYTES as u32,
                ..SessionOptions::default()
            })
            .expect("the plugin is built with this program")
        };
        let (left, right) = (session(), session());
        let conn_info = right.listen().expect("listen");
        left.load_remote_conn_info("right", &conn_info).expect("load");
        thread::scope(|scope| {
            scope.spawn(|| right.accept("left").expect("accept"));
            left.connect("right").expect("connect");
        });
        let source = left.allocate(chunks * CHUNK_BYTES, memory).expect("memory");
        let target = right.allocate(chunks * CHUNK_BYTES, memory).expect("memory");
        Self { left, right, source, target }
    }

    /// Moves one message of `chunks` chunks, from post to completion on both ends, on this thread alone.
    ///
    /// # Panics
    /// When it fails.
    pub fn transfer(&self, chunks: u64) {
        let bytes = chunks * CHUNK_BYTES;
        let receive = self.right.create_transfer("left").expect("up");
        let send = self.left.create_transfer("right").expect("up");
        receive.post_recv(Post { memory: self.target, offset: 0, bytes, tag: 0 }).expect("post");
        send.post_send(Post { memory: self.source, offset: 0, bytes, tag: 0 }).expect("post");
        let (mut sent, mut received) = (false, false);
        while !(sent && received) {
            sent = sent || send.is_complete().expect("send");
            received = received || receive.is_complete().expect("receive");
        }
    }
}
