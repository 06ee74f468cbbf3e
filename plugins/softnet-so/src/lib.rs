#![allow(unsafe_code)]
//! The software plugin as a shared library, for NCCL and for programs that load plugins by path.
//!
//! It exports seven data symbols; everything else is in `tcpx-softnet`. `ncclNetPlugin_v7` is the
//! 152-byte table itself, which sessions and NCCL 2.19 drive; `ncclNetPlugin_v8`, `_v9` and `_v10`
//! are those by which later releases of NCCL find it. The others are additions of this project,
//! because the table has no such questions, and its layout is not ours to change:
//! `tcpxCommHealth_v1` says whether a comm on which nothing is posted is alive, `tcpxCommPoll_v1`
//! says what to wait for, `tcpxCommEncryption_v1` has a comm encrypted. Programs that load the
//! library for the table alone never look for them.
//! The symbols live in a crate of their own because a library that links `tcpx-softnet` must not
//! export them a second time.
//!
//! A process never unloads the library: NCCL does so with its last communicator, and whatever still
//! holds an address of it would crash.
//!
//! `tools/scripts/build_softnet_plugin.sh` builds it and puts it at
//! `target/dist/libnccl-net-tcpx-soft.so`. NCCL finds it there with `NCCL_NET_PLUGIN=tcpx-soft`
//! and the folder in `LD_LIBRARY_PATH`.
//!
//! It misbehaves in no build: what tests want of that is in `tcpx-tests/doubles/faulty`.

use tcpx_sys::{
    CommEncryptionV1, CommHealthV1, CommPollV1, NcclNetV7, NcclNetV8, NcclNetV9, NcclNetV10,
};

/// What `dlsym` finds: the table itself, not a pointer to it.
#[allow(non_upper_case_globals, reason = "the ABI's name")]
// SAFETY: no other item of this name exists in the library; its type is the one that the name
// stands for.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v7: NcclNetV7 = tcpx_softnet::table();

/// The same for releases of NCCL that know this table.
#[allow(non_upper_case_globals, reason = "the ABI's name")]
// SAFETY: as for the table.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v8: NcclNetV8 = tcpx_softnet::table_v8();

/// The same for releases of NCCL that know this table.
#[allow(non_upper_case_globals, reason = "the ABI's name")]
// SAFETY: as for the table.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v9: NcclNetV9 = tcpx_softnet::table_v9();

/// The same for releases of NCCL that know this table.
#[allow(non_upper_case_globals, reason = "the ABI's name")]
// SAFETY: as for the table.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v10: NcclNetV10 = tcpx_softnet::table_v10();

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

/// How a comm is encrypted.
#[allow(non_upper_case_globals, reason = "named as the table is")]
// SAFETY: as for the table.
#[unsafe(no_mangle)]
pub static tcpxCommEncryption_v1: CommEncryptionV1 = tcpx_softnet::comm_encryption();
