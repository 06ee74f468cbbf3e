//! `init`, `devices`, `listen`.
//!
//! § is a section of docs/plugin-contract.md.

use tcpx_sys::HANDLE_BYTES;

use crate::check::checks;
use crate::harness::agent_process::AgentProcess;
use crate::harness::calls::CommKind;
use crate::harness::check_result::{
    CheckResult, differs, may_die, require, require_pointer, require_rc,
};
use crate::harness::fixture::Fixture;

checks! { Lifecycle:
    "lifecycle.devices_before_init", "§2.2", devices_early =>
        "devices writes -1 before init and returns 0";
    "lifecycle.init", "§2.1", init => "init returns 0 and leaves at least one device";
    "lifecycle.init_twice", "§2.1", init_twice => "a second init in the process returns 3";
    #[destructive]
    "lifecycle.init_no_logger", "§1.3", no_logger => "init with a NULL logger is refused or works";
    "lifecycle.disabled", "§2.1", disabled => "init returns 3 when the plugin is switched off";
    "lifecycle.no_interface", "§2.1", no_interface => "init returns 3 when no interface matches";
    "lifecycle.listen_negative", "§2.3", listen_negative => "listen on device -1 returns 3";
    "lifecycle.listen_beyond", "§2.3", listen_beyond => "listen beyond the last device returns 3";
    "lifecycle.handle_tail", "§2.3", handle_tail =>
        "listen leaves bytes 88 to 127 of the handle alone";
    "lifecycle.handle_bounds", "§2.3", handle_bounds =>
        "listen writes nothing beyond the 128 bytes";
    "lifecycle.handle_state", "§2.3", handle_state =>
        "listen clears the place where connect keeps its state";
    "lifecycle.handles_differ", "§2.3", handles_differ => "two listen comms have different handles";
}

fn devices_early(fixture: &Fixture<'_>) -> CheckResult {
    let counted = fixture.loaded_agent(&[])?.devices()?;
    require_rc("devices before init", counted.rc, 0)?;
    require(counted.count == -1, "-1 devices before init", || counted.count.to_string())
}

fn init(fixture: &Fixture<'_>) -> CheckResult {
    let counted = fixture.ready_agent()?.devices()?;
    require_rc("devices after init", counted.rc, 0)?;
    require(counted.count >= 1, "at least one device after init", || counted.count.to_string())
}

fn init_twice(fixture: &Fixture<'_>) -> CheckResult {
    let process = fixture.ready_agent()?;
    let count = process.devices()?.count;
    require_rc("a second init", process.init(true)?, 3)?;
    let after = process.devices()?.count;
    require(after == count, "the same devices after a refused second init", || {
        format!("{count}, then {after}")
    })
}

fn no_logger(fixture: &Fixture<'_>) -> CheckResult {
    match fixture.loaded_agent(&[])?.init(false) {
        // Working without a log is as good as refusing.
        Ok(0) => Ok(()),
        other => may_die("init with a NULL logger", other),
    }
}

/// Returns the code of init with one more variable set.
fn init_with(fixture: &Fixture<'_>, variable: &str, value: &str) -> CheckResult<i32> {
    fixture.loaded_agent(&[(variable, value)])?.init(true)
}

fn disabled(fixture: &Fixture<'_>) -> CheckResult {
    match init_with(fixture, "NCCL_GPUDIRECTTCPX_SOCKET_ENABLE", "0")? {
        // The switch belongs to the original; a plugin may have another, or none.
        0 => Err(differs("init works with NCCL_GPUDIRECTTCPX_SOCKET_ENABLE=0; 3.1.9 returns 3")),
        rc => require_rc("init with NCCL_GPUDIRECTTCPX_SOCKET_ENABLE=0", rc, 3),
    }
}

fn no_interface(fixture: &Fixture<'_>) -> CheckResult {
    let rc = init_with(fixture, "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "=no-such-nic")?;
    require_rc("init with an interface that is not there", rc, 3)
}

/// Fails unless listen refuses the device.
fn refuses_to_listen(process: &AgentProcess, dev: i32) -> CheckResult {
    let handle = process.allocate(HANDLE_BYTES as u64)?;
    let reply = process.listen(dev, handle)?;
    require_rc(&format!("listen on device {dev}"), reply.rc, 3)
}

fn listen_negative(fixture: &Fixture<'_>) -> CheckResult {
    refuses_to_listen(&fixture.ready_agent()?, -1)
}

fn listen_beyond(fixture: &Fixture<'_>) -> CheckResult {
    let process = fixture.ready_agent()?;
    let count = process.devices()?.count;
    refuses_to_listen(&process, count)?;
    refuses_to_listen(&process, i32::MAX)
}

const MARK: u8 = 0xa5;

/// Lets `listen` write a handle, and returns it with the bytes before and behind it. All bytes were
/// marked before.
fn handle_and_surroundings(fixture: &Fixture<'_>) -> CheckResult<Vec<u8>> {
    let process = fixture.ready_agent()?;
    let at = process.allocate(3 * HANDLE_BYTES as u64)?;
    process.write(at, vec![MARK; 3 * HANDLE_BYTES])?;
    let reply = process.listen(0, at + HANDLE_BYTES as u64)?;
    let comm = require_pointer("listen on device 0", reply, "listen hands out a comm")?;
    let bytes = process.read(at, 3 * HANDLE_BYTES as u32)?;
    process.close(CommKind::Listen, comm)?;
    Ok(bytes)
}

fn handle_tail(fixture: &Fixture<'_>) -> CheckResult {
    let bytes = handle_and_surroundings(fixture)?;
    let tail = &bytes[HANDLE_BYTES + 88..2 * HANDLE_BYTES];
    match tail.iter().position(|&byte| byte != MARK) {
        None => Ok(()),
        Some(at) => Err(differs(format!("listen also writes byte {} of the handle", 88 + at))),
    }
}

fn handle_bounds(fixture: &Fixture<'_>) -> CheckResult {
    let bytes = handle_and_surroundings(fixture)?;
    let outside = bytes[..HANDLE_BYTES].iter().chain(&bytes[2 * HANDLE_BYTES..]);
    let touched = outside.filter(|&&byte| byte != MARK).count();
    require(touched == 0, "nothing written outside the handle", || {
        format!("{touched} bytes written")
    })
}

fn handle_state(fixture: &Fixture<'_>) -> CheckResult {
    let bytes = handle_and_surroundings(fixture)?;
    let state = &bytes[HANDLE_BYTES + 80..HANDLE_BYTES + 88];
    require(state == [0; 8], "zeros at bytes 80 to 87 of the handle", || format!("{state:x?}"))
}

fn handles_differ(fixture: &Fixture<'_>) -> CheckResult {
    let process = fixture.ready_agent()?;
    let (first, second) = (fixture.listen(&process)?, fixture.listen(&process)?);
    require(first.0 != second.0, "two listen comms", || "the same one twice".to_owned())?;
    let (a, b) =
        (process.read(first.1, HANDLE_BYTES as u32)?, process.read(second.1, HANDLE_BYTES as u32)?);
    require(a != b, "two handles", || "the same bytes twice".to_owned())
}
