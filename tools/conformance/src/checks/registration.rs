//! `regMr`, `deregMr`, `getDeviceMr`.
//!
//! § is a section of docs/plugin-contract.md.

use tcpx_sys::{PTR_CUDA, PTR_DMABUF, PTR_HOST};

use crate::check::checks;
use crate::harness::check_result::{
    CheckResult, differs, fail, loose_acceptance, require, require_pointer, require_rc,
};
use crate::harness::comm_pair::CommPair;
use crate::harness::fixture::Fixture;
use crate::link::values::UNTOUCHED;
use crate::memory_kind::MemoryKind;

checks! { Registration:
    "registration.null_comm", "§2.6", null_comm => "regMr on a NULL comm returns 3";
    "registration.unaligned", "§2.6", unaligned => "device memory must be aligned to 4096";
    "registration.odd_size", "§8", odd_size => "device memory is registered in whole pages";
    "registration.keeps_stdin", "§8", keeps_stdin =>
        "a regMr that is refused leaves descriptor 0 of the process open";
    "registration.host_unaligned", "§2.6", host_unaligned => "host memory needs no alignment";
    "registration.type_dma_buf", "§2.6", dma_buf => "type 4 (dma-buf) returns 3";
    "registration.type_unknown", "§2.6", unknown => "other types return 3";
    "registration.null_host", "§2.6", null_host => "a NULL host range is only a tag";
    "registration.null_device", "§2.6", null_device => "a NULL device range is refused or a tag";
    "registration.negative_size", "§2.6", negative => "a negative size is refused or ignored";
    "registration.overlapping", "§8", overlapping => "the same range may be registered twice";
    "registration.both_ends", "§2.6", both_ends => "send and receive comms take registrations";
    "registration.across_comms", "§8", across => "a registration serves other comms, too";
    "registration.outlives_comm", "§8", outlives => "deregMr works after the comm is closed";
    "registration.dereg_null", "§2.6", dereg_null => "deregMr of NULL returns 0";
    "registration.no_leak", "§8", no_leak => "1000 registrations leave no descriptor behind";
    "registration.device_mr", "§1.2", device_mr => "getDeviceMr returns 0 and writes nothing";
}

const BYTES: u64 = 16 * 4096;

fn null_comm(fixture: &Fixture<'_>) -> CheckResult {
    let process = fixture.ready_agent()?;
    let at = process.allocate(BYTES)?;
    for kind in [PTR_HOST, PTR_CUDA] {
        require_rc(
            &format!("regMr of type {kind} on a NULL comm"),
            process.register(0, at, BYTES, kind)?.rc,
            3,
        )?;
    }
    Ok(())
}

fn unaligned(fixture: &Fixture<'_>) -> CheckResult {
    fixture.require_entries()?;
    let pair = fixture.pair()?;
    let at = pair.sender.allocate_device(BYTES)?;
    for shift in [1, 16, 2048, 4095] {
        let reply = pair.sender.register(pair.send_comm, at + shift, 4096, PTR_CUDA)?;
        require_rc(&format!("regMr of device memory at a page + {shift}"), reply.rc, 3)?;
    }
    Ok(())
}

/// A size that is no multiple of a page.
const ODD_BYTES: u64 = 5000;

fn odd_size(fixture: &Fixture<'_>) -> CheckResult {
    fixture.require_entries()?;
    let pair = fixture.pair()?;
    let at = pair.sender.allocate_device(BYTES)?;
    let what = format!("regMr of {ODD_BYTES} bytes of device memory");
    match pair.sender.register(pair.send_comm, at, ODD_BYTES, PTR_CUDA)?.rc {
        0 => Err(differs(format!("{what} is accepted; 3.1.9 returns 3"))),
        rc => require_rc(&what, rc, 3),
    }
}

fn keeps_stdin(fixture: &Fixture<'_>) -> CheckResult {
    fixture.require_entries()?;
    let pair = fixture.pair()?;
    let before = pair.sender.descriptor(libc::STDIN_FILENO)?;
    require(before.is_some(), "an agent with a descriptor 0", || "none".to_owned())?;
    let mut ranges =
        vec![("a size of no whole pages", pair.sender.allocate_device(BYTES)?, ODD_BYTES)];
    if fixture.memory() == MemoryKind::Cuda {
        ranges.push(("ordinary memory as device memory", pair.sender.allocate(BYTES)?, BYTES));
    }
    for (what, at, bytes) in ranges {
        // Other checks say whether it must be refused.
        pair.sender.register(pair.send_comm, at, bytes, PTR_CUDA)?;
        if pair.sender.descriptor(libc::STDIN_FILENO)? != before {
            return Err(differs(format!(
                "regMr of {what} closes file descriptor 0 of the process, as 3.1.9 does"
            )));
        }
    }
    Ok(())
}

fn host_unaligned(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let at = pair.sender.allocate(BYTES)?;
    for shift in [1, 7, 4095] {
        let reply = pair.sender.register(pair.send_comm, at + shift, 100, PTR_HOST)?;
        let call = format!("regMr of host memory at a page + {shift}");
        require_pointer(&call, reply, "a registration")?;
    }
    Ok(())
}

