use std::fs::File;
use std::os::unix::fs::FileExt;

use tcpx_devmem::HostMemory;

use super::*;
use crate::memory::NicGpuMemory;

/// Returns a region over a NIC that every namespace has, and the user that has its binding.
fn region(gpu: Option<&CudaGpu>, bounce: BounceBuffer) -> RegionUser {
    let nic = Nic::named("lo").expect("every namespace has one");
    let receive_path = ReceivePath::Devmem { binding: 0, bytes: 1 << 20 };
    NicRegion::with_user(nic, gpu.map(CudaGpu::ordinal), receive_path, 1, bounce, 256)
}

fn lose(region: &NicRegion) {
    region.lose(DevmemError::BindingLost { nic: "lo".to_owned(), queue: 1 });
}

#[test]
fn lost_memory_goes_back_when_the_binding_and_the_last_comm_have_ended() {
    for binding_ends_first in [true, false] {
        let memory = HostMemory::new(2 << 20).expect("memory");
        assert!(memory.write(5000, b"here"));
        let binding = region(None, BounceBuffer::of_ring(memory, 1 << 20, false));
        let region = binding.region();
        let bytes = || {
            let file = region.bounce().region().file().expect("it is one");
            let mut found = [0; 4];
            let file = File::from(file.try_clone_to_owned().expect("a descriptor"));
            file.read_exact_at(&mut found, 5000).expect("inside");
            found
        };
        drop(region.enter().expect("it is there"));
        assert_eq!(&bytes(), b"here", "the next comm may come");
        let comms = [region.enter(), region.enter()].map(|comm| comm.expect("it is there"));
        lose(region);
        region.enter().map(drop).expect_err("it is lost");
        let (first, last): (Vec<_>, Vec<_>) = match (binding_ends_first, comms) {
            (true, [one, other]) => (vec![binding, one], vec![other]),
            (false, [one, other]) => (vec![one, other], vec![binding]),
        };
        drop(first);
        assert_eq!(&bytes(), b"here", "a reader may still use it");
        drop(last);
        assert_eq!(bytes(), [0; 4]);
        region.enter().map(drop).expect_err("it is over");
        assert_eq!(bytes(), [0; 4]);
    }
}

#[test]
fn a_gpus_lost_memory_is_for_the_next_region_unless_something_may_still_use_it() {
    let Some(gpu) = tcpx_cuda::test_gpu() else { return };
    // Sizes that no other test in this process asks for.
    let (of_nic, spare) = (1 << 20, 20480);
    let left = || NicGpuMemory::left(&gpu, of_nic, spare);
    for is_kept in [false, true] {
        let memory = NicGpuMemory::new(&gpu, of_nic, spare).expect("there is room");
        let bounce = BounceBuffer::of_nic_on_gpu(Arc::new(memory), false);
        let binding = region(Some(&gpu), bounce);
        let region = binding.region();
        let comm = region.enter().expect("it is there");
        lose(region);
        drop(binding);
        assert!(left().is_none(), "a comm uses it");
        if is_kept {
            region.leak();
        }
        drop(comm);
        match left() {
            Some(memory) => {
                assert!(!is_kept, "something may still use it");
                let again = BounceBuffer::of_nic_on_gpu(memory, false);
                let address = again.region().consumer_address();
                assert_eq!(address, region.bounce().region().consumer_address());
            }
            None => assert!(is_kept, "nothing is left"),
        }
        assert!(left().is_none(), "one region at a time");
    }
}

#[test]
fn a_region_is_no_longer_than_entries_reach_and_dma_bufs_go() {
    let mib = |(of_nic, spare): (u64, u64)| (of_nic >> 20, spare >> 20);
    assert_eq!(mib(split(256 << 20, 64 << 20)), (64, 16));
    assert_eq!(mib(split(32 << 20, 64 << 20)), (24, 8));
    assert_eq!(mib(split(1 << 32, u64::MAX)), (4080, 16));
    assert_eq!(split(4096, u64::MAX), (4096, 0));
}
