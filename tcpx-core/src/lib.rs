//! Sessions and transfers over an ncclNet v7 plugin: GPU memory between hosts over TCP.
//!
//! For Rust programs that move memory to named peers, and for the C ABI and the `tcpx` command,
//! which are thin layers over this crate. A [`Session`] listens, accepts, connects and registers
//! memory. A [`Transfer`] posts sends and receives. The library cuts them into chunks, assigns the
//! chunks to channels and keeps them inside the plugin's windows.
//!
//! The library never exits, never prints and never blocks without a deadline that the caller chose.
//! It never copies a byte whose fragment was not checked, and never gives pages back to the plugin
//! before their bytes were unpacked.
//!
//! # Example
//! ```
//! use tcpx_core::{MemoryType, Post, Session, SessionOptions};
//! # fn main() -> tcpx_core::Result<()> {
//! let server = Session::new(SessionOptions::default())?;
//! let conn_info = server.listen()?;
//! std::thread::scope(|scope| {
//!     let accepted = scope.spawn(|| server.accept("client"));
//!     let client = Session::new(SessionOptions::default())?;
//!     client.load_remote_conn_info("server", &conn_info)?;
//!     client.connect("server")?;
//!     accepted.join().expect("no panic")?;
//!
//!     let from = client.allocate(24, MemoryType::Device)?;
//!     let to = server.allocate(24, MemoryType::Device)?;
//!     client.write_memory(from, 0, b"Hello from TCPX client!\0")?;
//!     let send = client.create_transfer("server")?;
//!     let receive = server.create_transfer("client")?;
//!     receive.post_recv(Post { memory: to, offset: 0, bytes: 24, tag: 42 })?;
//!     send.post_send(Post { memory: from, offset: 0, bytes: 24, tag: 42 })?;
//!     let sent = scope.spawn(move || send.wait(None).map(|()| client));
//!     receive.wait(None)?;
//!     drop(receive);
//!     let mut received = [0; 24];
//!     server.read_memory(to, 0, &mut received)?;
//!     assert_eq!(&received, b"Hello from TCPX client!\0");
//!
//!     // Both ends say goodbye: the one waits for the other.
//!     let client = sent.join().expect("no panic")?;
//!     let goodbye = scope.spawn(move || client.disconnect("server"));
//!     server.disconnect("client")?;
//!     goodbye.join().expect("no panic")
//! })
//! # }
//! ```
//!
//! # Sends, receives, reads and writes
//! - **Two-sided**: both ends post. A send meets the receive of the same tag, and a [`Transfer`]
//!   waits for its sends and receives together.
//! - **One-sided**: one end exports memory ([`Session::export`]) and gives the [`RemoteKey`] to its
//!   peer. The peer [prepares](Session::prepare) an [`Operation`] that reads or writes lists of
//!   ranges, and posts it any number of times. The program that exported the memory calls nothing.
//! - **Notifications**: bytes for the peer's program, by themselves ([`Session::notify`]) or when
//!   all bytes of an operation are in place ([`Operation::post`]).
//!   [`Session::poll_notifications`] takes them out.
//!
//! # Progress
//! Bytes move in rounds of progress. With [`SessionOptions::progress_thread`] a thread of the
//! session makes them. Without it, they are made inside calls: [`Transfer::wait`],
//! [`Transfer::is_complete`], [`Session::progress`] and all calls that block. A program that calls
//! none of these moves nothing, and its peers wait.
//!
//! # Descriptors and async programs
//! [`Session::event_fd`] is a descriptor for poll, epoll, or a runtime such as tokio. It is
//! readable when something has ended or come; [`Session::poll_events`] says what. No call has to
//! block: [`Session::start_connect`] and its like return at once. `docs/async.md` of the repository
//! shows the loop, and `examples/rust/async_tokio.rs` is a whole program.
//!
//! # Features
//! | feature | by default | adds |
//! |---|---|---|
//! | `soft` | on | the software plugin, linked in. Without it, a session needs a plugin file |
//!
//! # Fork
//! Sessions belong to the process that made them. A forked child shares their sockets, has none of
//! their threads, and cannot use a GPU. So the library refuses children that were forked after
//! [`Session::new`] was called: every call returns [`Error::Forked`] (or, where it has no error,
//! nothing), takes no lock, and touches nothing of the parent's. Dropping a session, a transfer or
//! a buffer in a child does nothing either. The child may end in any way; the system releases what
//! the child inherited. For the parent a fork changes nothing.
//!
//! A child that was forked before the first session, or that has called `exec`, is a process like
//! any other. `exec` closes every descriptor of this library and of the software plugin. A child
//! that does neither holds the sockets for as long as it lives. If the parent dies first, its peers
//! detect that only by pings ([`SessionOptions::peer_timeout`]).
//!
//! The library does not recognise children made without the handlers of `pthread_atfork` (`vfork`,
//! `_Fork`, a bare `clone`). Such a child must call nothing before `exec`.
//!
//! # Where to find what
//! A room is a folder with a file of its name beside it, which is its map. Rooms and files use each
//! other downwards only, and a test checks that.
//!
//! | room | holds |
//! |---|---|
//! | `session` | [`Session`], [`Transfer`], the devices of a session, how threads wait and lead |
//! | `engine` | one lock, one round; how peers meet and leave; what lingers; unpacking |
//! | `completions` | what a program takes out: ended rounds, peers up or ended, notifications |
//! | `peer` | one peer: drives the link, the comms and the lanes as the protocol says |
//! | `control` | the control link: listener, connector, sockets |
//! | `transfer` | what moves bytes: lanes, windows, batches, staging buffers |
//! | `reactor` | the set of descriptors of a session, and whether it pays to spin |
//! | `plugin` | the table of the plugin behind owning types, NICs, registrations |
//! | `stats` | numbers, and what they say is wrong |
//! | `memory` | host and device memory, memory descriptors |
//! | `workers` | threads for calls that may block, and tickets |
//! | `settings`, `error`, `types` | options; errors with their diagnoses; keys, kinds and limits |