/// Fails unless regMr refuses memory of this type.
fn refuses_type(pair: &CommPair, kind: i32) -> CheckResult {
    let at = pair.sender.allocate(BYTES)?;
    require_rc(
        &format!("regMr of type {kind}"),
        pair.sender.register(pair.send_comm, at, BYTES, kind)?.rc,
        3,
    )
}

fn dma_buf(fixture: &Fixture<'_>) -> CheckResult {
    refuses_type(&fixture.pair()?, PTR_DMABUF)
}

fn unknown(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    [0, 3, 8, -1].into_iter().try_for_each(|kind| refuses_type(&pair, kind))
}

fn null_host(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let reply = pair.sender.register(pair.send_comm, 0, BYTES, PTR_HOST)?;
    if loose_acceptance("regMr of a NULL host range", reply.rc)? {
        return Ok(());
    }
    Err(differs("regMr refuses a NULL host range; 3.1.9 takes any"))
}

fn null_device(fixture: &Fixture<'_>) -> CheckResult {
    fixture.require_entries()?;
    let pair = fixture.pair()?;
    let reply = pair.sender.register(pair.send_comm, 0, BYTES, PTR_CUDA)?;
    // CUDA refuses it in the original; a plugin without CUDA may take it as a tag.
    loose_acceptance("regMr of a NULL device range", reply.rc).map(drop)
}

fn negative(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let at = pair.sender.allocate(BYTES)?;
    let reply = pair.sender.reg_mr(pair.send_comm, at, -1, PTR_HOST)?;
    if loose_acceptance("regMr of -1 bytes", reply.rc)? {
        return Err(differs("regMr takes a negative size, as 3.1.9 does"));
    }
    Ok(())
}

fn overlapping(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let kind = pair.memory.pointer_type();
    let first = pair.sender.register(pair.send_comm, pair.outgoing.at, BYTES, kind)?;
    let second = pair.sender.register(pair.send_comm, pair.outgoing.at + 4096, BYTES, kind)?;
    require_rc("regMr of a registered range", first.rc, 0)?;
    require_rc("regMr of an overlapping range", second.rc, 0)?;
    require(first.pointer != second.pointer, "two registrations", || {
        "the same one twice".to_owned()
    })?;
    for mhandle in [first.pointer, second.pointer] {
        let rc = pair.sender.dereg_mr(pair.send_comm, mhandle)?;
        require_rc("deregMr of one of several", rc, 0)?;
    }
    // The first registration of the range is still valid.
    pair.transfer(fixture, 10_000, 3)
}

fn both_ends(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    for kind in [PTR_HOST, pair.memory.pointer_type()] {
        pair.sender.allocate_registered(pair.send_comm, BYTES, kind)?;
        pair.receiver.allocate_registered(pair.recv_comm, BYTES, kind)?;
    }
    Ok(())
}

fn across(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let kind = pair.memory.pointer_type();
    let mut other =
        CommPair::connect(fixture, pair.sender.clone(), pair.receiver.clone(), kind, kind)?;
    (other.outgoing, other.incoming) = (pair.outgoing, pair.incoming);
    other.transfer(fixture, 10_000, 1)
}

fn outlives(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let kind = pair.memory.pointer_type();
    let other = CommPair::connect(fixture, pair.sender.clone(), pair.receiver.clone(), kind, kind)?;
    other.transfer(fixture, 100, 1)?;
    other.sender.close(crate::harness::calls::CommKind::Send, other.send_comm)?;
    let rc = pair.sender.dereg_mr(pair.send_comm, other.outgoing.mhandle)?;
    require_rc("deregMr through another comm, after its own was closed", rc, 0)
}

fn dereg_null(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    require_rc("deregMr of NULL", pair.sender.dereg_mr(pair.send_comm, 0)?, 0)
}

fn no_leak(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let before = pair.sender.resources()?;
    for _ in 0..1000 {
        let reply = pair.sender.register(
            pair.send_comm,
            pair.outgoing.at,
            BYTES,
            pair.memory.pointer_type(),
        )?;
        require_rc("regMr", reply.rc, 0)?;
        require_rc("deregMr", pair.sender.dereg_mr(pair.send_comm, reply.pointer)?, 0)?;
    }
    let after = pair.sender.resources()?;
    require(after.descriptors <= before.descriptors, "no more descriptors than before", || {
        format!("{} before, {} after", before.descriptors, after.descriptors)
    })
}

fn device_mr(fixture: &Fixture<'_>) -> CheckResult {
    let pair = fixture.pair()?;
    let reply = pair.receiver.get_device_mr(pair.recv_comm, pair.incoming.mhandle)?;
    require_rc("getDeviceMr", reply.rc, 0)?;
    if reply.pointer == UNTOUCHED {
        return Ok(());
    }
    Err(fail("an untouched output of getDeviceMr", format!("{:#x}", reply.pointer)))
}
