//! Bytes between two comms: every size, memory kind, order and window the contract allows.

mod support;

use std::io::{BufRead, BufReader, Read, Write};

use support::{KINDS, Memory, Net, Receiver, Sender, pattern, poll, settings, spawn_peer};
use tcpx_sys::{NetHandle, PTR_CUDA, PTR_HOST};

const SIZES: [usize; 12] =
    [0, 1, 4095, 4096, 4097, 8191, 8193, 65_536, 100_001, 524_288, 524_289, (4 << 20) - 3];

fn net() -> Net {
    support::net(|| {
        let mut settings = settings();
        settings.sockets = 3;
        settings
    })
}

/// Sends `sizes` and receives them with up to `window` requests posted, from two threads.
fn exchange(pair: (Sender, Receiver), kinds: (i32, i32), sizes: &[usize], window: usize) {
    let (sender, mut receiver) = pair;
    let net = sender.net;
    let largest = sizes.iter().copied().max().unwrap_or(0);
    let all = sizes.to_vec();
    let sending = std::thread::spawn(move || {
        let sender = sender;
        let mut buffers: Vec<_> =
            all.iter().enumerate().map(|(k, &n)| Memory::patterned(n + 1, k)).collect();
        let mut requests = std::collections::VecDeque::new();
        for (buffer, &bytes) in buffers.iter_mut().zip(&all) {
            if requests.len() == window {
                net.finish(requests.pop_front().expect("a request"));
            }
            let (rc, mhandle) = net.register(sender.comm, buffer.data(), bytes + 1, kinds.0);
            assert_eq!(rc, 0);
            let (rc, request) = net.isend(sender.comm, buffer.data(), bytes as i32, mhandle);
            assert_eq!(rc, 0);
            requests.push_back(request);
        }
        requests.into_iter().for_each(|request| net.finish(request));
        assert_eq!(net.close(sender.comm), 0);
    });
    let mut places: Vec<_> = (0..window).map(|_| Memory::new(largest + 1)).collect();
    let mhandles: Vec<_> = places
        .iter_mut()
        .map(|place| net.register(receiver.comm, place.data(), largest + 1, kinds.1).1)
        .collect();
    let mut posted = std::collections::VecDeque::new();
    let mut next = 0;
    for (k, &bytes) in sizes.iter().enumerate() {
        while next < sizes.len() && posted.len() < window {
            posted.push_back(receiver.post(
                places[next % window].data(),
                largest,
                mhandles[next % window],
            ));
            next += 1;
        }
        let (number, request) = posted.pop_front().expect("a request");
        net.finish(request);
        assert_eq!(net.received(receiver.comm, request), (0, bytes as i32));
        let expected: Vec<u8> = (0..bytes).map(|place| pattern(place, k)).collect();
        if kinds.1 == PTR_HOST {
            assert_eq!(receiver.entries(number), [], "host receives have no entries");
            assert!(
                places[k % window].bytes()[..bytes] == expected,
                "message {k} of {bytes} bytes"
            );
        } else {
            assert!(receiver.unpack(number, bytes) == expected, "message {k} of {bytes} bytes");
        }
        assert_eq!(net.consumed(receiver.comm, request), 0);
    }
    sending.join().expect("sender");
    for mhandle in mhandles {
        assert_eq!(net.deregister(receiver.comm, mhandle), 0);
    }
    assert_eq!(net.close(receiver.comm), 0);
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

/// A line to the parent process.
fn say(line: &str) {
    let mut out = std::io::stdout();
    out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).expect("stdout");
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
