#![allow(unsafe_code)]
//! Rules in which the table is stricter than the original: calls that end there in corruption, a
//! crash or a hang are errors here. The rules that both keep are checked by tcpx-conformance, which
//! runs over this plugin too (tools/conformance/tests/suite/softnet.rs).

use std::ffi::c_int;
use std::ptr;

use tcpx_sys::{NetProperties, PTR_CUDA, PTR_HOST, log_callback};
use tcpx_testkit::{eventually, in_own_process, until};

use crate::support::pair::Pair;
use crate::support::{self, Memory, Net, PluginPtr, settings};

const BYTES: usize = 40_000;

fn net() -> Net {
    support::net(|_| ())
}

fn connected() -> Pair {
    Pair::new(net(), BYTES, PTR_CUDA)
}

/// Closes the comms and then deregisters the buffer.
fn close(pair: Pair) {
    let (net, mhandle) = (pair.net, pair.mhandle);
    pair.close();
    assert_eq!(net.deregister(ptr::null_mut(), mhandle), 0);
}

#[test]
fn devices_and_properties() {
    in_own_process!();
    let net = net();
    let mut ndev = 0;
    // SAFETY: valid places; the properties' name is the plugin's for good.
    unsafe {
        assert_eq!(net.0.devices.expect("devices")(&raw mut ndev).0, 0);
        assert_eq!(ndev, 1);
        assert_eq!(net.0.devices.expect("devices")(ptr::null_mut()).0, 3);
        let mut props = std::mem::zeroed::<NetProperties>();
        let get = net.0.get_properties.expect("getProperties");
        assert_eq!(get(0, &raw mut props).0, 0);
        assert_eq!(std::ffi::CStr::from_ptr(props.name), c"lo");
        assert!(props.pci_path.is_null());
        for dev in [-1, 1, c_int::MAX] {
            assert_eq!(get(dev, &raw mut props).0, 3);
        }
        assert_eq!(get(0, ptr::null_mut()).0, 3);
    }
}

#[test]
fn a_second_init_is_refused() {
    in_own_process!();
    let init = net().0.init.expect("init");
    // SAFETY: the callback is of the logger's type and thread-safe; NULL is allowed to be refused.
    unsafe {
        assert_eq!(init(Some(log_callback())).0, 3);
        assert_eq!(init(None).0, 3);
    }
    assert!(tcpx_softnet::configure(settings()).is_err());
}

#[test]
fn tests_and_consumes_go_in_order_and_errors_are_not_sticky() {
    in_own_process!();
    let mut pair = connected();
    let (_, first) = pair.irecv(BYTES);
    let (_, second) = pair.irecv(BYTES);
    assert_eq!(pair.net.test(second), (0, 0), "nothing is on the wire yet");
    assert_eq!(pair.consumed(first), 3, "not done");
    for _ in 0..2 {
        let send = pair.isend(0);
        pair.net.finish(send);
    }
    until("the first moves", || pair.net.test(second) == (3, 0));
    pair.net.finish(first);
    assert_eq!(pair.consumed(second), 3, "not its turn");
    pair.net.finish(second);
    assert_eq!(pair.net.test(second), (0, 0), "done is reported once");
    assert_eq!(pair.consumed(second), 3, "the first comes first, also when it is empty");
    assert_eq!(pair.consumed(first), 0);
    assert_eq!(pair.consumed(first), 3, "twice");
    assert_eq!(pair.net.test(first).0, 3, "freed");
    assert_eq!(pair.consumed(second), 0);
    close(pair);
}

#[test]
fn consumed_pages_are_poisoned() {
    in_own_process!();
    let mut pair = connected();
    let (number, recv) = pair.irecv(BYTES);
    let send = pair.isend(BYTES);
    pair.net.finish(send);
    pair.net.finish(recv);
    assert_eq!(pair.receiver.unpack(number, BYTES), pair.memory.bytes());
    assert_eq!(pair.consumed(recv), 0);
    let late = pair.receiver.unpack(number, BYTES);
    assert_ne!(late, pair.memory.bytes());
    close(pair);
}

