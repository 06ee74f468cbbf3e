//! `connect`.
//!
//! § is a section of docs/plugin-contract.md.

use std::time::Duration;

use tcpx_sys::HANDLE_BYTES;

use crate::check::checks;
use crate::harness::agent_process::AgentProcess;
use crate::harness::calls::CommKind;
use crate::harness::check_result::{CheckResult, differs, fail, may_die, require, require_rc};
use crate::harness::comm_pair::CommPair;
use crate::harness::fixture::Fixture;
use crate::harness::observation::Observation;
use crate::harness::pending_pair::{DEVICE_BYTES, MARK, PendingPair};
use crate::link::values::DeviceArgument;

checks! { Lifecycle:
    "lifecycle.connect_pending", "§2.4", pending => "the first connect returns 0 and no comm yet";
    "lifecycle.connect_prompt", "§2.4", prompt => "connect never blocks, even while no end accepts";
    "lifecycle.connect_refused", "§2.4", refused =>
        "connect to a closed listener hands out no comm";
    "lifecycle.connect_negative", "§2.4", negative => "connect on device -1 returns 3 at once";
    "lifecycle.connect_beyond", "§2.4", beyond => "connect beyond the last device ends in 3";
    "lifecycle.connect_no_device_handle", "§2.4", null_device =>
        "connect works with a NULL device argument";
    "lifecycle.connect_leaves_device_handle", "§2.4", device_left =>
        "connect never writes a device handle";
    #[destructive]
    "lifecycle.connect_after_comm", "§2.4", again => "connect after the comm came is refused";
    "lifecycle.connect_copies", "§2.4", copies =>
        "connect with a fresh copy of the handle each time yields one comm at most";
}

fn pending(fixture: &Fixture<'_>) -> CheckResult {
    let pending = PendingPair::of_new_processes(fixture)?;
    let reply = pending.connect(DeviceArgument::PointsToNull)?;
    require_rc("the first connect", reply.rc, 0)?;
    if reply.pointer == 0 {
        Ok(())
    } else {
        Err(differs("the first connect hands out a comm at once"))
    }
}

/// Longest time of a call that only makes progress, without waiting for a processor.
const PROMPT: Duration = Duration::from_millis(500);

/// Tries, one of them prompt: a call may have to wait for a thread of the plugin that waits for a
/// processor, but not each time.
const PROMPT_TRIES: u32 = 3;

fn prompt(fixture: &Fixture<'_>) -> CheckResult {
    let tries = (1..PROMPT_TRIES).map(|_| prompt_once(fixture));
    tries.into_iter().find(Result::is_ok).unwrap_or_else(|| prompt_once(fixture))
}

fn prompt_once(fixture: &Fixture<'_>) -> CheckResult {
    let pending = PendingPair::of_new_processes(fixture)?;
    // No end accepts; the calls must return all the same.
    let mut observation = Observation::lasting(Duration::from_secs(1));
    while observation.continues() {
        let (connector, device) = (&pending.connector, DeviceArgument::PointsToNull);
        let (reply, took) = connector.timed_connect(0, pending.handle, device)?;
        require(took < PROMPT, "connect returns at once", || {
            format!("it took {took:?}, without any waiting for a processor")
        })?;
        if reply.rc != 0 {
            return Err(differs(format!(
                "connect gives up with {} while no end accepts",
                reply.rc
            )));
        }
        if reply.pointer != 0 {
            return Err(differs("connect hands out a comm before the peer accepts"));
        }
    }
    Ok(())
}

fn refused(fixture: &Fixture<'_>) -> CheckResult {
    let pending = PendingPair::of_new_processes(fixture)?;
    pending.listener.close(CommKind::Listen, pending.listen_comm)?;
    // The original retries for 20 s (§2.4); it must never hand out a comm.
    let mut observation = Observation::lasting(Duration::from_secs(1));
    while observation.continues() {
        let reply = pending.connect(DeviceArgument::PointsToNull)?;
        require(reply.pointer == 0, "no comm without a listener", || {
            format!("{:#x}", reply.pointer)
        })?;
        match reply.rc {
            0 => {}
            2 | 3 => return Ok(()),
            other => return Err(fail("connect returns 0, 2 or 3", other.to_string())),
        }
    }
    Ok(())
}

fn negative(fixture: &Fixture<'_>) -> CheckResult {
    let pending = PendingPair::of_new_processes(fixture)?;
    let reply = pending.connector.connect(-1, pending.handle, DeviceArgument::PointsToNull)?;
    require_rc("connect on device -1", reply.rc, 3)
}

