#![allow(unsafe_code)]
//! The software plugin as a shared library, for NCCL and for whoever loads plugins by path.
//!
//! It exports one data symbol, `ncclNetPlugin_v7`, which is the 152-byte table itself; everything
//! else is in `tcpx-softnet`. The symbol lives in a crate of its own because a library that links
//! `tcpx-softnet` must not export it a second time.
//!
//! `scripts/build_softnet_plugin.sh` builds it and puts it at
//! `target/release/libnccl-net-tcpx-soft.so`. NCCL finds it there with `NCCL_NET_PLUGIN=tcpx-soft`
//! and the folder in `LD_LIBRARY_PATH`.
//!
//! The feature `faults`, on by default, lets the environment script faults. A library for
//! production is built with `--no-default-features`.

use tcpx_sys::NcclNetV7;

/// What `dlsym` finds: the table itself, not a pointer to it.
#[allow(non_upper_case_globals, reason = "the ABI's name")]
// SAFETY: no other item of this name exists in the library; its type is the one that the name
// stands for.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v7: NcclNetV7 = tcpx_softnet::table();
