//! The same transfers with helper threads, without and with receive synchronisation between the
//! ends.

use tcpx_softnet::Helpers;
use tcpx_testkit::in_own_process;

use crate::support::exchange::{SIZES, exchange};
use crate::support::{self, KINDS, Net};

fn net() -> Net {
    support::faulty_net(|settings, script| {
        settings.sockets = 4;
        settings.threads = 2;
        settings.helpers = Helpers::On;
        settings.chunk_bytes = 65_536;
        settings.recv_sync = true;
        script.shape = "fragments,short,again".parse().expect("a shape");
    })
}

#[test]
fn helper_threads_move_every_size() {
    in_own_process!();
    for kind in KINDS {
        exchange(net().pair(), (kind, kind), &SIZES, 4);
    }
}

#[test]
fn helper_threads_keep_up_with_a_full_window() {
    in_own_process!();
    let sizes: Vec<_> = (0..300).map(|k| SIZES[k * 7 % 10]).collect();
    exchange(net().pair(), (KINDS[1], KINDS[1]), &sizes, 16);
}

#[test]
fn closing_in_the_middle_joins_the_threads() {
    in_own_process!();
    for _ in 0..20 {
        let net = net();
        let (sender, mut receiver) = net.pair();
        let bytes = 4 << 20;
        let mut memory = support::Memory::patterned(bytes, 0);
        let (_, mhandle) = net.register(sender.comm, memory.data(), bytes, KINDS[1]);
        let (rc, send) = net.isend(sender.comm, memory.data(), bytes as i32, mhandle);
        assert_eq!(rc, 0);
        let (_, recv) = receiver.post(std::ptr::null_mut(), bytes, mhandle);
        // Helper threads work at their own pace, so the send may be done, and then stale, at any
        // point.
        for _ in 0..10 {
            assert!([0, 3].contains(&net.test(send).0));
            assert_eq!(net.test(recv).0, 0);
        }
        assert_eq!((net.close(sender.comm), net.close(receiver.comm)), (0, 0));
        assert_eq!(net.deregister(sender.comm, mhandle), 0);
    }
}
