//! Shapes, a poisoned pool, short calls and storms: the bytes stay the same.

mod support;

use support::exchange::{SIZES, exchange};
use support::{KINDS, Net, settings};
use tcpx_softnet::{Shape, pool_stats};
use tcpx_sys::PTR_CUDA;

fn net() -> Net {
    support::net(|| {
        let mut settings = settings();
        settings.sockets = 3;
        settings.chunk_bytes = 100_000;
        settings.shape = Shape::ALL;
        settings.seed = 20_240_607;
        settings
    })
}

#[test]
fn every_size_and_mix_survives_every_shape() {
    for from in KINDS {
        for to in KINDS {
            exchange(net().pair(), (from, to), &SIZES, 3);
        }
    }
}

#[test]
fn a_full_window_survives_every_shape() {
    let sizes: Vec<_> = (0..150).map(|k| SIZES[k * 7 % 9] / 3 + k).collect();
    exchange(net().pair(), (PTR_CUDA, PTR_CUDA), &sizes, 16);
}

#[test]
fn entries_really_are_odd() {
    let net = net();
    let (sender, mut receiver) = net.pair();
    let bytes = 300_000;
    let mut memory = support::Memory::patterned(bytes, 0);
    let (_, mhandle) = net.register(sender.comm, memory.data(), bytes, PTR_CUDA);
    let (rc, send) = net.isend(sender.comm, memory.data(), bytes as i32, mhandle);
    assert_eq!(rc, 0);
    let (number, request) = receiver.post(std::ptr::null_mut(), bytes, mhandle);
    support::poll(|| {
        net.test(send);
        (net.test(request) == (0, 1)).then_some(())
    });
    let entries = receiver.entries(number);
    let count =
        |odd: &dyn Fn(usize) -> bool| (0..entries.len()).filter(|&index| odd(index)).count();
    assert!(entries.len() > 100);
    assert!(count(&|i| entries[i].src_off % 16 != 0) > 20, "unaligned");
    assert!(count(&|i| entries[i].len < 17) > 5, "tiny");
    assert!(count(&|i| i > 0 && entries[i].src_off < entries[i - 1].src_off) > 5, "shuffled");
    assert!(
        count(&|i| i > 0 && entries[i].src_off / 4096 == entries[i - 1].src_off / 4096) > 5,
        "shared"
    );
    assert!(count(&|i| i > 0 && entries[i].dst_off < entries[i - 1].dst_off) > 0, "not sorted");
    assert_eq!(receiver.unpack(number, bytes), memory.bytes());
    assert_eq!(net.consumed(receiver.comm, request), 0);
    assert_eq!((net.close(sender.comm), net.close(receiver.comm)), (0, 0));
    assert!(pool_stats().total_pages > 0);
}
