#![allow(unsafe_code)]
//! The software plugin as a shared library, for NCCL and for whoever loads plugins by path.
//!
//! It exports three data symbols; everything else is in `tcpx-softnet`. `ncclNetPlugin_v7` is the
//! 152-byte table itself. The others are additions of this project, because the table has no such
//! questions, and its layout is not ours to change: `tcpxCommHealth_v1` says whether a comm on
//! which nothing is posted is alive, `tcpxCommPoll_v1` says what to wait for. Who loads the library
//! for the table alone never looks for them. The symbols live in a crate of their own because a
//! library that links `tcpx-softnet` must not export them a second time.
//!
//! `scripts/build_softnet_plugin.sh` builds it and puts it at
//! `target/release/libnccl-net-tcpx-soft.so`. NCCL finds it there with `NCCL_NET_PLUGIN=tcpx-soft`
//! and the folder in `LD_LIBRARY_PATH`.
//!
//! The feature `faults`, on by default, lets the environment script faults. A library for
//! production is built with `--no-default-features`.

use tcpx_sys::{CommHealthV1, CommPollV1, NcclNetV7};

/// What `dlsym` finds: the table itself, not a pointer to it.
#[allow(non_upper_case_globals, reason = "the ABI's name")]
// SAFETY: no other item of this name exists in the library; its type is the one that the name
// stands for.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v7: NcclNetV7 = tcpx_softnet::table();

/// Whether comms are alive.
#[allow(non_upper_case_globals, reason = "named as the table is")]
// SAFETY: as for the table.
#[unsafe(no_mangle)]
pub static tcpxCommHealth_v1: CommHealthV1 = tcpx_softnet::comm_health();

/// What to wait for.
#[allow(non_upper_case_globals, reason = "named as the table is")]
// SAFETY: as for the table.
#[unsafe(no_mangle)]
pub static tcpxCommPoll_v1: CommPollV1 = tcpx_softnet::comm_poll();
