#![allow(unsafe_code)]
//! The bounce region without kindness.

use std::collections::VecDeque;
use std::env;

use tcpx_softnet::pool_stats;
use tcpx_sys::PTR_CUDA;
use tcpx_testkit::process;

use super::child::{Test, net, pair};
use crate::support::{Memory, PluginPtr, Receiver, Sender, sockets};

/// How it ends, as a process's role says.
const DONE: &str = "all done";
const STUCK: &str = "stuck for good";
const CHANNELS: &str = "POOL_TEST_CHANNELS";
const CHUNK: &str = "NCCL_DYNAMIC_CHUNK_SIZE";
const POOL: &str = "TCPX_SOFT_POOL_BYTES";
/// Receives that a channel has posted: one for each of its data sockets.
const WINDOW: usize = 4;
const MESSAGES: usize = 8;
/// Rounds over all channels in which nothing is done while no page is free.
const IDLE_ROUNDS: usize = 2000;

fn number(name: &str) -> usize {
    env::var(name).expect("set").parse().expect("a number")
}

struct Channel {
    sender: Sender,
    receiver: Receiver,
    sends: VecDeque<PluginPtr>,
    receives: VecDeque<(u64, PluginPtr)>,
    posted: usize,
    done: usize,
}

impl Channel {
    fn post(&mut self, memory: &mut Memory, bytes: usize, mhandle: PluginPtr) {
        while self.receives.len() < WINDOW && self.posted < MESSAGES {
            let net = self.sender.net;
            let (rc, send) = net.isend(self.sender.comm, memory.data(), bytes as i32, mhandle);
            assert_eq!(rc, 0);
            self.sends.push_back(send);
            self.receives.push_back(self.receiver.post(memory.data(), bytes, mhandle));
            self.posted += 1;
        }
    }

    /// Whether a message was done, which is looked at and consumed at once.
    fn drive(&mut self, memory: &Memory, landed: &mut Memory) -> bool {
        let net = self.sender.net;
        if let Some(&send) = self.sends.front() {
            let (rc, done) = net.test(send);
            assert_eq!(rc, 0);
            if done == 1 {
                self.sends.pop_front();
            }
        }
        let Some(&(number, recv)) = self.receives.front() else { return false };
        let (rc, done) = net.test(recv);
        assert_eq!(rc, 0);
        if done == 0 {
            return false;
        }
        // SAFETY: the buffer is as long as the messages.
        unsafe { self.receiver.unpack_to(number, landed.data()) };
        assert!(landed.bytes() == memory.bytes());
        assert_eq!(net.consumed(self.receiver.comm, recv), 0);
        self.receives.pop_front();
        self.done += 1;
        true
    }
}

fn channels_share_a_pool() {
    let net = net();
    let (count, bytes) = (number(CHANNELS), number(CHUNK));
    let (mut memory, mut landed) = (Memory::patterned(bytes, 3), Memory::new(bytes));
    let channel = |_| {
        let (sender, receiver) = net.pair();
        let (sends, receives) = (VecDeque::new(), VecDeque::new());
        Channel { sender, receiver, sends, receives, posted: 0, done: 0 }
    };
    let mut channels: Vec<_> = (0..count).map(channel).collect();
    sockets::level();
    let (rc, mhandle) = net.register(channels[0].sender.comm, memory.data(), bytes, PTR_CUDA);
    assert_eq!(rc, 0);
    let mut idle = 0;
    while idle < IDLE_ROUNDS && channels.iter().any(|channel| channel.done < MESSAGES) {
        idle += 1;
        for channel in &mut channels {
            channel.post(&mut memory, bytes, mhandle);
            if channel.drive(&memory, &mut landed) || pool_stats().free_pages > 0 {
                idle = 0;
            }
        }
    }
    let outcome = if idle < IDLE_ROUNDS { DONE } else { STUCK };
    assert_eq!(process::role().as_deref(), Some(outcome));
    for channel in channels {
        assert_eq!((net.close(channel.sender.comm), net.close(channel.receiver.comm)), (0, 0));
    }
    assert_eq!(pool_stats().free_pages, pool_stats().total_pages, "closing gives all back");
}

/// Runs channels, with KiB of a chunk and MiB of the pool, which end as given.
fn share(test: Test, quirks: &str, outcome: &str, all: &[(usize, usize, usize)]) {
    for &(channels, chunk, pool) in all {
        let numbers = [channels, chunk << 10, pool << 20].map(|number| number.to_string());
        let [channels, chunk, pool] = numbers.each_ref().map(String::as_str);
        let sockets = ("NCCL_NSOCKS_PERTHREAD", "4");
        let variables = [(CHANNELS, channels), (CHUNK, chunk), (POOL, pool), sockets];
        let ended = test.run_as(outcome, quirks, &variables);
        assert!(ended.passed(), "{outcome}, {variables:?}: {}", ended.text);
    }
}

/// Channels, KiB of a chunk, MiB of the pool, as the original was seen to stick.
const STICKS: [(usize, usize, usize); 4] =
    [(16, 4096, 64), (4, 512, 2), (8, 2048, 4), (4, 4096, 1)];
/// The same where it went well.
const FINE: [(usize, usize, usize); 4] = [(2, 512, 8), (8, 512, 16), (4, 512, 32), (32, 512, 64)];

#[test]
fn chunks_that_are_partly_there_can_hold_every_page() {
    share(test_of!(channels_share_a_pool), "piecemeal", STUCK, &STICKS);
}

#[test]
fn a_pool_for_all_that_is_posted_is_enough() {
    share(test_of!(channels_share_a_pool), "piecemeal", DONE, &FINE);
}

#[test]
fn the_default_pool_never_stalls() {
    share(test_of!(channels_share_a_pool), "", DONE, &STICKS[..3]);
}

fn pages_leak() {
    const LARGE: usize = 4 << 20;
    let mut pair = pair(LARGE, PTR_CUDA);
    // 1024 pages in 8 chunks on one socket: all but the last chunk's are lost.
    for round in 1..=3 {
        let send = pair.isend(LARGE);
        let (number, recv) = pair.irecv(LARGE);
        pair.net.finish_both(send, recv);
        assert!(pair.receiver.unpack(number, LARGE) == pair.memory.bytes());
        assert_eq!(pair.consumed(recv), 0);
        let stats = pool_stats();
        assert_eq!(stats.total_pages - stats.free_pages, round * 7 * 128);
    }
    let send = pair.isend(512 << 10);
    let (_, recv) = pair.irecv(512 << 10);
    pair.net.finish_both(send, recv);
    assert_eq!(pair.consumed(recv), 0);
    let stats = pool_stats();
    assert_eq!(stats.total_pages - stats.free_pages, 3 * 7 * 128, "one chunk: nothing is lost");
    pair.close();
    assert_eq!(pool_stats().free_pages, pool_stats().total_pages, "closing gives all back");
}

#[test]
fn several_chunks_of_a_request_on_one_socket_leak() {
    let test = test_of!(pages_leak);
    for quirks in ["leak", "leak,piecemeal"] {
        test.proves(quirks, &[]);
    }
}
