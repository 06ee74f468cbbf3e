#![allow(unsafe_code)]
//! Connecting, closing and registering as the original does.

use std::time::{Duration, Instant};

use tcpx_sys::{PTR_CUDA, PTR_HOST};

use super::child::{Pair, net, proves, run};
use super::support::Memory;
use super::support::sockets::OVERFLOWS_BYTES;

#[test]
#[ignore = "runs with quirks in a process of its own"]
fn the_receiver_goes_in_mid_transfer() {
    let mut pair = Pair::new(OVERFLOWS_BYTES, PTR_HOST);
    // SAFETY: the default action needs no handler.
    assert_ne!(unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) }, libc::SIG_ERR);
    let send = pair.isend(OVERFLOWS_BYTES);
    assert_eq!(pair.net.test(send), (0, 0));
    assert_eq!(pair.net.close(pair.receiver.comm), 0);
    assert_eq!(pair.net.fails_with(send), 2);
}

#[test]
fn a_write_to_a_peer_that_has_gone_kills() {
    let test = "comms::the_receiver_goes_in_mid_transfer";
    let killed = run(test, "sigpipe", &[]);
    assert_eq!(killed.signal(), Some(libc::SIGPIPE), "{}", killed.text);
    assert!(run(test, "", &[]).passed());
}

#[test]
#[ignore = "runs with quirks in a process of its own"]
fn set_up_takes_its_time() {
    let net = net();
    let (mut handle, listen) = net.listen();
    let start = Instant::now();
    let accept = std::thread::spawn({
        let listen = listen.addr();
        move || {
            let (rc, ..) = net.accept_all(std::ptr::without_provenance_mut(listen));
            (rc, start.elapsed())
        }
    });
    assert_eq!(net.connect_all(&mut handle).0, 0);
    let connected = start.elapsed();
    let (rc, accepted) = accept.join().expect("accept");
    assert_eq!(rc, 0);
    assert!(connected >= Duration::from_millis(300), "{connected:?}");
    assert!(accepted >= Duration::from_millis(700), "{accepted:?}");
}

#[test]
fn flow_steering_takes_time() {
    let variables = [
        ("NCCL_NSOCKS_PERTHREAD", "2"),
        ("NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS", "400000"),
    ];
    proves("comms::set_up_takes_its_time", "slow", &variables);
}

#[test]
#[ignore = "runs with quirks in a process of its own"]
fn an_odd_size_costs_descriptor_zero() {
    let net = net();
    let (sender, _) = net.pair();
    let mut memory = Memory::new(3 * 4096);
    let data = memory.data();
    // SAFETY: touches no memory.
    let is_open = || unsafe { libc::fcntl(0, libc::F_GETFD) } != -1;
    assert!(is_open());
    assert_eq!(net.register(sender.comm, data.wrapping_add(1), 4096, PTR_CUDA).0, 3);
    assert_eq!(net.register(sender.comm, data, 4096, PTR_CUDA).0, 0);
    assert_eq!(net.register(sender.comm, data, 4097, PTR_HOST).0, 0);
    assert!(is_open());
    assert_eq!(net.register(sender.comm, data, 4097, PTR_CUDA).0, 3);
    assert!(!is_open());
}

#[test]
fn a_failed_export_closes_a_descriptor_of_the_programs() {
    proves("comms::an_odd_size_costs_descriptor_zero", "regmr", &[]);
}

#[test]
#[ignore = "runs with quirks in a process of its own"]
fn small_messages_go_where_they_were_posted() {
    let mut pair = Pair::new(4096, PTR_CUDA);
    let mut place = Memory::new(4096);
    for (bytes, is_copied) in [(100, true), (101, false)] {
        let (rc, mhandle) = pair.net.register(pair.receiver.comm, place.data(), 4096, PTR_CUDA);
        assert_eq!(rc, 0);
        let (number, recv) = pair.receiver.post(place.data(), bytes, mhandle);
        let send = pair.isend(bytes);
        pair.net.finish_both(send, recv);
        assert_eq!(pair.receiver.entries(number).is_empty(), is_copied, "{bytes} bytes");
        if is_copied {
            assert_eq!(place.bytes()[..bytes], pair.memory.bytes()[..bytes]);
        } else {
            assert!(pair.receiver.unpack(number, bytes) == pair.memory.bytes()[..bytes]);
        }
        assert_eq!(pair.consumed(recv), 0);
    }
    pair.close();
}

#[test]
fn inline_messages_are_copied_to_device_pointers() {
    let test = "comms::small_messages_go_where_they_were_posted";
    proves(test, "inline", &[("NCCL_INLINE_THRESHOLD", "100")]);
    assert!(!run(test, "inline", &[]).passed(), "unset, nothing is inline");
}