#[test]
fn registrations_are_checked() {
    in_own_process!();
    let net = net();
    let (sender, receiver) = net.pair();
    let mut memory = Memory::new(8192);
    let data = memory.data();
    assert_eq!(net.register(sender.comm, data, usize::MAX, PTR_HOST).0, 3, "−1 bytes");
    let (_, listen) = net.listen();
    assert_eq!(net.register(listen, data, 4096, PTR_HOST).0, 3);
    assert_eq!(net.close_listen(listen), 0);
    let (_, host) = net.register(sender.comm, data, 4096, PTR_HOST);
    for (offset, bytes, rc) in [(0, 4096, 0), (0, 4097, 3), (1, 4096, 3), (4096, 0, 0), (0, -1, 3)]
    {
        let (got, request) = net.isend(sender.comm, data.wrapping_add(offset), bytes, host);
        assert_eq!(got, rc, "isend of {bytes} at {offset}");
        let (got, _) = net.irecv(receiver.comm, data.wrapping_add(offset), bytes, host);
        assert_eq!(got, rc, "irecv of {bytes} at {offset}");
        if rc == 0 {
            net.finish(request);
        }
    }
    assert_eq!(net.deregister(sender.comm, host), 3, "receives hold it");
    assert_eq!((net.close(sender.comm), net.close(receiver.comm)), (0, 0));
    assert_eq!(net.deregister(sender.comm, host), 0, "outlives its comm");
    assert_eq!(net.deregister(sender.comm, host), 3, "twice");
}

#[test]
fn a_message_longer_than_posted_is_an_error_that_stays() {
    in_own_process!();
    let mut pair = connected();
    let (_, fits) = pair.receiver.post(ptr::null_mut(), 10, pair.mhandle);
    let (_, small) = pair.receiver.post(ptr::null_mut(), 100, pair.mhandle);
    let (_, later) = pair.irecv(BYTES);
    for bytes in [10, 101, 1] {
        let send = pair.isend(bytes);
        pair.net.finish(send);
    }
    pair.net.finish(fits);
    assert_eq!(pair.consumed(fits), 0);
    assert_eq!(pair.net.fails_with(small), 3);
    assert_eq!(pair.net.test(small), (3, 0));
    assert_eq!(pair.net.test(later), (3, 0));
    close(pair);
}

#[test]
fn too_many_fragments_are_an_error_instead_of_exit() {
    in_own_process!();
    let net = net();
    let (sender, mut receiver) = net.pair();
    let bytes = 2049 * 4096;
    let mut memory = Memory::new(bytes);
    let (_, mhandle) = net.register(sender.comm, memory.data(), bytes, PTR_CUDA);
    for (pages, fits) in [(2048, true), (2049, false)] {
        let (rc, send) = net.isend(sender.comm, memory.data(), pages * 4096, mhandle);
        assert_eq!(rc, 0);
        let (number, recv) = receiver.post(ptr::null_mut(), bytes, mhandle);
        let mut sent = false;
        let outcome = eventually(|| {
            sent = sent || net.test(send) != (0, 0);
            Some(net.test(recv)).filter(|&outcome| outcome != (0, 0))
        });
        assert_eq!(outcome, if fits { (0, 1) } else { (3, 0) });
        if fits {
            assert_eq!(receiver.entries(number).len(), 2048);
            assert_eq!(net.consumed(receiver.comm, recv), 0);
        }
    }
    assert_eq!((net.close(sender.comm), net.close(receiver.comm)), (0, 0));
}

#[test]
fn stale_foreign_and_null_pointers_are_errors() {
    in_own_process!();
    let pair = connected();
    let mut local = 0u64;
    let foreign: PluginPtr = (&raw mut local).cast();
    for wrong in [foreign, ptr::null_mut(), pair.mhandle, pair.sender.comm] {
        assert_eq!(pair.net.test(wrong), (3, 0));
        assert_eq!(pair.consumed(wrong), 3);
        assert_eq!(pair.net.received(pair.receiver.comm, wrong).0, 3);
    }
    for wrong in [foreign, ptr::null_mut(), pair.sender.comm] {
        assert_eq!(pair.net.isend(pair.sender.comm, foreign.cast(), 0, wrong).0, 3);
        assert_eq!(pair.net.irecv(pair.receiver.comm, foreign.cast(), 0, wrong).0, 3);
    }
    for wrong in [foreign, pair.mhandle] {
        assert_eq!((pair.net.close(wrong), pair.net.close_listen(wrong)), (3, 3));
    }
    assert_eq!(
        pair.net.isend(pair.receiver.comm, foreign.cast(), 0, pair.mhandle).0,
        3,
        "wrong direction"
    );
    assert_eq!(
        pair.net.irecv(pair.sender.comm, foreign.cast(), 0, pair.mhandle).0,
        3,
        "wrong direction"
    );
    assert_eq!(pair.net.close_listen(pair.sender.comm), 3);
    assert_eq!((pair.net.close(ptr::null_mut()), pair.net.close_listen(ptr::null_mut())), (0, 0));
    let (net, comm) = (pair.net, pair.sender.comm);
    close(pair);
    assert_eq!(net.close(comm), 3, "twice");
    assert_eq!(net.isend(comm, foreign.cast(), 0, foreign).0, 3);
}

