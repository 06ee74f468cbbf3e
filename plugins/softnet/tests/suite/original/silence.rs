//! Ends that the original does not tell.

use tcpx_sys::PTR_CUDA;

use super::child::pair;
use crate::support::sockets::{OVERFLOWS_BYTES, wait_for_ends};

/// Calls that show nothing. What ends a kinder comm takes a few.
const CALLS: usize = 20_000;
const LARGE: usize = OVERFLOWS_BYTES;

fn a_data_socket_dies() {
    let mut pair = pair(LARGE, PTR_CUDA);
    let send = pair.isend(LARGE);
    let (_, recv) = pair.irecv(LARGE);
    for _ in 0..CALLS {
        assert_eq!((pair.net.test(send), pair.net.test(recv)), ((0, 0), (0, 0)));
    }
    pair.close();
}

#[test]
fn data_sockets_die_in_silence() {
    let test = test_of!(a_data_socket_dies);
    for cut in ["cut:recv.data0@100000", "cut:send.data0@100000"] {
        test.proves("silence", &[("TCPX_SOFT_FAULTS", cut)]);
    }
}

fn the_sender_closes_in_mid_message() {
    let mut pair = pair(LARGE, PTR_CUDA);
    let send = pair.isend(LARGE);
    let (_, recv) = pair.irecv(LARGE);
    assert_eq!((pair.net.test(send), pair.net.test(recv)), ((0, 0), (0, 0)));
    assert_eq!(pair.net.close(pair.sender.comm), 0);
    for _ in 0..CALLS {
        assert_eq!(pair.net.test(recv), (0, 0));
    }
    pair.irecv(LARGE);
    assert_eq!(pair.net.fails_with(recv), 2, "the one behind needs the control socket");
    assert_eq!(pair.net.test(recv), (2, 0), "and again");
    assert_eq!(pair.net.close(pair.receiver.comm), 0);
}

#[test]
fn a_peer_that_closes_in_mid_message_is_not_noticed() {
    let test = test_of!(the_sender_closes_in_mid_message);
    // A pool that gives pages as bytes arrive ends the same way.
    for quirks in ["silence", "silence,piecemeal"] {
        // One record tells of the whole message.
        let chunk = [("NCCL_DYNAMIC_CHUNK_SIZE", "4194304")];
        test.proves(quirks, &chunk);
    }
}

fn the_sender_closes_after_it_sent_everything() {
    let mut pair = pair(4096, PTR_CUDA);
    for _ in 0..2 {
        let send = pair.isend(1000);
        pair.net.finish(send);
    }
    assert_eq!(pair.net.close(pair.sender.comm), 0);
    wait_for_ends(2);
    let receives = [pair.irecv(1000), pair.irecv(1000)];
    assert_eq!(pair.net.test(receives[0].1), (2, 0), "the end is seen before the records");
    for (number, recv) in receives {
        pair.net.finish(recv);
        assert!(pair.receiver.unpack(number, 1000) == pair.memory.bytes()[..1000]);
        assert_eq!(pair.consumed(recv), 0);
    }
    let (_, more) = pair.irecv(1000);
    assert_eq!((pair.net.test(more), pair.net.test(more)), ((2, 0), (2, 0)));
    assert_eq!(pair.net.close(pair.receiver.comm), 0);
}

#[test]
fn two_is_returned_once_though_all_bytes_came() {
    let test = test_of!(the_sender_closes_after_it_sent_everything);
    test.proves("silence", &[]);
}

fn one_receive_too_many_is_posted() {
    let mut pair = pair(4096, PTR_CUDA);
    let (_, recv) = pair.irecv(1000);
    pair.irecv(1000);
    let send = pair.isend(1000);
    pair.net.finish(send);
    assert_eq!(pair.net.close(pair.sender.comm), 0);
    wait_for_ends(2);
    for _ in 0..1000 {
        assert_eq!(pair.net.test(recv), (2, 0), "its bytes are there, and it is never done");
    }
    assert_eq!(pair.net.close(pair.receiver.comm), 0);
}

#[test]
fn a_receive_too_many_hides_those_before_it() {
    let test = test_of!(one_receive_too_many_is_posted);
    test.proves("silence", &[]);
}
