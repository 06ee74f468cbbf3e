#![allow(unsafe_code)]
//! Refusals of a session on a plugin with the hardware plugin's name: requests that the original
//! does not survive. The plugin here moves nothing.

use std::path::Path;

use tcpx_core::{
    Access, Device, Error, MemoryAddress, MemoryType, PluginChoice, RegistrationProblem, Session,
    SessionOptions, SettingProblem,
};
use tcpx_cuda::{CudaGpu, DeviceBuffer, PAGE_BYTES, PinnedBuffer};
use tcpx_testkit::in_own_process;
use tcpx_tests::{has_gpu, null};

/// Over the plugin that `TCPX_NULL_NAME` gives the hardware plugin's name.
fn options() -> SessionOptions {
    SessionOptions::default()
        .progress_thread(false)
        .plugin(PluginChoice::Path(null::plugin()))
        .preflight(false)
}

fn session(gpu: Option<u32>) -> Result<Session, Error> {
    Session::new(options().gpu(gpu))
}

fn register(
    session: &Session,
    (address, bytes): (u64, u64),
    memory: MemoryType,
    access: Access,
) -> Result<(), Error> {
    let address = MemoryAddress::from_device(address);
    // SAFETY: nothing is posted on what is registered, and it goes before its memory.
    let id = unsafe { session.register_memory(address, bytes, memory, access) }?;
    session.deregister_memory(id)
}

fn problem(outcome: Result<(), Error>) -> RegistrationProblem {
    match outcome {
        Err(Error::Registration { problem, .. }) => problem,
        other => panic!("not refused: {other:?}"),
    }
}

fn open_files() -> usize {
    Path::new("/proc/self/fd").read_dir().expect("Linux").count()
}

#[test]
fn a_session_without_a_gpu_is_refused_before_there_is_a_comm() {
    in_own_process!("TCPX_NULL_NAME" = "hardware");
    let error = session(None).expect_err("the CPU would read GPU memory");
    assert!(
        matches!(error, Error::Setting { name: "gpu", problem: SettingProblem::GpuNeeded, .. }),
        "{error}"
    );
    let text = error.to_string();
    for word in ["[TCPX-229]", "TCPX_GPU", "--memory cuda"] {
        assert!(text.contains(word), "{word} is missing: {text}");
    }
}

/// Its host memory is sent with a GPU, and not received into.
#[test]
fn a_group_sends_from_host_memory_and_does_not_receive_into_it() {
    in_own_process!("TCPX_NULL_NAME" = "hardware");
    let group = Session::new(options().all_devices(true));
    if !has_gpu() {
        let refused = group.expect_err("there is no GPU");
        assert!(matches!(refused, Error::MemoryUnavailable(_)), "{refused}");
        return;
    }
    let group = group.expect("it takes the first GPU");
    let refused = group.register_buffer(vec![0; 8], Access::ReadWrite).map(drop);
    assert_eq!(problem(refused), RegistrationProblem::ReceiveIntoHostMemory);
    let refused = group.allocate(8, Device::Host).map(drop);
    assert_eq!(problem(refused), RegistrationProblem::ReceiveIntoHostMemory);
    let memory = group.register_buffer(vec![0; 8], Access::ReadOnly).expect("it can be sent from");
    group.deregister_memory(memory).expect("nothing uses it");
}

#[test]
fn only_memory_that_the_driver_exports_reaches_the_plugin() {
    in_own_process!("TCPX_NULL_NAME" = "hardware");
    if !has_gpu() {
        return;
    }
    let session = session(Some(0)).expect("it has a GPU");
    let gpu = CudaGpu::open(0).expect("there is a GPU");
    let buffer = DeviceBuffer::new(&gpu, 3 << 20).expect("there is room");
    let pinned = PinnedBuffer::new(&gpu, 8192).expect("there is room");
    let ordinary = vec![1_u8; 8192];
    let ordinary = (ordinary.as_ptr().addr() as u64, 8192);
    let files = open_files();
    let device = |range| register(&session, range, MemoryType::Device, Access::ReadWrite);

    device((buffer.address(), buffer.bytes())).expect("whole pages of the GPU");
    device((buffer.address() + 3, 5000)).expect("it is rounded out to such");
    let id = session.allocate(1000, MemoryType::Device).expect("so is what the session allocates");
    session.deregister_memory(id).expect("nothing is posted");

    let refused = device((pinned.address(), 8192)).expect_err("it is the host's");
    assert!(refused.to_string().ends_with("[TCPX-829]"), "{refused}");
    let (address, bytes) = (pinned.address(), 8192);
    assert_eq!(problem(Err(refused)), RegistrationProblem::NotExportable { address, bytes });
    // The GPU does not reach it at all.
    let refused = problem(device(ordinary));
    assert!(matches!(refused, RegistrationProblem::OutOfGpuReach { .. }), "{refused}");

    // Host memory is sent from, and not received into.
    let host = |access| register(&session, ordinary, MemoryType::Host, access);
    host(Access::ReadOnly).expect("the plugin sends from it");
    assert_eq!(problem(host(Access::ReadWrite)), RegistrationProblem::ReceiveIntoHostMemory);
    assert_eq!(open_files(), files, "a descriptor was left open, or closed");
}

/// The first page of a small allocation may begin before it. A driver may export that page, as
/// driver 580 does, or refuse it, as the one without a GPU does. The decision is the driver's.
#[test]
fn a_range_that_begins_before_its_allocation_is_the_drivers_to_refuse() {
    in_own_process!("TCPX_NULL_NAME" = "hardware");
    if !has_gpu() {
        return;
    }
    let session = session(Some(0)).expect("it has a GPU");
    let gpu = CudaGpu::open(0).expect("there is a GPU");
    let buffer = DeviceBuffer::new(&gpu, PAGE_BYTES).expect("there is room");
    // The buffer has a page more than it says, so that it can begin at one.
    let start = buffer.address() - 100;
    let outcome = register(&session, (start, 200), MemoryType::Device, Access::ReadOnly);
    let is_fake = gpu.name().expect("it has a name") == "TCPX fake GPU";
    match outcome {
        Ok(()) if !is_fake => {}
        outcome => {
            let (address, bytes) = (buffer.address() - PAGE_BYTES, 2 * PAGE_BYTES);
            let expected = RegistrationProblem::NotExportable { address, bytes };
            assert_eq!(problem(outcome), expected);
        }
    }
}

#[test]
fn a_plugin_that_exports_memory_itself_is_not_checked() {
    // With the second one set the plugin asks the CUDA driver for no dma-buf.
    in_own_process!(
        "TCPX_NULL_NAME" = "hardware",
        "NCCL_GPUDIRECTTCPX_REG_DMABUF_USE_INTERNAL_API" = "1",
    );
    if !has_gpu() {
        return;
    }
    let session = session(Some(0)).expect("it has a GPU");
    let gpu = CudaGpu::open(0).expect("there is a GPU");
    let pinned = PinnedBuffer::new(&gpu, 8192).expect("there is room");
    register(&session, (pinned.address(), 8192), MemoryType::Device, Access::ReadWrite)
        .expect("no call of the driver");
}
