//! Requests as the original answers for them.

use std::collections::BTreeSet;

use tcpx_softnet::pool_stats;
use tcpx_sys::PTR_CUDA;
use tcpx_testkit::eventually;

use super::child::pair;
use crate::support::PluginPtr;
use crate::support::pair::Pair;

const SMALL: usize = 1000;

/// Calls of `test` until all are done, oldest first.
fn calls_until_done(pair: &Pair, requests: &[PluginPtr]) -> usize {
    let mut calls = 0;
    for &request in requests {
        eventually(|| {
            calls += 1;
            let (rc, done) = pair.net.test(request);
            assert_eq!(rc, 0);
            (done == 1).then_some(())
        });
    }
    calls
}

fn sixteen_requests_take_22_calls() {
    let mut pair = pair(4096, PTR_CUDA);
    let sends: Vec<_> = (0..16).map(|_| pair.isend(SMALL)).collect();
    assert_eq!(calls_until_done(&pair, &sends), 22, "sends, with nothing posted at the peer");
    let receives: Vec<_> = (0..16).map(|_| pair.irecv(SMALL).1).collect();
    let calls = calls_until_done(&pair, &receives);
    assert!(calls >= 22, "receives whose bytes have all been sent: {calls}");
    receives.iter().for_each(|&recv| assert_eq!(pair.consumed(recv), 0));
    pair.close();
}

#[test]
fn one_request_is_taken_up_per_call() {
    let test = test_of!(sixteen_requests_take_22_calls);
    test.proves("progress", &[]);
}

fn return_codes_match_the_original() {
    let mut pair = pair(4096, PTR_CUDA);
    let sends = [pair.isend(SMALL), pair.isend(SMALL)];
    // The first call takes the first one up and puts it on the sockets.
    assert_eq!(pair.net.test(sends[1]), (3, 0), "the first is on the sockets");
    pair.net.finish(sends[0]);
    assert_eq!(pair.net.test(sends[0]).0, 3, "another one moves");
    pair.net.finish(sends[1]);
    for send in sends {
        assert_eq!(pair.net.test(send), (0, 0), "nothing moves; done is reported once");
        assert_eq!(pair.consumed(send), 0, "of a send request: only a warning");
    }
    pair.close();
}

#[test]
fn done_requests_are_not_done_and_sends_are_consumed() {
    let test = test_of!(return_codes_match_the_original);
    test.proves("progress", &[]);
    // Where pointers are used again, they stay the comm's own.
    assert!(test.run("progress,pointers", &[]).passed());
}

fn an_empty_receive_is_consumed_out_of_order() {
    let mut pair = pair(4096, PTR_CUDA);
    let receives = [SMALL, 0, SMALL].map(|bytes| {
        let (_, recv) = pair.irecv(bytes);
        let send = pair.isend(bytes);
        pair.net.finish_both(send, recv);
        recv
    });
    let in_use = || pool_stats().total_pages - pool_stats().free_pages;
    assert_eq!(in_use(), 2, "a page for each message with bytes");
    assert_eq!(pair.consumed(receives[1]), 0, "of the empty one: the first is freed instead");
    assert_eq!(pair.consumed(receives[0]), 3, "it is not there any more");
    assert_eq!([pair.consumed(receives[1]), pair.consumed(receives[2])], [0, 0]);
    assert_eq!(in_use(), 1, "the first one's page is lost");
    pair.close();
    assert_eq!(in_use(), 0, "closing gives all back");
}

#[test]
fn an_empty_receive_has_no_order() {
    let test = test_of!(an_empty_receive_is_consumed_out_of_order);
    test.proves("progress", &[]);
    assert!(test.run("progress,pointers,crash", &[]).passed());
}

fn request_pointers_are_reused() {
    let mut pair = pair(4096, PTR_CUDA);
    let mut sends = Vec::new();
    for _ in 0..32 {
        let send = pair.isend(1);
        pair.net.finish(send);
        sends.push(send.addr());
    }
    assert_eq!(sends[..16], sends[16..], "slots of a ring");
    let strides: BTreeSet<_> = sends[..16].windows(2).map(|two| two[1] - two[0]).collect();
    assert_eq!(strides, BTreeSet::from([128]));
    let receives: Vec<_> = (0..16).map(|_| pair.irecv(1).1).collect();
    assert!(receives.iter().all(|recv| !sends.contains(&recv.addr())), "another comm's ring");
    for recv in receives {
        pair.net.finish(recv);
        assert_eq!(pair.consumed(recv), 0);
    }
    pair.close();
}

#[test]
fn request_pointers_are_slots() {
    let test = test_of!(request_pointers_are_reused);
    test.proves("pointers", &[]);
}
