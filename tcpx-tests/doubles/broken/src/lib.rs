#![allow(unsafe_code)]
//! A plugin that breaks one rule of docs/plugin-contract.md at a time.
//!
//! Its entries pass everything on to the software plugin, except for the one thing that
//! `mode::Mode` names. `TCPX_BROKEN` chooses it. Where that is unset nothing is broken, and a name
//! that is no mode makes `init` fail.
//!
//! It exists to prove that the conformance checks notice. Never use it for anything else.

mod damage;
mod entries;
mod inner;
mod ledger;
mod mode;
mod requests;

use tcpx_sys::NcclNetV7;

/// What `dlsym` finds: the table itself, not a pointer to it.
#[allow(non_upper_case_globals, reason = "the ABI's name")]
// SAFETY: no other item of this name exists in the library; its type is the one that the name
// stands for.
#[unsafe(no_mangle)]
pub static ncclNetPlugin_v7: NcclNetV7 = NcclNetV7 {
    name: c"TCPXBroken_v7".as_ptr(),
    init: Some(entries::init),
    devices: Some(entries::devices),
    get_properties: Some(entries::get_properties),
    listen: Some(entries::listen),
    connect: Some(entries::connect),
    accept: Some(entries::accept),
    reg_mr: Some(entries::reg_mr),
    reg_mr_dma_buf: None,
    dereg_mr: Some(entries::dereg_mr),
    isend: Some(requests::isend),
    irecv: Some(requests::irecv),
    iflush: Some(requests::iflush),
    test: Some(requests::test),
    close_send: Some(entries::close),
    close_recv: Some(entries::close),
    close_listen: tcpx_softnet::table().close_listen,
    get_device_mr: Some(entries::get_device_mr),
    irecv_consumed: Some(requests::irecv_consumed),
};