pub(crate) mod completions;
mod control;
mod engine;
mod error;
pub(crate) mod memory;
mod peer;
mod plugin;
pub(crate) mod reactor;
mod session;
mod settings;
pub(crate) mod stats;
pub(crate) mod transfer;
pub(crate) mod types;
pub(crate) mod workers;

pub use completions::{Notification, PeerState, SessionEvent, TransferCompletion};
pub use control::tls::certificate_dates::CertificateDates;
pub use error::diagnosis::diagnosis_of_io;
pub use error::unpack_failure::UnpackFailure;
pub use error::{
    Awaited, BounceBufferProblem, CertificateFileProblem, CertificateProblem, Departure,
    DialFailure, EncryptionProblem, Error, MemoryUnavailable, Phase, PluginChunkProblem,
    PluginFailure, PluginHang, RegistrationProblem, RemoteKeyError, RemoteProblem, Result,
    SettingProblem,
};
pub use memory::device_memory::gpu_count;
pub use memory::memory_descriptor::{MemoryDescriptor, MemoryDescriptorError};
pub use memory::{MemoryAddress, NewRegistration, Placement};
pub use plugin::Nic;
pub use plugin::process::set_plugin_log_level;
pub use plugin::registrations::MemoryInfo;
pub use session::Session;
pub use session::operation::{Operation, OperationStatus};
pub use session::transfer::Transfer;
pub use settings::choices::ExportOptions;
pub use settings::{
    BounceCreditChoice, CopyThreads, HARDWARE_PLUGIN_PATH, LinkBytes, PluginChoice, SessionOptions,
};
pub use stats::ChannelStats;
pub use stats::alarm::AlarmReport;
pub use stats::metrics::metrics_text;
pub use stats::peer_transport::{
    OneSidedPath, PeerTransport, TransportEnd, ZeroCopy, ZeroCopySends,
};
pub use stats::report::{
    ChannelReport, PeerReport, SessionReport, StagingMemory, StagingTimes, Totals,
};
pub use stats::stages::StageTimes;
pub use stats::tcp::TcpStats;
pub use tcpx_cuda::CudaError;
pub use tcpx_diagnosis::{Code, Diagnosis};
pub use tcpx_protocol::error::ConnInfoError;
pub use tcpx_protocol::exports::remote_key::{RemoteKey, RemoteRange};
pub use tcpx_protocol::stats::{EagerStats, OneSidedStats};
pub use tcpx_protocol::types::encryption::{
    Credential, CredentialMismatch, Encryption, EncryptionMismatch,
};
pub use tcpx_protocol::types::memory::{Device, MemoryId, OperationKind, RemoteAccess};
pub use tcpx_protocol::types::nic::{NicLink, NicLinks};
pub use tcpx_protocol::types::{
    Access, DEFAULT_CHUNK_BYTES, MAX_CHANNELS, MAX_CHUNK_BYTES, MAX_NOTIFICATION_BYTES, MemoryType,
};
pub use tcpx_sys::{ForkGuard, Forked, is_forked, printable};
pub use tcpx_unpack::{Backend as UnpackBackend, Choice as UnpackChoice};
pub use transfer::{MemoryRange, Post, PostOptions, TransferCounts};

/// Decoders of outside bytes, for the fuzz targets only.
#[cfg(fuzzing)]
pub mod fuzzing {
    use crate::memory::memory_descriptor::{MemoryDescriptor, seal};

    /// Reads a memory descriptor, sealed or as text: first as given and then, if the bytes are
    /// enough for its fields, with a matching checksum. There is one way to write what was read in
    /// either form.
    pub fn memory_descriptor(bytes: &[u8]) {
        let read = |bytes: &[u8]| {
            if let Ok(descriptor) = MemoryDescriptor::deserialize(bytes) {
                let sealed = descriptor.serialize().expect("what was read can be");
                let MemoryDescriptor { address, bytes: size, memory } = descriptor;
                let text = format!("{address},{size},{}", memory.ptr_type());
                assert!(bytes == sealed || bytes == text.as_bytes());
                assert_eq!(MemoryDescriptor::deserialize(text.as_bytes()), Ok(descriptor));
            }
        };
        read(bytes);
        if let Some((address, rest)) = bytes.split_first_chunk()
            && let Some((size, rest)) = rest.split_first_chunk()
            && let Some(ptr_type) = rest.first_chunk()
        {
            let (address, size) = (u64::from_le_bytes(*address), u64::from_le_bytes(*size));
            read(&seal(address, size, i32::from_le_bytes(*ptr_type)));
        }
    }
}