#[test]
fn requests_of_another_comm_or_direction_are_refused() {
    in_own_process!();
    let mut pair = connected();
    let mut other = connected();
    let (_, recv) = pair.irecv(BYTES);
    let send = pair.isend(1);
    assert_eq!(other.net.consumed(other.receiver.comm, recv), 3);
    assert_eq!(pair.net.consumed(pair.sender.comm, send), 3);
    assert_eq!(pair.net.received(pair.receiver.comm, recv).0, 3, "size not known yet");
    pair.net.finish(send);
    pair.net.finish(recv);
    let (_, unrelated) = other.irecv(BYTES);
    assert_eq!(other.net.test(unrelated), (0, 0));
    assert_eq!(pair.consumed(recv), 0);
    close(pair);
    close(other);
}

#[test]
fn null_outputs_are_refused() {
    in_own_process!();
    let mut pair = connected();
    let (_, recv) = pair.irecv(BYTES);
    let net = pair.net;
    let comm = pair.receiver.comm;
    let (mut data, mut size, mut mhandle, mut request): (PluginPtr, c_int, PluginPtr, PluginPtr) =
        (ptr::null_mut(), 1, pair.mhandle, recv);
    let irecv = net.0.irecv.expect("irecv");
    let iflush = net.0.iflush.expect("iflush");
    // SAFETY: every pointer is valid or NULL.
    unsafe {
        let (d, s, m, r) = (&raw mut data, &raw mut size, &raw mut mhandle, &raw mut request);
        let none = ptr::null_mut();
        assert_eq!(irecv(comm, 1, none, s, ptr::null_mut(), m, r).0, 3);
        assert_eq!(irecv(comm, 1, d, ptr::null_mut(), ptr::null_mut(), m, r).0, 3);
        assert_eq!(irecv(comm, 1, d, s, ptr::null_mut(), none, r).0, 3);
        assert_eq!(irecv(comm, 1, d, s, ptr::null_mut(), m, ptr::null_mut()).0, 3);
        assert_eq!(iflush(comm, 1, d, ptr::null_mut(), m, r).0, 3);
        assert_eq!(iflush(comm, 1, d, s, m, ptr::null_mut()).0, 3);
        assert_eq!(net.0.test.expect("test")(recv, ptr::null_mut(), ptr::null_mut()).0, 3);
    }
    assert_eq!(request, recv, "outputs are untouched");
    close(pair);
}

#[test]
fn a_comm_in_use_by_another_thread_is_reported() {
    in_own_process!();
    let pair = connected();
    let (net, comm, mhandle) = (pair.net, pair.sender.comm.addr(), pair.mhandle.addr());
    let hammer = move || {
        let mut refused = 0u32;
        for _ in 0..200_000 {
            let (comm, mhandle) =
                (ptr::without_provenance_mut(comm), ptr::without_provenance_mut(mhandle));
            let (rc, request) = net.isend(comm, ptr::null_mut(), 0, mhandle);
            assert!(rc == 0 || rc == 3);
            if rc == 0 {
                let (rc, _) = net.test(request);
                assert!([0, 2, 3].contains(&rc));
            }
            refused += u32::from(rc == 3);
            if refused > 20 {
                break;
            }
        }
    };
    let others: Vec<_> = (0..2).map(|_| std::thread::spawn(hammer)).collect();
    others.into_iter().for_each(|other| other.join().expect("no crash"));
    close(pair);
}

#[test]
fn memory_is_registered_while_another_thread_drives_the_comm() {
    in_own_process!();
    const ROUNDS: usize = 200;
    let mut pair = connected();
    let (net, comm) = (pair.net, pair.receiver.comm as usize);
    let begins = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (comm, mut memory) = (comm as PluginPtr, Memory::patterned(BYTES, 1));
            begins.wait();
            for _ in 0..20 * ROUNDS {
                let (rc, mhandle) = net.register(comm, memory.data(), BYTES, PTR_CUDA);
                assert_eq!((rc, net.deregister(comm, mhandle)), (0, 0));
            }
        });
        begins.wait();
        for _ in 0..ROUNDS {
            let (_, receive) = pair.irecv(BYTES);
            let send = pair.isend(BYTES);
            net.finish_both(send, receive);
            assert_eq!(pair.consumed(receive), 0);
        }
    });
    close(pair);
}
