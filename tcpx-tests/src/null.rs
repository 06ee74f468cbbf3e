//! Two sessions of one process over the plugin that moves nothing: what is left is the library's
//! own cost.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use tcpx_core::{
    ChannelStats, Encryption, ExportOptions, MemoryId, MemoryRange, MemoryType, Operation,
    OperationKind, OperationStatus, PluginChoice, Post, RemoteAccess, RemoteRange, Session,
    SessionOptions,
};

use crate::built::built;

/// Bytes of a chunk: as small as they can be, so that copying costs little.
pub const CHUNK_BYTES: u64 = 4096;

/// Bytes of a small message: 128 such messages fill a default chunk.
pub const MESSAGE_BYTES: u64 = 4096;

/// Two connected sessions with registered memory.
#[derive(Debug)]
pub struct NullPair {
    left: Session,
    right: Session,
    source: MemoryId,
    target: MemoryId,
}

/// Options of sessions whose program polls.
fn options() -> SessionOptions {
    SessionOptions::default().progress_thread(false)
}

/// Where the plugin is.
///
/// # Panics
/// When this program does not know where it lies.
#[must_use]
pub fn plugin() -> PathBuf {
    built("libtcpx_null_plugin.so")
}

impl NullPair {
    /// Connects two sessions with memory for `chunks` chunks.
    ///
    /// # Panics
    /// When a step fails.
    #[must_use]
    pub fn new(chunks: u64, memory: MemoryType) -> Self {
        Self::with_chunks_of(CHUNK_BYTES, chunks * CHUNK_BYTES, memory)
    }

    /// The same over `channels` channels; the default is two.
    ///
    /// # Panics
    /// When a step fails.
    #[must_use]
    pub fn over_channels(channels: u16, chunks: u64, memory: MemoryType) -> Self {
        let options = options().channels(channels);
        Self::with(options.chunk_bytes(CHUNK_BYTES as u32), chunks * CHUNK_BYTES, memory)
    }

    /// Connects two sessions with memory for `messages` small messages, which chunks of the default
    /// size carry.
    ///
    /// # Panics
    /// When a step fails.
    #[must_use]
    pub fn for_messages(messages: u64, memory: MemoryType) -> Self {
        let chunk_bytes = u64::from(tcpx_core::DEFAULT_CHUNK_BYTES);
        Self::with_chunks_of(chunk_bytes, messages * MESSAGE_BYTES, memory)
    }

    /// Connects two sessions with memory for one message of this many bytes, which travels on the
    /// control link. Sessions that encrypt are over the software plugin: the other cannot encrypt.
    ///
    /// # Panics
    /// When a step fails.
    #[must_use]
    pub fn on_link(bytes: u64, is_encrypted: bool) -> Self {
        let encryption = if is_encrypted { Encryption::Require } else { Encryption::Off };
        let options = options().encryption(encryption);
        Self::with(options.eager_bytes(bytes as u32), bytes, MemoryType::Host)
    }

    fn with_chunks_of(chunk_bytes: u64, bytes: u64, memory: MemoryType) -> Self {
        Self::with(options().chunk_bytes(chunk_bytes as u32), bytes, memory)
    }

    fn with(options: SessionOptions, bytes: u64, memory: MemoryType) -> Self {
        let channels = options.channels.unwrap_or(2);
        let plugin = match options.encryption {
            Encryption::Off => PluginChoice::Path(plugin()),
            _ => PluginChoice::Soft,
        };
        let session = || {
            Session::new(
                options
                    .clone()
                    .plugin(plugin.clone())
                    .preflight(false)
                    .channels(channels)
                    // Both ends are dropped on one thread: neither would answer a goodbye.
                    .close_timeout(Duration::from_millis(1)),
            )
            .expect("the plugin is built with this program")
        };
        let (left, right) = (session(), session());
        let conn_info = right.listen().expect("listen");
        left.load_remote_conn_info("right", &conn_info).expect("load");
        thread::scope(|scope| {
            scope.spawn(|| right.accept("left").expect("accept"));
            left.connect("right").expect("connect");
        });
        let source = left.allocate(bytes, memory).expect("memory");
        let target = right.allocate(bytes, memory).expect("memory");
        Self { left, right, source, target }
    }

