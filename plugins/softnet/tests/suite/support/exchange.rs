//! A stream of messages from one comm to another, every byte checked.

use std::collections::VecDeque;

use tcpx_sys::PTR_HOST;
use tcpx_testkit::pattern::first_difference;

use super::{Memory, PluginPtr, Receiver, Sender};

/// Around every boundary there is: nothing, pages, the inline limit, chunks.
pub(crate) const SIZES: [usize; 12] =
    [0, 1, 4095, 4096, 4097, 8191, 8193, 65_536, 100_001, 524_288, 524_289, (4 << 20) - 3];

/// Sends `sizes` with up to `window` requests in flight.
fn send_all(sender: Sender, kind: i32, sizes: &[usize], window: usize, wait: impl Fn(PluginPtr)) {
    let net = sender.net;
    let mut requests: VecDeque<(Memory, PluginPtr, PluginPtr)> = VecDeque::new();
    let finish = |request: Option<(Memory, PluginPtr, PluginPtr)>| {
        let (_memory, mhandle, request) = request.expect("a request");
        wait(request);
        assert_eq!(net.deregister(sender.comm, mhandle), 0);
    };
    for (k, &bytes) in sizes.iter().enumerate() {
        if requests.len() == window {
            finish(requests.pop_front());
        }
        let shift = k % 2;
        let mut memory = Memory::shifted(bytes, k, shift);
        let (rc, mhandle) = net.register(sender.comm, memory.data(), bytes + shift, kind);
        assert_eq!(rc, 0);
        let data = memory.data().wrapping_add(shift);
        let (rc, request) = net.isend(sender.comm, data, bytes as i32, mhandle);
        assert_eq!(rc, 0);
        requests.push_back((memory, mhandle, request));
    }
    while !requests.is_empty() {
        finish(requests.pop_front());
    }
}

/// Sends `sizes` and receives them with up to `window` requests posted, from two threads; then
/// closes both comms.
pub(crate) fn exchange(
    pair: (Sender, Receiver),
    kinds: (i32, i32),
    sizes: &[usize],
    window: usize,
) {
    let net = pair.0.net;
    exchange_with(
        pair,
        kinds,
        sizes,
        window,
        (
            |request| net.finish(request),
            |request| {
                net.finish(request);
            },
        ),
    );
}

/// The same with ways of the caller's to wait until a send, and until a receive, is done.
pub(crate) fn exchange_with(
    (sender, mut receiver): (Sender, Receiver),
    kinds: (i32, i32),
    sizes: &[usize],
    window: usize,
    (wait_to_send, wait_to_receive): (impl Fn(PluginPtr) + Send, impl Fn(PluginPtr)),
) {
    std::thread::scope(|scope| {
        scope.spawn(move || send_all(sender, kinds.0, sizes, window, wait_to_send));
        receive_all(&mut receiver, kinds.1, sizes, window, wait_to_receive);
    });
    assert_eq!((sender.net.close(sender.comm), sender.net.close(receiver.comm)), (0, 0));
}

fn receive_all(
    receiver: &mut Receiver,
    kind: i32,
    sizes: &[usize],
    window: usize,
    wait: impl Fn(PluginPtr),
) {
    let (net, comm) = (receiver.net, receiver.comm);
    let largest = sizes.iter().copied().max().unwrap_or(0);
    let mut places: Vec<_> = (0..window).map(|_| Memory::new(largest + 1)).collect();
    let mhandles: Vec<_> = places
        .iter_mut()
        .map(|place| net.register(comm, place.data(), largest + 1, kind).1)
        .collect();
    let mut posted = VecDeque::new();
    let mut next = 0;
    for (k, &bytes) in sizes.iter().enumerate() {
        while next < sizes.len() && posted.len() < window {
            let data = places[next % window].data().wrapping_add(next % 2);
            posted.push_back(receiver.post(data, largest, mhandles[next % window]));
            next += 1;
        }
        let (number, request) = posted.pop_front().expect("a request");
        wait(request);
        assert_eq!(net.received(comm, request), (0, bytes as i32));
        let difference = if kind == PTR_HOST {
            assert_eq!(receiver.entries(number), [], "host receives have no entries");
            first_difference(k as u64, 0, &places[k % window].bytes()[k % 2..][..bytes])
        } else {
            first_difference(k as u64, 0, &receiver.unpack(number, bytes))
        };
        assert_eq!(difference, None, "message {k} of {bytes} bytes");
        assert_eq!(net.consumed(comm, request), 0);
    }
    for mhandle in mhandles {
        assert_eq!(net.deregister(comm, mhandle), 0);
    }
}
