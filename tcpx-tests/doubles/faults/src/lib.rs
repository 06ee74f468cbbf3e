//! The software plugin misbehaving on request, for tests of its consumers: shapes, faults, and the
//! behaviours of Google's plugin ("the original") that are inconvenient, harmful or fatal.
//!
//! What is done to calls is done by functions around the plugin's own ([`table`], [`comm_health`],
//! [`comm_poll`]). What has to happen inside, to pages, sockets and the order of requests, is done
//! where the plugin asks its [hooks](tcpx_softnet::hooks), which `init` of this table installs.
//! Nothing of it is in the plugin.
//!
//! A test in the process that drives the table calls [`configure`]. Others load a library that
//! reads the environment: `tcpx-tests/doubles/faulty`, or `original`, which is as the original in
//! everything. Never use them for anything but tests.
//!
//! ```
//! use tcpx_softnet_faults::{FaultScript, configure, table};
//!
//! let mut settings = tcpx_softnet::Settings::default();
//! settings.interfaces = Some("=lo".to_owned());
//! let mut script = FaultScript::default();
//! script.faults = vec!["cut:send.data0@65536".parse()?];
//! configure(settings, script)?;
//! assert!(table().init.is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Variables
//! Read by `init`, beside those of the plugin. A value that is not allowed makes `init` return 3
//! with a WARN line that names the variable. Empty counts as unset.
//!
//! | variable | default | allowed | what for |
//! |---|---|---|---|
//! | `TCPX_SOFT_SHAPE` | none | see [`Shape`] | inconvenient but legal behaviour |
//! | `TCPX_SOFT_SEED` | 0 | a number | what shapes are drawn from |
//! | `TCPX_SOFT_FAULTS` | none | see [`Fault`] | what goes wrong on purpose |
//! | `TCPX_SOFT_ORIGINAL` | none | names | see "As the original" |
//! | `TCPX_SOFT_PACKET_BYTES` | whole pages | 1..=65535 | payload of a packet: longest fragment |
//!
//! `TCPX_SOFT_SHAPE` is a comma-separated list of the fields of [`Shape`], or `all`.
//! `TCPX_SOFT_FAULTS` is a list separated by semicolons, for example
//! `cut:send.data0@65536;kill:recv@37;lose:send@1;leak:recv@4`, or
//! `rc:isend@5=2;freeze:irecv@3;delay:closeSend/closeRecv@1=500;block:regMr@2;die:accept@1`.
//!
//! Faults and shapes that count calls or let time pass want `test` to be called all the time.
//!
//! # As the original
//! `TCPX_SOFT_ORIGINAL` (or [`FaultScript`]'s `original`) is a comma-separated list of these, or
//! `all`.
//!
//! | name | what is done as the original does it |
//! |---|---|
//! | `sigpipe` | writing to a peer that has gone raises SIGPIPE |
//! | `piecemeal` | pages are taken one by one as bytes arrive; too few of them stick for ever |
//! | `failstop` | 2048 fragments in a chunk, or more in a request: `exit(1)` |
//! | `progress` | `test` takes up one request a call; 16 small ones take 22 calls |
//! | | a request of before is 0, not done, when nothing moves, else 3 |
//! | | irecvConsumed of a send request is 0; of an empty receive it frees the oldest, done or not |
//! | `silence` | data sockets and peers that end in mid-message are never reported |
//! | | a dead control socket is 2 from single calls, once even when all bytes have come |
//! | | nothing is probed, and [`comm_health`] finds nothing |
//! | `pointers` | request pointers are 16 slots of a ring, 128 apart, used again |
//! | `regmr` | device memory that is no dma-buf: 3, and descriptor 0 is closed |
//! | `gpus` | listen and accept for different GPUs: wrong bytes |
//! | `offsets` | fragments begin anywhere in a page; pages are poisoned |
//! | `slow` | connect takes 100 ms for each socket, accept the wait for flow steering more |
//! | `rules` | accept waits for RxDM's rule for each data socket: for ever, or it is 3 |
//! | `unchecked` | negative sizes and memory outside the registration are 0, and never done |
//! | `steered` | what comes for host memory on a data socket never gets there |
//! | `strangers` | one that is silent keeps the peer out; the third ends accept with 3 |
//! | `leak` | of a request's chunks on one socket only the last gives its pages back |
//! | `inline` | messages up to `NCCL_INLINE_THRESHOLD` are copied to where they were posted |
//! | `crash` | what would crash or corrupt aborts, with a WARN line that names the rule |
//!
//! Memory that stands in for a GPU's is exported as a dma-buf when it is whole pages. The wait for
//! flow steering is `NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS`, or 5 s. RxDM is asked
//! where `NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX` says that one is.
//!
//! # Where to find what
//! - `fault`, `shape`, `quirk`, `quirks`, `script`: what can be asked for; `variables`: as the
//!   environment says it; `parse_error`: why it is refused
//! - `setup`: the script of the process
//! - `table`: the functions around the plugin's; `calls`: what a script does to single calls;
//!   `request_pointers`: what callers call requests; `dma_buf`: what the original can register
//! - `process`, `comm`, `socket_faults`: the hooks of the process, of a comm and of a socket
//! - `accept_behaviour`: what accept does before it gives a comm
//! - `comm_faults`: comms that are reset, messages that are lost, pages that leak
//! - `pace`: how few requests the original takes up with each call. Pure
//! - `shaper`, `fragment_plan`: how a shaped message lies in pages
//! - `arrival`, `packet_cutter`: pages that are taken one by one as bytes arrive
//! - `lost_pages`: pages whose tokens the original forgets
//! - `process_end`: what the original does to its process
//! - `log`: lines to the caller's logger

mod accept_behaviour;
mod arrival;
mod calls;
mod comm;
mod comm_faults;
mod dma_buf;
mod fault;
mod fragment_plan;
mod log;
mod lost_pages;
mod pace;
mod packet_cutter;
mod parse_error;
mod process;
mod process_end;
mod quirk;
mod quirks;
mod request_pointers;
mod script;
mod setup;
mod shape;
mod shaper;
mod socket_faults;
mod table;
mod variables;

pub use fault::Fault;
pub use parse_error::ScriptError;
pub use quirk::Quirk;
pub use quirks::Quirks;
pub use script::FaultScript;
pub use setup::{configure, init_with};
pub use shape::Shape;
pub use table::{comm_encryption, comm_health, comm_poll, table};
pub use variables::{Read, VARIABLES, environment, read_all};
