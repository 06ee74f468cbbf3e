//! Bytes between two comms: every size, memory kind, order and window the contract allows.

mod support;

use std::io::{BufRead, BufReader, Read, Write};

use support::exchange::{SIZES, exchange};
use support::{KINDS, Memory, Net, Receiver, pattern, poll, say, settings, spawn_peer};
use tcpx_sys::{NetHandle, PTR_CUDA};

fn net() -> Net {
    support::net(|| {
        let mut settings = settings();
        settings.sockets = 3;
        settings
    })
}

#[test]
fn all_sizes_in_every_mix_of_memory() {
    for from in KINDS {
        for to in KINDS {
            exchange(net().pair(), (from, to), &SIZES, 1);
        }
    }
}

#[test]
fn sixteen_outstanding_of_mixed_sizes() {
    let sizes: Vec<_> = (0..200).map(|k| SIZES[k * 7 % 9] + k % 3).collect();
    for kind in KINDS {
        exchange(net().pair(), (kind, kind), &sizes, 16);
    }
}

/// The peer of `two_processes`: receives what the parent sends, handles over stdin and stdout.
#[test]
#[ignore = "runs as the second process of two_processes"]
fn peer_receives() {
    let net = net();
    let (handle, listen) = net.listen();
    let text: String = handle.0.iter().map(|byte| format!("{byte:02x}")).collect();
    say(&format!("handle {text}"));
    let (rc, comm, device) = net.accept_all(listen);
    assert_eq!(rc, 0);
    let mut receiver = Receiver::new(net, comm, device.handle.cast());
    let (_, mhandle) = net.register(comm, std::ptr::null_mut(), 0, PTR_CUDA);
    for (k, &bytes) in SIZES.iter().enumerate() {
        let (number, request) = receiver.post(std::ptr::null_mut(), bytes, mhandle);
        net.finish(request);
        let expected: Vec<u8> = (0..bytes).map(|place| pattern(place, k)).collect();
        assert!(receiver.unpack(number, bytes) == expected);
        assert_eq!(net.consumed(comm, request), 0);
    }
    say("received");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    assert_eq!(net.close(comm), 0);
}

#[test]
fn two_processes() {
    let net = net();
    let mut peer = spawn_peer("peer_receives", &[]);
    let mut lines = BufReader::new(peer.stdout.take().expect("stdout")).lines();
    let mut line = |start: &str| loop {
        let line = lines.next().expect("a line").expect("text");
        if let Some(at) = line.find(start) {
            return line[at + start.len()..].trim().to_owned();
        }
    };
    let text = line("handle ");
    let mut handle = NetHandle::zeroed();
    for (place, byte) in handle.0.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).expect("hex");
    }
    let (rc, comm) = net.connect_all(&mut handle);
    assert_eq!(rc, 0);
    for (k, &bytes) in SIZES.iter().enumerate() {
        let mut memory = Memory::patterned(bytes, k);
        let (rc, mhandle) = net.register(comm, memory.data(), bytes, PTR_CUDA);
        assert_eq!(rc, 0);
        let (rc, request) = net.isend(comm, memory.data(), bytes as i32, mhandle);
        assert_eq!(rc, 0);
        net.finish(request);
        assert_eq!(net.deregister(comm, mhandle), 0);
    }
    line("received");
    peer.stdin.take().expect("stdin").write_all(b"bye").expect("goodbye");
    let status = poll(|| peer.try_wait().expect("peer"));
    assert!(status.success());
    assert_eq!(net.close(comm), 0);
}
