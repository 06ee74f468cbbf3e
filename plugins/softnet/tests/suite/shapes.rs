//! Shapes, a poisoned pool, short calls and storms: the bytes stay the same.

use tcpx_softnet_faults::Shape;
use tcpx_sys::PTR_CUDA;
use tcpx_testkit::in_own_process;

use crate::support::exchange::{SIZES, exchange};
use crate::support::{self, KINDS, Memory, Net};

fn net() -> Net {
    support::faulty_net(|settings, script| {
        settings.sockets = 3;
        settings.chunk_bytes = 100_000;
        script.shape = Shape::ALL;
        script.seed = 20_240_607;
    })
}

#[test]
fn every_size_and_mix_survives_every_shape() {
    in_own_process!();
    for from in KINDS {
        for to in KINDS {
            exchange(net().pair(), (from, to), &SIZES, 3);
        }
    }
}

#[test]
fn a_full_window_survives_every_shape() {
    in_own_process!();
    let sizes: Vec<_> = (0..150).map(|k| SIZES[k * 7 % 9] / 3 + k).collect();
    exchange(net().pair(), (PTR_CUDA, PTR_CUDA), &sizes, 16);
}

#[test]
fn entries_really_are_odd() {
    in_own_process!();
    let net = net();
    let (sender, mut receiver) = net.pair();
    let bytes = 300_000;
    let mut memory = Memory::patterned(bytes, 0);
    let (_, mhandle) = net.register(sender.comm, memory.data(), bytes, PTR_CUDA);
    let mut odd = [0usize; 5];
    for _ in 0..50 {
        let (rc, send) = net.isend(sender.comm, memory.data(), bytes as i32, mhandle);
        assert_eq!(rc, 0);
        let (number, recv) = receiver.post(std::ptr::null_mut(), bytes, mhandle);
        net.finish_both(send, recv);
        let entries = receiver.entries(number);
        odd[0] += entries.iter().filter(|entry| entry.src_off % 16 != 0).count();
        odd[1] += entries.iter().filter(|entry| entry.len < 17).count();
        odd[2] += entries.windows(2).filter(|pair| pair[1].src_off < pair[0].src_off).count();
        odd[3] += entries
            .windows(2)
            .filter(|pair| pair[1].src_off / 4096 == pair[0].src_off / 4096)
            .count();
        odd[4] += entries.windows(2).filter(|pair| pair[1].dst_off < pair[0].dst_off).count();
        assert_eq!(receiver.unpack(number, bytes), memory.bytes());
        assert_eq!(net.consumed(receiver.comm, recv), 0);
    }
    // The first four are drawn by the seed; whether chunks are collected out of order is up to the
    // sockets.
    let [unaligned, tiny, shuffled, shared, unsorted] = odd;
    assert!(unaligned > 1000 && tiny > 200 && shuffled > 1000 && shared > 200, "{odd:?}");
    assert!(unsorted > 0, "{odd:?}");
    assert_eq!((net.close(sender.comm), net.close(receiver.comm)), (0, 0));
}
