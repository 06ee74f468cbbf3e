//! A group with GPUs: all ways between their memory and that of the host, to a peer and to itself.
//! Without a GPU the tests say that they are skipped; `TCPX_TEST_REQUIRE=gpu` makes that a failure.

use serial_test::serial;
use tcpx_core::{
    CudaError, Device, Error, ExportOptions, MemoryRange, MemoryUnavailable, OperationKind,
    RemoteAccess, RemoteRange, Session, gpu_count,
};
use tcpx_testkit::{PATIENCE, in_own_process};
use tcpx_tests::has_gpu;
use tcpx_tests::sessions::soft;

fn group() -> Session {
    Session::new(soft().all_devices(true)).expect("the software plugin is always there")
}

/// The host, and the first two GPUs.
fn devices() -> Vec<Device> {
    let gpus = (0..gpu_count().min(2)).map(Device::Gpu);
    std::iter::once(Device::Host).chain(gpus).collect()
}

/// Writes to memory of one device of a peer, and reads it back.
fn there_and_back([left, right]: [&Session; 2], peer: &str, here: Device, there: Device) {
    for bytes in [1000usize, 700_001] {
        let ours = left.allocate(bytes as u64, here).expect("memory");
        let theirs = right.allocate(bytes as u64, there).expect("memory");
        let pattern: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        left.write_memory(ours, 0, &pattern).expect("nothing uses it");
        let options = ExportOptions::new(RemoteAccess::ReadWrite);
        let key = right.export(theirs, options).expect("it is registered");
        let local = [MemoryRange { memory: ours, offset: 0, bytes: key.bytes() }];
        let remote = [RemoteRange { key: &key, offset: 0, bytes: key.bytes() }];
        for kind in [OperationKind::Write, OperationKind::Read] {
            let operation = left.prepare(peer, kind, &local, &remote).expect("it is known");
            operation.post(None).expect("it waits");
            operation.wait(Some(PATIENCE)).expect("it succeeds");
            let is_write = kind == OperationKind::Write;
            let (group, memory) = if is_write { (right, theirs) } else { (left, ours) };
            let mut moved = vec![0; bytes];
            drop(operation);
            group.read_memory(memory, 0, &mut moved).expect("nothing uses it");
            assert!(moved == pattern, "{here} to {there} of {peer}, {bytes} bytes, {kind:?}");
            left.write_memory(ours, 0, &vec![0; bytes]).expect("nothing uses it");
        }
        right.deregister_memory(theirs).expect("nothing uses it");
        left.deregister_memory(ours).expect("nothing uses it");
    }
}

#[test]
#[serial(gpu)]
fn bytes_move_between_gpus_and_hosts() {
    in_own_process!();
    if !has_gpu() {
        return;
    }
    let [left, right] = [group(), group()];
    left.load_remote_conn_info("right", &right.listen().expect("listen")).expect("own bytes load");
    // A group reaches itself too: so bytes move between the GPUs of one host.
    left.load_remote_conn_info("left", &left.listen().expect("listen")).expect("own bytes load");
    for here in devices() {
        for there in devices() {
            there_and_back([&left, &right], "right", here, there);
            there_and_back([&left, &left], "left", here, there);
        }
    }
}

/// Ranges of all devices here, each to the next one at the peer: one operation, and its
/// notification comes when all of it is in place.
#[test]
#[serial(gpu)]
fn one_operation_moves_bytes_of_all_devices() {
    in_own_process!();
    const BYTES: usize = 300_001;
    if !has_gpu() {
        return;
    }
    let [left, right] = [group(), group()];
    left.load_remote_conn_info("right", &right.listen().expect("listen")).expect("own bytes load");
    let devices = devices();
    let memory = |group: &Session, device| group.allocate(BYTES as u64, device).expect("memory");
    let pattern = |place: usize| vec![place as u8 + 1; BYTES];
    let ours: Vec<_> = devices.iter().map(|device| memory(&left, *device)).collect();
    for (place, memory) in ours.iter().enumerate() {
        left.write_memory(*memory, 0, &pattern(place)).expect("nothing uses it");
    }
    let theirs: Vec<_> = devices
        .iter()
        .cycle()
        .skip(1)
        .map(|device| memory(&right, *device))
        .take(ours.len())
        .collect();
    let options = ExportOptions::new(RemoteAccess::ReadWrite);
    let keys: Vec<_> =
        theirs.iter().map(|memory| right.export(*memory, options).expect("registered")).collect();
    let bytes = BYTES as u64;
    let local: Vec<_> =
        ours.iter().map(|memory| MemoryRange { memory: *memory, offset: 0, bytes }).collect();
    let remote: Vec<_> = keys.iter().map(|key| RemoteRange { key, offset: 0, bytes }).collect();
    let operation = left.prepare("right", OperationKind::Write, &local, &remote).expect("known");
    operation.post(Some(b"all")).expect("it waits");
    operation.wait(Some(PATIENCE)).expect("it succeeds");
    let mut notes = Vec::new();
    right.wait_notifications(&mut notes, 1, Some(PATIENCE)).expect("it is there");
    assert_eq!(&notes[0].bytes[..], b"all");
    for (place, memory) in theirs.iter().enumerate() {
        let mut moved = vec![0; BYTES];
        right.read_memory(*memory, 0, &mut moved).expect("nothing uses it");
        assert!(moved == pattern(place), "range {place}");
    }
}

#[test]
#[serial(gpu)]
fn a_gpu_that_is_not_there_is_named() {
    in_own_process!();
    let missing = gpu_count() + 7;
    let refused = group().allocate(8, Device::Gpu(missing)).expect_err("it is not there");
    let Error::MemoryUnavailable(MemoryUnavailable::Cuda(error)) = refused else {
        panic!("{refused}")
    };
    match error {
        CudaError::NoSuchGpu { gpu, .. } => assert_eq!(gpu, missing),
        // A driver without a GPU refuses its own initialisation.
        CudaError::NoDriver | CudaError::Call { .. } => assert_eq!(gpu_count(), 0),
        other => panic!("{other}"),
    }
}