    /// Moves one message of `chunks` chunks, from post to completion on both ends, on this thread
    /// alone.
    ///
    /// # Panics
    /// When it fails.
    pub fn transfer(&self, chunks: u64) {
        let bytes = chunks * CHUNK_BYTES;
        let post = |memory| vec![Post { memory, offset: 0, bytes, tag: 0 }];
        self.run(&post(self.source), &post(self.target));
    }

    /// Moves `messages` small messages, one behind the other in memory, posted as one batch at each
    /// end, on this thread alone.
    ///
    /// # Panics
    /// When it fails.
    pub fn batch(&self, messages: u64) {
        self.run(&small(self.source, 0..messages), &small(self.target, 0..messages));
    }

    /// Moves `count` messages of this many bytes on the control link, each when the one before it
    /// has arrived, on this thread alone. Each takes two frames that leave by themselves: one says
    /// that it is awaited, the other brings it.
    ///
    /// # Panics
    /// When it fails.
    pub fn one_by_one(&self, bytes: u64, count: u64) {
        let post = |memory| Post { memory, offset: 0, bytes, tag: 0 };
        let receive = self.right.create_transfer("left").expect("up");
        let send = self.left.create_transfer("right").expect("up");
        for _ in 0..count {
            receive.post_recv(post(self.target)).expect("post");
            // The announcement leaves, and is read.
            self.right.progress();
            self.left.progress();
            send.post_send(post(self.source)).expect("post");
            let (mut sent, mut received) = (false, false);
            while !(sent && received) {
                sent = sent || send.is_complete().expect("send");
                received = received || receive.is_complete().expect("receive");
            }
        }
    }

    /// As [`batch`](Self::batch), but backwards in the sender's memory: no send lies behind the one
    /// before it.
    ///
    /// # Panics
    /// When it fails.
    pub fn scattered_batch(&self, messages: u64) {
        self.run(&small(self.source, (0..messages).rev()), &small(self.target, 0..messages));
    }

    /// An operation of left on pairs of `each` bytes, backwards in left's memory: none lies behind
    /// the one before it.
    ///
    /// # Panics
    /// When it does not fit.
    #[must_use]
    pub fn operation(&self, kind: OperationKind, pairs: u64, each: u64) -> Operation {
        let options = ExportOptions::new(RemoteAccess::ReadWrite);
        let key = self.right.export(self.target, options).expect("it is registered");
        let place = |offset| MemoryRange { memory: self.source, offset, bytes: each };
        let local: Vec<_> = (0..pairs).rev().map(|pair| place(pair * each)).collect();
        let range = |pair| RemoteRange { key: &key, offset: pair * each, bytes: each };
        let remote: Vec<_> = (0..pairs).map(range).collect();
        self.left.prepare("right", kind, &local, &remote).expect("it fits")
    }

    /// Posts an operation and moves its bytes, on this thread alone.
    ///
    /// # Panics
    /// When it fails.
    pub fn move_operation(&self, operation: &Operation) {
        operation.post(None).expect("it is not under way");
        while matches!(operation.status(), OperationStatus::Active) {
            self.right.progress();
            self.left.progress();
        }
        operation.wait(Some(Duration::ZERO)).expect("it succeeds");
    }

    /// Everything that was sent so far.
    #[must_use]
    pub fn sent(&self) -> ChannelStats {
        self.left.stats().total.send
    }

    fn run(&self, sends: &[Post], receives: &[Post]) {
        let receive = self.right.create_transfer("left").expect("up");
        let send = self.left.create_transfer("right").expect("up");
        receive.post_recv_batch(receives).expect("post");
        send.post_send_batch(sends).expect("post");
        let (mut sent, mut received) = (false, false);
        while !(sent && received) {
            sent = sent || send.is_complete().expect("send");
            received = received || receive.is_complete().expect("receive");
        }
    }
}

/// Small messages at the given places.
fn small(memory: MemoryId, places: impl Iterator<Item = u64>) -> Vec<Post> {
    let post = |(tag, place): (i64, u64)| {
        let offset = place * MESSAGE_BYTES;
        Post { memory, offset, bytes: MESSAGE_BYTES, tag }
    };
    (0..).zip(places).map(post).collect()
}
