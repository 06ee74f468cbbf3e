//! A group with GPU 0: all four ways between its memory and that of the host. Without a GPU the
//! test says that it is skipped; `TCPX_TEST_REQUIRE=gpu` makes that a failure.

use std::time::Duration;

use serial_test::serial;
use tcpx_core::{
    CudaError, Device, Error, ExportOptions, Group, MemoryRange, MemoryUnavailable, OperationKind,
    PluginChoice, RemoteAccess, RemoteRange, SessionOptions, gpu_count,
};
use tcpx_tests::has_gpu;

const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));
const DEVICES: [Device; 2] = [Device::Host, Device::Gpu(0)];

fn group() -> Group {
    let options = SessionOptions::default().plugin(PluginChoice::Soft);
    Group::new(options).expect("the software plugin is always there")
}

#[test]
#[serial]
fn bytes_move_between_gpus_and_hosts() {
    if !has_gpu() {
        return;
    }
    let [left, right] = [group(), group()];
    let info = right.listen().expect("listen");
    left.load_remote_conn_info("right", &info).expect("own bytes load");
    for here in DEVICES {
        for there in DEVICES {
            for bytes in [1000usize, 700_001] {
                let ours = left.allocate(here, bytes as u64).expect("memory");
                let theirs = right.allocate(there, bytes as u64).expect("memory");
                let pattern: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
                left.write_memory(ours, 0, &pattern).expect("nothing uses it");
                let options = ExportOptions::new(RemoteAccess::ReadWrite);
                let key = right.export(theirs, options).expect("it is registered");
                let local = [MemoryRange { memory: ours, offset: 0, bytes: key.bytes() }];
                let remote = [RemoteRange { key: &key, offset: 0, bytes: key.bytes() }];
                for kind in [OperationKind::Write, OperationKind::Read] {
                    let operation =
                        left.prepare("right", kind, &local, &remote).expect("it is known");
                    operation.post(None).expect("it waits");
                    operation.wait(PATIENCE).expect("it goes well");
                    let group = if kind == OperationKind::Write { &right } else { &left };
                    let memory = if kind == OperationKind::Write { theirs } else { ours };
                    let mut moved = vec![0; bytes];
                    drop(operation);
                    group.read_memory(memory, 0, &mut moved).expect("nothing uses it");
                    assert!(moved == pattern, "{here} to {there}, {bytes} bytes, {kind:?}");
                    left.write_memory(ours, 0, &vec![0; bytes]).expect("nothing uses it");
                }
                right.deregister_memory(theirs).expect("nothing uses it");
                left.deregister_memory(ours).expect("nothing uses it");
            }
        }
    }
}

#[test]
#[serial]
fn a_gpu_that_is_not_there_is_named() {
    let missing = gpu_count() + 7;
    let refused = group().allocate(Device::Gpu(missing), 8).expect_err("it is not there");
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
