//! `accept`, and the device handle that it writes.
//!
//! § is a section of docs/plugin-contract.md.

use tcpx_sys::PTR_CUDA;

use crate::check::checks;
use crate::harness::check_result::{
    CheckResult, EarlyEnd, differs, may_die, require, require_rc, skip,
};
use crate::harness::comm_pair::CommPair;
use crate::harness::fixture::Fixture;
use crate::harness::pending_pair::PendingPair;
use crate::link::values::{DeviceArgument, PointerReply};
use crate::outcome::Outcome;

checks! { Lifecycle:
    "lifecycle.accept_pending", "§2.5", pending => "accept without a peer returns 0 and no comm";
    "lifecycle.accept_device_handle", "§2.5", handle =>
        "the device handle is written only with the comm";
    "lifecycle.accept_device_struct", "§2.5", device =>
        "queue, bounce buffer and head -1 are there";
    "lifecycle.accept_other_gpu", "§8", other_gpu =>
        "accept refuses another GPU than the one that listen saw";
    #[destructive]
    "lifecycle.accept_one_peer", "§2.3", one_peer => "a listen comm hands out one comm only";
    #[destructive]
    "lifecycle.accept_no_device_handle", "§2.5", no_device =>
        "accept refuses a NULL device argument";
}

fn pending(fixture: &Fixture<'_>) -> CheckResult {
    let pending = PendingPair::of_new_processes(fixture)?;
    for _ in 0..10 {
        let reply = pending.accept(DeviceArgument::At(pending.device))?;
        require_rc("accept without a peer", reply.rc, 0)?;
        require(reply.pointer == 0, "no comm without a peer", || format!("{:#x}", reply.pointer))?;
    }
    require(!pending.device_handle_written()?, "an untouched device handle", || {
        "it was written without a peer".to_owned()
    })
}

fn handle(fixture: &Fixture<'_>) -> CheckResult {
    let pending = PendingPair::of_new_processes(fixture)?;
    pending.establish_with(fixture, DeviceArgument::PointsToNull, || {
        require(
            !pending.device_handle_written()?,
            "the device handle untouched while accept is pending",
            || "it was written".to_owned(),
        )
    })?;
    let device = pending.listener.device_handle(pending.device)?;
    let fields = (device.kind, device.version, device.size, device.needs_proxy_progress);
    require(fields == (1, 7, 24, 1), "{type 1, version 7, size 24, needsProxyProgress 1}", || {
        format!("{device:?}")
    })?;
    require(device.handle != 0, "a device struct", || "a NULL handle".to_owned())
}

fn device(fixture: &Fixture<'_>) -> CheckResult {
    fixture.require_available()?;
    let pending = PendingPair::of_new_processes(fixture)?;
    pending.establish(fixture)?;
    let queue =
        pending.listener.unpack_queue(pending.listener.device_handle(pending.device)?.handle)?;
    require(queue.head == u64::MAX, "head 2^64-1", || format!("{:#x}", queue.head))?;
    require(
        queue.meta != 0 && queue.meta.is_multiple_of(16),
        "a queue at a multiple of 16",
        || format!("{:#x}", queue.meta),
    )?;
    require(
        queue.bounce != 0 && queue.bounce.is_multiple_of(16),
        "a bounce buffer at a multiple of 16",
        || format!("{:#x}", queue.bounce),
    )
}

fn other_gpu(fixture: &Fixture<'_>) -> CheckResult {
    const BYTES: u64 = 100_000;
    let gpu = fixture.plugin.other_gpu();
    let gpu = gpu.ok_or_else(|| skip("it takes GPU memory, and two GPUs"))?;
    let pending = PendingPair::of_new_processes(fixture)?;
    // The first GPU's context stays below the new one.
    pending.listener.use_gpu(gpu)?;
    let (mut connected, mut accepted) =
        (PointerReply { rc: 0, pointer: 0 }, PointerReply { rc: 0, pointer: 0 });
    while connected.pointer == 0 || accepted.pointer == 0 {
        // A refusal may reach the connector first.
        if (connected.rc, connected.pointer) == (0, 0) {
            connected = pending.connect(DeviceArgument::PointsToNull)?;
        }
        if accepted.pointer == 0 {
            accepted = pending.accept(DeviceArgument::At(pending.device))?;
        }
        if accepted.rc != 0 {
            return require_rc("accept on another GPU", accepted.rc, 3);
        }
        require(!fixture.has_used(1, 1), "accept refuses or hands out its comm", || {
            "neither at the deadline".to_owned()
        })?;
    }
    let comms = (connected.pointer, accepted.pointer);
    let pair = CommPair::from_pending(fixture, &pending, comms, PTR_CUDA, PTR_CUDA)?;
    let receive = pair.receive(0, BYTES)?;
    let send = pair.send(0, BYTES, 1)?;
    pair.complete(fixture, send, &receive)?;
    Err(match pair.check(&receive, BYTES, 1) {
        Ok(()) => differs("another GPU is accepted, and the bytes arrive; in 3.1.9 they do not"),
        Err(EarlyEnd::Outcome(Outcome::Fail { got, .. })) => {
            differs(format!("another GPU is accepted and the bytes are wrong, as in 3.1.9: {got}"))
        }
        Err(other) => other,
    })
}

fn one_peer(fixture: &Fixture<'_>) -> CheckResult {
    let pending = PendingPair::of_new_processes(fixture)?;
    pending.establish(fixture)?;
    may_die(
        "accept after it gave its comm",
        pending.accept(DeviceArgument::At(pending.device)).map(|reply| reply.rc),
    )
}

fn no_device(fixture: &Fixture<'_>) -> CheckResult {
    let pending = PendingPair::of_new_processes(fixture)?;
    let mut connected = 0;
    loop {
        if connected == 0 {
            connected = pending.connect(DeviceArgument::PointsToNull)?.pointer;
        }
        match pending.accept(DeviceArgument::PointsToNull) {
            Ok(reply) if reply.rc != 0 => return Ok(()),
            Ok(reply) if reply.pointer != 0 => {
                return Err(differs("accept hands out a comm without a device handle"));
            }
            Ok(_) => {}
            Err(EarlyEnd::Died { how, .. }) => {
                return Err(differs(format!(
                    "accept without a device handle ends the process, as in 3.1.9: {how}"
                )));
            }
            Err(other) => return Err(other),
        }
        require(!fixture.has_used(1, 1), "accept ends", || {
            "it was still pending at the deadline".to_owned()
        })?;
    }
}