fn beyond(fixture: &Fixture<'_>) -> CheckResult {
    let pending = PendingPair::of_new_processes(fixture)?;
    let dev = pending.connector.devices()?.count;
    loop {
        let reply = pending.connector.connect(dev, pending.handle, DeviceArgument::PointsToNull)?;
        require(reply.pointer == 0, "no comm on a device that is not there", || {
            format!("{:#x}", reply.pointer)
        })?;
        match reply.rc {
            0 => {}
            rc => return require_rc(&format!("connect on device {dev}"), rc, 3),
        }
        require(!fixture.has_used(1, 1), "connect ends in 3", || {
            "it was still pending at the deadline".to_owned()
        })?;
    }
}

fn null_device(fixture: &Fixture<'_>) -> CheckResult {
    PendingPair::of_new_processes(fixture)?
        .establish_with(fixture, DeviceArgument::Null, || Ok(()))
        .map(drop)
}

fn device_left(fixture: &Fixture<'_>) -> CheckResult {
    let pending = PendingPair::of_new_processes(fixture)?;
    let at = pending.connector.allocate(DEVICE_BYTES as u64)?;
    pending.connector.write(at, vec![MARK; DEVICE_BYTES])?;
    pending.establish_with(fixture, DeviceArgument::At(at), || Ok(()))?;
    let after = pending.connector.read(at, DEVICE_BYTES as u32)?;
    require(after == vec![MARK; DEVICE_BYTES], "an untouched device handle", || {
        format!("{after:x?}")
    })
}

fn again(fixture: &Fixture<'_>) -> CheckResult {
    let pending = PendingPair::of_new_processes(fixture)?;
    pending.establish(fixture)?;
    let again = pending.connect(DeviceArgument::PointsToNull).map(|reply| reply.rc);
    may_die("connect with a handle that already gave its comm", again)
}

/// Copies of the handle.
const COPIES: usize = 4;

fn copies(fixture: &Fixture<'_>) -> CheckResult {
    fixture.require_available()?;
    let pending = PendingPair::of_new_processes(fixture)?;
    let connector = &pending.connector;
    let fresh = connector.read(pending.handle, HANDLE_BYTES as u32)?;
    let copy = |_| {
        let at = connector.allocate(HANDLE_BYTES as u64)?;
        connector.write(at, fresh.clone()).map(|()| at)
    };
    let mut attempts: Vec<u64> = (0..COPIES).map(copy).collect::<CheckResult<_>>()?;
    let (mut send_comm, mut recv_comm) = (0, 0);
    // The attempts that come too late may stay pending for good, as in 3.1.9.
    while (send_comm == 0 || recv_comm == 0 || !attempts.is_empty()) && !fixture.has_used(1, 3) {
        for handle in std::mem::take(&mut attempts) {
            match attempt(connector, handle)? {
                None => attempts.push(handle),
                Some(0) => {}
                Some(comm) => {
                    require(send_comm == 0, "one send comm from one listener", || {
                        format!("{send_comm:#x} and {comm:#x}")
                    })?;
                    send_comm = comm;
                }
            }
        }
        if recv_comm == 0 {
            let reply = pending.accept(DeviceArgument::At(pending.device))?;
            if reply.rc != 0 {
                return Err(differs(format!("accept ends in {} among several peers", reply.rc)));
            }
            recv_comm = reply.pointer;
        }
    }
    if send_comm == 0 || recv_comm == 0 {
        return Err(differs("none of several attempts with copies of one handle gets its comm"));
    }
    let kind = fixture.memory().pointer_type();
    let pair = CommPair::from_pending(fixture, &pending, (send_comm, recv_comm), kind, kind)?;
    pair.transfer(fixture, 20_000, 1)
}

/// Polls one attempt and returns its comm: `None` while it is pending, 0 when it ended without one.
fn attempt(connector: &AgentProcess, handle: u64) -> CheckResult<Option<u64>> {
    let reply = connector.connect(0, handle, DeviceArgument::PointsToNull)?;
    match (reply.rc, reply.pointer) {
        (0, 0) => Ok(None),
        (0, comm) => Ok(Some(comm)),
        (2 | 3, _) => Ok(Some(0)),
        (rc, _) => Err(fail("connect returns 0, 2 or 3", rc.to_string())),
    }
}
