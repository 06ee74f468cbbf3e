//! Order of messages of one tag between two sessions: the k-th send matches the k-th receive,
//! whatever queue or route each takes, and whichever end posts first. Each message is full of its
//! own number.

use tcpx_core::{LinkBytes, MemoryType, Post, Session, SessionOptions, Transfer};
use tcpx_testkit::{PATIENCE, Random};
use tcpx_tests::sessions::{drop_all, lively, memory, pair};

const TAG: i64 = 7;
const MIB: usize = 1 << 20;
/// Each kind of message behind and before each other kind: eager and inline ones on the link, a few
/// chunks, and long messages, beside medium ones.
const SIZES: [usize; 6] = [64, MIB, 64, 6 * MIB, MIB, 64];

/// Time at which receives are posted.
#[derive(Clone, Copy, Debug)]
enum Receives {
    Before,
    After,
    Between,
}

/// One end of the messages: where each lies, and those that it has not posted.
struct MessageEnd {
    transfer: Transfer,
    posts: Vec<Post>,
    is_send: bool,
}

impl MessageEnd {
    /// Messages that lie one behind the other.
    fn new(session: &Session, peer: &str, bytes: &[u8], sizes: &[usize], is_send: bool) -> Self {
        let kind = if is_send { MemoryType::Host } else { MemoryType::Device };
        let memory = memory(session, kind, bytes);
        let mut offset = 0;
        let post = |bytes: &usize| {
            let post = Post { memory, offset, bytes: *bytes as u64, tag: TAG };
            offset += post.bytes;
            post
        };
        // The last one is posted first.
        let posts = sizes.iter().map(post).collect::<Vec<_>>().into_iter().rev().collect();
        Self {
            transfer: session.create_transfer(peer).expect("they are connected"),
            posts,
            is_send,
        }
    }

    /// The next posts, as a batch. Returns whether there are any.
    fn post(&mut self, most: usize) -> bool {
        let batch = self.posts.split_off(self.posts.len().saturating_sub(most));
        let batch: Vec<_> = batch.into_iter().rev().collect();
        match (self.is_send, &batch[..]) {
            (_, []) => return false,
            (true, batch) => self.transfer.post_send_batch(batch),
            (false, batch) => self.transfer.post_recv_batch(batch),
        }
        .expect("they are connected");
        true
    }

    fn post_all(&mut self, random: &mut Random) {
        while self.post(random.up_to(4)) {}
    }
}

/// Sends messages of these sizes from one session to the other, and looks where each has come.
fn send([from, to]: [(&Session, &str); 2], sizes: &[usize], receives: Receives, seed: u64) {
    let mut random = Random::new(seed);
    let total = sizes.iter().sum();
    let mut numbered = Vec::with_capacity(total);
    for (number, bytes) in (1..).zip(sizes) {
        numbered.resize(numbered.len() + bytes, u8::try_from(number).expect("few messages"));
    }
    let mut sends = MessageEnd::new(from.0, to.1, &numbered, sizes, true);
    let mut receipts = MessageEnd::new(to.0, from.1, &vec![0; total], sizes, false);
    let [source, into] = [&sends, &receipts].map(|end| end.posts[0].memory);
    match receives {
        Receives::Before => {
            receipts.post_all(&mut random);
            sends.post_all(&mut random);
        }
        Receives::After => {
            sends.post_all(&mut random);
            receipts.post_all(&mut random);
        }
        Receives::Between => {
            while !(sends.posts.is_empty() && receipts.posts.is_empty()) {
                let end = if random.one_in(2) { &mut sends } else { &mut receipts };
                end.post(random.up_to(3));
            }
        }
    }
    sends.transfer.wait(Some(PATIENCE)).expect("all sizes fit");
    receipts.transfer.wait(Some(PATIENCE)).expect("all sizes fit");
    let mut came = vec![0; total];
    to.0.read_memory(into, 0, &mut came).expect("nothing uses it");
    let mut rest = &came[..];
    for (number, bytes) in (1_u8..).zip(sizes) {
        let (message, behind) = rest.split_at(*bytes);
        let place = numbered.len() - rest.len();
        let is_whole = *message == numbered[place..place + bytes];
        let other = || message.iter().find(|byte| **byte != number);
        assert!(is_whole, "{receives:?}, {seed}: {:?} in the place of {number}", other());
        rest = behind;
    }
    drop((sends, receipts));
    for (session, memory) in [(from.0, source), (to.0, into)] {
        session.deregister_memory(memory).expect("nothing uses it");
    }
}

/// Both ways, with receives at any time.
fn send_all(options: SessionOptions, sizes: &[usize], rounds: u64) {
    let [left, right] = pair(options);
    let ends = [(&left, "left"), (&right, "right")];
    for seed in 0..rounds {
        let mut random = Random::new(seed);
        for receives in [Receives::Before, Receives::After, Receives::Between] {
            for ends in [ends, [ends[1], ends[0]]] {
                send(ends, &random.shuffled(sizes), receives, seed);
            }
        }
    }
    drop_all([left, right]);
}

#[test]
fn the_kth_send_meets_the_kth_receive_of_any_size() {
    let [left, right] = pair(lively());
    let sizes = [64, 64 * MIB, 64, MIB, 64, MIB, 64 * MIB, 64, 64, MIB];
    send([(&left, "left"), (&right, "right")], &sizes, Receives::Between, 1);
    drop_all([left, right]);
}

#[test]
fn the_kth_send_matches_the_kth_receive_with_eager_sends() {
    send_all(lively(), &[SIZES, SIZES].concat(), 1);
}

#[test]
fn the_kth_send_meets_the_kth_receive_on_channels_alone() {
    let options = lively().eager_bytes(0).link_bytes(LinkBytes::Most(0)).channels(3);
    send_all(options.chunk_bytes(64 << 10), &[SIZES, SIZES].concat(), 1);
}

#[test]
#[ignore = "deep: gigabytes"]
fn the_kth_send_meets_the_kth_receive_of_any_size_in_many_orders() {
    let sizes = [&[64; 40][..], &[MIB; 20], &[64 * MIB; 4]].concat();
    send_all(lively(), &sizes, 1);
    send_all(lively().eager_bytes(0).channels(3), &sizes, 1);
}
