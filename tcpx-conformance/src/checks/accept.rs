//! `accept`, and what it publishes.

use crate::check::{Check, Group::Lifecycle};
use crate::harness::fixture::Bench;
use crate::harness::pending_pair::Meeting;
use crate::harness::verdict::{Halt, Verdict, differs, may_die, require, require_rc};
use crate::link::command::DeviceArgument;

pub(super) const CHECKS: &[Check] = &[
    Check::new(
        Lifecycle,
        "lifecycle.accept_pending",
        "§2.5",
        "accept without a peer returns 0 and no comm",
        pending,
    ),
    Check::new(
        Lifecycle,
        "lifecycle.accept_device_handle",
        "§2.5",
        "the device handle is written only with the comm",
        handle,
    ),
    Check::new(
        Lifecycle,
        "lifecycle.accept_device_struct",
        "§2.5",
        "queue, bounce buffer and head -1 are there",
        device,
    ),
    Check::new(
        Lifecycle,
        "lifecycle.accept_one_peer",
        "§2.3",
        "a listen comm hands out one comm only",
        one_peer,
    )
    .destructive(),
    Check::new(
        Lifecycle,
        "lifecycle.accept_no_device_handle",
        "§2.5",
        "accept refuses a NULL device argument",
        no_device,
    )
    .destructive(),
];

fn pending(bench: &Bench<'_>) -> Verdict {
    let meeting = Meeting::of_strangers(bench)?;
    for _ in 0..10 {
        let made = meeting.accept(DeviceArgument::At(meeting.device))?;
        require_rc("accept without a peer", made.rc, 0)?;
        require(made.pointer == 0, "no comm without a peer", || format!("{:#x}", made.pointer))?;
    }
    require(!meeting.written()?, "an untouched device handle", || {
        "it was written without a peer".to_owned()
    })
}

fn handle(bench: &Bench<'_>) -> Verdict {
    let meeting = Meeting::of_strangers(bench)?;
    meeting.meet_with(bench, DeviceArgument::PointsToNull, || {
        require(!meeting.written()?, "the device handle untouched while accept is pending", || {
            "it was written".to_owned()
        })
    })?;
    let device = meeting.listener.device(meeting.device)?;
    let fields = (device.kind, device.version, device.size, device.needs_proxy_progress);
    require(fields == (1, 7, 24, 1), "{type 1, version 7, size 24, needsProxyProgress 1}", || {
        format!("{device:?}")
    })?;
    require(device.handle != 0, "a device struct", || "a NULL handle".to_owned())
}

fn device(bench: &Bench<'_>) -> Verdict {
    bench.require_available()?;
    let meeting = Meeting::of_strangers(bench)?;
    meeting.meet(bench)?;
    let queue = meeting.listener.queue(meeting.listener.device(meeting.device)?.handle)?;
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

fn one_peer(bench: &Bench<'_>) -> Verdict {
    let meeting = Meeting::of_strangers(bench)?;
    meeting.meet(bench)?;
    may_die(
        "accept after it gave its comm",
        meeting.accept(DeviceArgument::At(meeting.device)).map(|made| made.rc),
    )
}

fn no_device(bench: &Bench<'_>) -> Verdict {
    let meeting = Meeting::of_strangers(bench)?;
    let mut connected = 0;
    loop {
        if connected == 0 {
            connected = meeting.connect(DeviceArgument::PointsToNull)?.pointer;
        }
        match meeting.accept(DeviceArgument::PointsToNull) {
            Ok(made) if made.rc != 0 => return Ok(()),
            Ok(made) if made.pointer != 0 => {
                return Err(differs("accept hands out a comm without a device handle"));
            }
            Ok(_) => {}
            Err(Halt::Died { how, .. }) => {
                return Err(differs(format!(
                    "accept without a device handle ends the process, as in 3.1.9: {how}"
                )));
            }
            Err(other) => return Err(other),
        }
        require(!bench.used(1, 1), "accept ends", || {
            "it was still pending at the deadline".to_owned()
        })?;
    }
}
