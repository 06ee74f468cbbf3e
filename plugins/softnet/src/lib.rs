//! The software plugin: an ncclNet v7 transport over plain TCP sockets.
//!
//! It offers the same table and keeps the same rules as Google's GPUDirect-TCPX plugin ("the
//! original" below; docs/plugin-contract.md has its rules), so that a program written for the one
//! runs over the other, on machines with ordinary NICs and without a GPU. Where the original
//! corrupts memory, crashes, ends the process or hangs, this plugin returns an error and logs a
//! WARN line.
//!
//! It is for `tcpx-core`, which links [`table`], and, as a shared library (`tcpx-softnet-plugin`),
//! for programs that load plugins by path. By default it never exits the process, never raises
//! SIGPIPE, and never waits without a deadline. It never prints.
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
//! [`Settings::inline_bytes`], or somewhat longer when no other is under way, follows its record
//! on the control socket. A longer one is cut into chunks of [`Settings::chunk_bytes`]; each chunk
//! is announced by a record and sent bare on the next data socket that has room. A post only
//! queues, begins the copy down of what lies in a GPU, and wakes the helper threads for it. `test`
//! moves the bytes: it drives the whole comm, except that a request which is finished already is
//! reported without a system call. One call moves a bounded number of bytes.
//!
//! A receive into host memory goes where it was posted and leaves an empty slot in the unpack
//! queue. A receive into device memory goes to pages of 4 KiB of the bounce region, one region per
//! process. The unpack queue says which pages, in the order in which chunks were collected; with
//! several chunks that is not the order of the message. A message gets all its pages at once and in
//! order, so messages that wait for pages never wait for each other's. Comms do not queue for
//! pages: a comm that asks when there are enough free pages gets them.
//!
//! # Modules
//! Each of these modules begins with a list of its files. Modules use only those below them.
//!
//! | module | what it holds |
//! |---|---|
//! | `plugin` | the tables, settings, and the state of the process |
//! | `comm` | send and receive comms, their requests, sockets and threads |
//! | `connect` | listen, connect and accept |
//! | [`hooks`] | where a double of the plugin, for tests, changes what it does |
//! | `nic_memory` | what NICs put payload into, and send it from |
//! | `memory` | callers' memory, the bounce region, the unpack queue, copies to and from GPUs |
//! | `bell` | signal of helper threads to a comm that chunks have finished |
//! | `entry`, `failure`, `log`, `parse_error`, `sync`, `transport` | what all use |
//! | [`tcpx_comm`] | what travels on the sockets, and what else another plugin shares |
//!
//! # Features
//! `hooks` lets a double of the plugin [install](hooks::Hooks) what it changes; nothing else needs
//! it. The plugin misbehaves by itself in no build, and refuses the variables of the doubles'
//! scripts.
//!
//! # Device memory
//! As in the original, the calling thread's current CUDA context decides what device memory is: of
//! a receive comm when accept returns it, and of a registration in regMr. Without a context, device
//! memory is ordinary memory, and so is the struct behind the device handle.
//!
//! With a context, the bounce region and the unpack queue are pinned host memory that the GPU reads
//! over PCIe, and the struct behind the device handle is in the GPU's memory. Sends from the GPU's
//! memory are copied chunk by chunk to pinned pages, on a stream of the comm's own; `test` looks at
//! those copies and never waits for them. A failure of the driver is 1, with a WARN line that has
//! the driver's words.
//!
//! With `TCPX_SOFT_BOUNCE=device` the bounce region is memory of the GPU instead, one region for
//! each GPU: bytes still arrive in pinned pages first, and are copied up on a stream before the
//! request is done. That takes as much device memory as pinned memory and one more copy. It is for
//! consumers that cannot read pinned memory, and for trying out on any network what the original's
//! consumers see.
//!
//! Only `TCPX_SOFT_MEMORY=cuda` makes the plugin load the driver; otherwise it uses the driver only
//! in a process that has loaded it itself.
//!
//! # Under NCCL
//! NCCL finds the plugin by the newest table that it knows, of v7 ([`table`]) to v10
//! ([`table_v10`]). The caller of `init` of v7 may also be a program that drives the table by
//! itself; the library that its logger lies in says whether it is NCCL. NCCL is offered host memory
//! only, and no call of the driver is made, unless [`NcclMode::Unpack`] is asked for. In both modes
//! a chunk size that is not set is 512 KiB, `init` may come again, and where a variable is refused
//! `listen` and `connect` fail, not `init`, because releases of NCCL crash after an `init` that
//! fails.
//!
//! What the plugin needs of CUDA is made by connect, accept and regMr. Posts and `test` only queue
//! copies and look at events.
//!
//! # Fork
//! Comms belong to the process that called `init`. In a child that is forked from it every entry
//! returns 3 and does nothing, without a log line, but for closeSend, closeRecv and closeListen,
//! which return 0 and leave the parent's comms as they are. A child that was forked before `init`
//! may call it. Every descriptor is closed by `exec`. Children made by `vfork`, `_Fork` or a bare
//! `clone`, which run no handlers of `pthread_atfork`, are not recognised.
//!
//! # Where it is stricter than the original
//! | situation | original | here |
//! |---|---|---|
//! | NULL, stale, foreign or doubly closed pointer | crash, corruption | 3 |
//! | one comm used by two threads at once, but for regMr | undefined | 3 |
//! | connect or accept polled after the final answer | abort | 3 |
//! | a second peer for a listen comm | hangs | refused: 2 |
//! | stray connections to the port | break the pairing | closed |
//! | a handshake cut off by a reset | a few tries | tries for [`Settings::connect_timeout`] |
//! | no peer connects or accepts | waits for ever | 2 after [`Settings::connect_timeout`] |
//! | closeListen before accept ended | leaked thread, use after free | joined |
//! | accept without a device handle | crash | 3 |
//! | negative or unregistered memory | hang, wrong bytes | 3 at isend, irecv |
//! | deregMr while a request uses the memory | hang | 3, and the registration stays |
//! | message longer than its receive | success, entries out of range | 3 from `test`, for good |
//! | more than 2048 fragments | exit(1) | 3 from `test`, for good |
//! | a message that can never fit the bounce region | hang | 3 from `test`, for good |
//! | dead data socket, peer gone in mid-message | not done for ever | 2 from `test` |
//! | peer's host gone, or the flow forgotten on its way | not done for ever | 2, see below |
//! | peer gone after it sent everything | one spurious 2 | delivered, then 2 |
//! | irecvConsumed of an empty receive out of order | corrupts the queue | 3 |
//! | irecvConsumed before the copy | silent | pages are poisoned ([`Settings::poison`]) |
//! | several chunks of a request on one socket | pages leak | no leak |
//! | RECV_SYNC set on one end only | hang or unread bytes | 3 from `connect` |
//! | called in a forked child | undefined | 3; close does nothing: 0 |
//! | chunk size unset or `512K` | hang, 512-byte chunks | not for NCCL: init is 3, names it |
//! | listen and accept for different GPUs | wrong bytes | 3 from `accept`, names both |
//!
//! # As the original
//! A consumer that runs well over this plugin may still break over the original. Doubles of it in
//! the source tree, `tcpx-tests/doubles`, are less kind: `faulty` in what it is asked to, and
//! `original` in everything.
//!
//! # Dead connections
//! The system probes idle sockets (TCP keepalive), and a request that is not done looks at the
//! sockets of its comm about once a second. A socket that was reset, or whose peer's host has
//! answered and acknowledged nothing for [`Settings::peer_timeout`], makes the comm dead: 2 from
//! `test`, with a WARN line that names the socket. A host acknowledges bytes whatever its programs
//! do, so a peer that only computes, or is stopped, is not dead.
//!
//! `test` answers for requests. For a comm on which nothing is posted there is [`comm_health`], an
//! addition to the table: it says whether a comm's sockets are alive, and sets the timeout of one
//! comm.
//!
//! # Waiting
//! Nothing is sent or received unless `test` is called, but it need not be called in a loop.
//! [`comm_poll`], another addition to the table, gives the descriptors of a comm, to be watched for
//! edges, and says after each `test` whether there is something to wait for. An edge may have been
//! seen already, so `test` comes first, after each post as well. The passing of time is no edge: a
//! caller that waits for edges asks [`comm_health`] about once a second whether a comm with
//! requests is alive.
//!
//! A connection that stays on this host is not paced: where BBR is the system's congestion control,
//! its senders use Reno. Between hosts the system's choice holds.
//!
//! # Encryption
//! [`comm_encryption`], a third addition to the table, has all encrypted that crosses the sockets
//! of a comm. The caller gives both ends one secret, which never crosses the network. What a NIC
//! places or reads where it lies cannot be encrypted.
//!
//! # Zero-copy sends
//! With [`Settings::zerocopy`] (`TCPX_SOFT_ZEROCOPY`) the system does not copy chunks, but reads
//! their memory, or the pinned pages to which they were copied down, when it sends them and when it
//! sends them again. It is off unless asked for, because a send is done later then: when the peer's
//! host has acknowledged the bytes, and not as soon as the system has them. Until then the memory
//! stays registered and the pages stay taken, and both count towards RLIMIT_MEMLOCK. What waits for
//! that takes no room of what is still to be sent, and is no more than the sockets hold.
//!
//! Loopback, virtual Ethernet pairs and NICs without scatter-gather copy nevertheless. With `auto`
//! a data socket copies for good, with a log line, once the system reports such a copy; so does a
//! socket that is refused while it has nothing under way. [`zerocopy_stats`] counts the bytes.
//!
//! A comm that is closed in mid-send gives the system half a second to come to an end with what it
//! reads, because the caller may change the memory after that. It then resets the data sockets that
//! have not, and the peer gets an error instead of other bytes.
//!
//! # Settings
//! Read by `init` from the environment, or given by [`configure`]. A value that is not allowed
//! makes `init` return 3 with a WARN line that names the variable. Empty counts as unset.
//!
//! | variable | default | allowed | what for |
//! |---|---|---|---|
//! | `NCCL_DYNAMIC_CHUNK_SIZE` | none; must be set | 1..=2^30 | bytes of a chunk |
//! | `NCCL_GPUDIRECTTCPX_SOCKET_ENABLE` | 1 | 1 | 0 is refused: it switches the plugin off |
//! | `NCCL_NSOCKS_PERTHREAD` | 1 | 1..=8 | data sockets per thread; a comm has 8 at most |
//! | `NCCL_SOCKET_NTHREADS` | 1 | 1..=8 | helper threads per comm, and factor of its sockets |
//! | `NCCL_GPUDIRECTTCPX_RECV_SYNC` | 0 | 0, 1 | a send waits for the peer's receive |
//! | `NCCL_GPUDIRECTTCPX_SOCKET_IFNAME` | best kind | names | NICs, see [`Settings::interfaces`] |
//! | `TCPX_SOFT_IFNAME` | the above | names | the same for this plugin only |
//! | `TCPX_SOFT_TRANSPORT` | tcp | tcp, devmem, auto, io_uring | what carries it: [`Transport`] |
//! | `TCPX_SOFT_HELPERS` | auto | 0, 1, auto | helper threads, see [`Helpers`] |
//! | `TCPX_SOFT_CPUS` | auto | auto, off, a list such as 0-3,8 | where they run: [`HelperCpus`] |
//! | `TCPX_SOFT_INLINE_BYTES` | 8192 | 0..=32768 | see [`Settings::inline_bytes`] |
//! | `TCPX_SOFT_POOL_BYTES` | 268435456 | 4096..=2^32, whole pages | bytes of the bounce region |
//! | `TCPX_SOFT_MEMORY` | auto | auto, emulated, cuda | see [`DeviceMemory`] |
//! | `TCPX_SOFT_BOUNCE` | host | host, device | see [`BounceMemory`] |
//! | `TCPX_SOFT_NCCL` | host | host, unpack | see [`NcclMode`] |
//! | `TCPX_SOFT_POISON` | 0 | 0, 1 | recycled pages become 0xDB; costs a pass over every byte |
//! | `TCPX_SOFT_CONNECT_TIMEOUT_MS` | 20000 | 1..=3600000 | one connect or accept |
//! | `TCPX_SOFT_PEER_TIMEOUT_MS` | 10000 | 0..=86400000 | [`Settings::peer_timeout`]; 0: none |
//! | `TCPX_SOFT_ZEROCOPY` | off | off, auto, on | zero-copy sends, see [`ZeroCopy`] |

mod bell;
mod comm;
mod connect;
mod entry;
mod failure;
pub mod hooks;
mod last_failure;
mod log;
mod memory;
mod nic_memory;
mod parse_error;
mod plugin;
mod sync;
mod transport;

pub use comm::{ZeroCopy, ZeroCopyStats, zerocopy_stats};
pub use entry::Entry;
pub use last_failure::{FailureReason, last_failure};
pub use memory::{BounceMemory, DeviceMemory, PoolStats, StagingStats, staging_stats};
pub use nic_memory::ArrivalStats;
pub use parse_error::ParseError;
pub use plugin::{
    HelperCpus, Helpers, NcclMode, Settings, SettingsError, arrival_stats, bounce_bytes,
    comm_encryption, comm_health, comm_poll, configure, gpu_reach, pool_stats, table, table_v8,
    table_v9, table_v10, uses_device_memory,
};
pub use tcpx_comm::wire::{Side, SocketRole};
pub use tcpx_sys::CpuSet;
pub use transport::{GpuReach, Transport};
