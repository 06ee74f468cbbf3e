//! A bounce region of 1 MiB: it is recycled many times over, runs dry, stalls and recovers, and
//! loses no page. One test, because it looks at the pool of the whole process.

use tcpx_softnet::pool_stats;
use tcpx_sys::PTR_CUDA;
use tcpx_testkit::{eventually, in_own_process, until};

use crate::support::exchange::exchange;
use crate::support::{self, Memory, Net, PluginPtr, Receiver, Sender};

const POOL: usize = 1 << 20;
const MESSAGE: usize = 256 << 10;

fn net() -> Net {
    support::net(|settings| {
        settings.pool_bytes = POOL as u64;
        settings.chunk_bytes = 64 << 10;
        settings.sockets = 2;
    })
}

#[test]
fn a_small_pool_is_enough() {
    in_own_process!();
    let net = net();
    recycles_twenty_times_over(net);
    stalls_until_something_is_consumed(net);
    two_comms_share_what_there_is(net);
    refuses_what_can_never_fit(net);
    closing_gives_everything_back(net);
}

fn recycles_twenty_times_over(net: Net) {
    let sizes: Vec<_> = (0..20 * POOL / MESSAGE).map(|k| MESSAGE - k % 5000).collect();
    exchange(net.pair(), (PTR_CUDA, PTR_CUDA), &sizes, 16);
    let stats = pool_stats();
    assert_eq!(stats.total_pages as usize, POOL / 4096);
    assert_eq!(stats.free_pages, stats.total_pages, "every page came back");
    assert!(stats.low_water_pages < 64, "the pool did run low: {stats:?}");
}

/// Posts `count` messages on both ends.
fn post(
    net: Net,
    pair: &mut (Sender, Receiver),
    memory: &mut Memory,
    count: usize,
) -> Vec<(PluginPtr, u64, PluginPtr)> {
    let (_, mhandle) = net.register(pair.0.comm, memory.data(), MESSAGE, PTR_CUDA);
    let mut post_one = || {
        let (rc, send) = net.isend(pair.0.comm, memory.data(), MESSAGE as i32, mhandle);
        assert_eq!(rc, 0);
        let (number, recv) = pair.1.post(std::ptr::null_mut(), MESSAGE, mhandle);
        (send, number, recv)
    };
    (0..count).map(|_| post_one()).collect()
}

fn stalls_until_something_is_consumed(net: Net) {
    let mut pair = net.pair();
    let mut memory = Memory::patterned(MESSAGE, 3);
    let requests = post(net, &mut pair, &mut memory, 5);
    let drive = |recv| {
        eventually(|| {
            let (rc, done) = net.test(recv);
            assert_eq!(rc, 0);
            // Sends complete in order; a finished one is stale and says so.
            requests.iter().any(|&(send, ..)| net.test(send).0 == 0);
            (done == 1).then_some(())
        });
    };
    for &(_, _, recv) in &requests[..4] {
        drive(recv);
    }
    assert_eq!(pool_stats().free_pages, 0, "four messages fill the pool");
    for _ in 0..1000 {
        assert_eq!(net.test(requests[4].2), (0, 0), "the fifth waits");
    }
    for &(_, number, recv) in &requests[..4] {
        assert!(pair.1.unpack(number, MESSAGE) == memory.bytes());
        assert_eq!(net.consumed(pair.1.comm, recv), 0);
    }
    drive(requests[4].2);
    assert!(pair.1.unpack(requests[4].1, MESSAGE) == memory.bytes());
    assert_eq!(net.consumed(pair.1.comm, requests[4].2), 0);
    assert_eq!((net.close(pair.0.comm), net.close(pair.1.comm)), (0, 0));
    assert_eq!(pool_stats().free_pages, pool_stats().total_pages);
}

fn two_comms_share_what_there_is(net: Net) {
    let run = move || {
        let sizes = vec![MESSAGE; 40];
        exchange(net.pair(), (PTR_CUDA, PTR_CUDA), &sizes, 8);
    };
    let others: Vec<_> = (0..3).map(|_| std::thread::spawn(run)).collect();
    run();
    others.into_iter().for_each(|other| other.join().expect("no comm starves"));
}

fn refuses_what_can_never_fit(net: Net) {
    let (sender, mut receiver) = net.pair();
    let bytes = POOL + 1;
    let mut memory = Memory::patterned(bytes, 4);
    let (_, mhandle) = net.register(sender.comm, memory.data(), bytes, PTR_CUDA);
    let (_, send) = net.isend(sender.comm, memory.data(), bytes as i32, mhandle);
    net.test(send);
    let (_, recv) = receiver.post(std::ptr::null_mut(), bytes, mhandle);
    assert_eq!(net.fails_with(recv), 3);
    assert_eq!((net.close(sender.comm), net.close(receiver.comm)), (0, 0));
}

fn closing_gives_everything_back(net: Net) {
    let mut pair = net.pair();
    let mut memory = Memory::patterned(MESSAGE, 5);
    let requests = post(net, &mut pair, &mut memory, 4);
    until("the first is received", || {
        net.test(requests[0].0);
        net.test(requests[0].2) == (0, 1)
    });
    assert!(pool_stats().free_pages < pool_stats().total_pages);
    assert_eq!((net.close(pair.1.comm), net.close(pair.0.comm)), (0, 0));
    assert_eq!(pool_stats().free_pages, pool_stats().total_pages);
}
