//! The software plugin: an ncclNet v7 transport over plain TCP sockets.
//!
//! It offers the same table and keeps the same rules as Google's GPUDirect-TCPX plugin, so that a
//! program written for the one runs over the other, on machines with ordinary NICs and without a
//! GPU. Where the original corrupts memory, crashes, ends the process or hangs, this plugin returns
//! an error and logs a WARN line.
//!
//! For `tcpx-core`, which links [`table`], and, as a shared library (`tcpx-softnet-plugin`), for
//! whoever loads plugins by path. It never exits the process, never prints, never raises SIGPIPE,
//! and never waits without a deadline.
//!
//! ```
//! use tcpx_softnet::{Settings, configure, table};
//!
//! let mut settings = Settings::default();
//! settings.interfaces = Some("=lo".to_owned());
//! configure(settings)?;
//! assert!(table().init.is_some());
//! # Ok::<(), tcpx_softnet::SettingsError>(())
//! ```
//!
//! # How bytes travel
//! A comm is one control socket and one to eight data sockets. A message up to
//! [`Settings::inline_bytes`] follows its record on the control socket. A longer one is cut into
//! chunks of [`Settings::chunk_bytes`]; each chunk is announced by a record and sent bare on the
//! next data socket that has room. Nothing moves unless `test` is called: it drives the whole comm,
//! except that a request which is finished already is reported without a system call.
//!
//! A receive into host memory lands where it was posted and leaves an empty slot in the unpack
//! queue. A receive into device memory lands in 4 KiB pages of the bounce region, one region per
//! process; the unpack queue says where, in the order in which chunks were collected, which with
//! several chunks is not the order of the message. A message gets all its pages at once and in
//! order, so messages that wait for pages never wait for each other's. Between comms there is no
//! queue: whoever asks when there are enough free pages gets them.
//!
//! # Device memory
//! As in the original, the calling thread's current CUDA context decides what device memory is, of
//! a receive comm when accept returns it and of a registration in regMr. Without a context, device
//! memory is ordinary memory, and so is the struct behind the device handle. With one, the bounce
//! region and the unpack queue are pinned host memory that the GPU reads over PCIe, the struct
//! behind the device handle is in the GPU's memory, and sends from the GPU's memory are copied down
//! chunk by chunk to pinned pages, on a stream of the comm's own; `test` looks at those copies and
//! never waits for them. With `TCPX_SOFT_BOUNCE=device` the bounce region is memory of the GPU
//! instead, one region for each: bytes still land in pinned pages first, and are copied up on a
//! stream before the request is done. That takes as much device memory as pinned memory and one
//! more copy; it is for consumers that cannot read pinned memory, and for trying out on any network
//! what the original's consumers see. A failure of the driver is 1, with a WARN line that has its
//! words. The driver is only ever loaded by `TCPX_SOFT_MEMORY=cuda`; a process that has not loaded
//! it itself works without.
//!
//! # Where it is stricter than the original
//! | situation | original | here |
//! |---|---|---|
//! | NULL, stale, foreign or doubly closed pointer | crash, corruption | 3 |
//! | one comm used by two threads at once | undefined | 3 |
//! | connect or accept polled after the final answer | abort | 3 |
//! | a second peer for a listen comm | hangs | refused: 2 |
//! | stray connections to the port | break the pairing | closed |
//! | nobody connects or accepts | waits for ever | 2 after [`Settings::connect_timeout`] |
//! | closeListen before accept ended | leaked thread, use after free | joined |
//! | accept without a device handle | crash | 3 |
//! | negative or unregistered memory | hang, wrong bytes | 3 at isend, irecv |
//! | deregMr while a request uses the memory | hang | 3, and the registration stays |
//! | message longer than the receive that was posted | success, entries out of range | 3 from `test`, for good |
//! | more than 2048 fragments | exit(1) | 3 from `test`, for good |
//! | a message that can never fit the bounce region | hang | 3 from `test`, for good |
//! | dead data socket, peer gone in mid-message | not done for ever | 2 from `test` |
//! | peer gone after it sent everything | one spurious 2 | delivered, then 2 |
//! | irecvConsumed of an empty receive out of order | corrupts the queue | 3 |
//! | irecvConsumed before the copy | silent | pages are poisoned ([`Settings::poison`]) |
//! | several chunks of a request on one socket | pages leak | no leak |
//! | RECV_SYNC set on one end only | hang or unread bytes | 3 from `connect` |
//! | NCCL_DYNAMIC_CHUNK_SIZE unset or `512K` | hang, 512-byte chunks | init returns 3 and names it |
//!
//! # Settings
//! Read by `init` from the environment, or given by [`configure`]. A value that is not allowed
//! makes `init` return 3 with a WARN line that names the variable. Empty counts as unset.
//!
//! | variable | default | allowed | what for |
//! |---|---|---|---|
//! | `NCCL_DYNAMIC_CHUNK_SIZE` | none; must be set | 1..=2^30 | bytes of a chunk; the original cannot work without it |
//! | `NCCL_GPUDIRECTTCPX_SOCKET_ENABLE` | 1 | 1 | 0 is refused: it switches the plugin off |
//! | `NCCL_NSOCKS_PERTHREAD` | 1 | 1..=8 | data sockets per thread; capped so that a comm has at most 8 |
//! | `NCCL_SOCKET_NTHREADS` | 1 | 1..=8 | helper threads per comm, and factor of the number of sockets |
//! | `NCCL_GPUDIRECTTCPX_RECV_SYNC` | 0 | 0, 1 | a send waits until the peer has posted the receive |
//! | `NCCL_GPUDIRECTTCPX_SOCKET_IFNAME` | best kind | names | NICs: prefixes, `=` exact, `^` exclude |
//! | `TCPX_SOFT_IFNAME` | the above | names | the same for this plugin only |
//! | `TCPX_SOFT_HELPERS` | auto | 0, 1, auto | helper threads: a hand-over pays only where there are processors to spare (8) |
//! | `TCPX_SOFT_INLINE_BYTES` | 8192 | 0..=32768 | up to here one system call per batch beats one copy |
//! | `TCPX_SOFT_POOL_BYTES` | 268435456 | 4096..=2^32, whole pages | bounce region; memory is taken as it is used |
//! | `TCPX_SOFT_MEMORY` | auto | auto, emulated, cuda | what device memory is: see [`DeviceMemory`] |
//! | `TCPX_SOFT_BOUNCE` | host | host, device | where a GPU finds the bounce region: see [`BounceMemory`] |
//! | `TCPX_SOFT_POISON` | 0 | 0, 1 | recycled pages become 0xDB; costs a pass over every byte |
//! | `TCPX_SOFT_CONNECT_TIMEOUT_MS` | 20000 | 1..=3600000 | one connect or accept |
//! | `TCPX_SOFT_SHAPE` | none | see `Shape` | inconvenient but legal behaviour |
//! | `TCPX_SOFT_SEED` | 0 | a number | what shapes are drawn from |
//! | `TCPX_SOFT_FAULTS` | none | see `Fault` | what goes wrong on purpose |
//!
//! `TCPX_SOFT_SHAPE` is a comma-separated list of the fields of `Shape`, or `all`.
//! `TCPX_SOFT_FAULTS` is a list separated by semicolons, for example
//! `cut:send.data0@65536;kill:recv@37;lose:send@1;leak:recv@4;rc:isend@5=2;freeze:irecv@3;die:accept@1`.

mod comm;
mod connect;
mod entry;
mod failure;
mod faults;
mod log;
mod memory;
mod parse_error;
mod plugin;
mod poll;
mod sync;
mod wire;

pub use entry::Entry;
pub use faults::FaultScript;
#[cfg(feature = "faults")]
pub use faults::{Fault, Shape};
pub use memory::{BounceMemory, DeviceMemory, PoolStats, StagingStats, staging_stats};
pub use parse_error::ParseError;
pub use plugin::{Helpers, Settings, SettingsError, bounce_bytes, configure, pool_stats, table};
pub use wire::{Side, SocketRole};
