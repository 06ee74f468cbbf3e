#![allow(unsafe_code)]
//! Cost of a list of short pieces, beside one long message of as many bytes.
//!
//! Nothing here says how fast a session is: one thread has both ends by turns. What counts is the
//! ratio within one run of the processor time that it takes, and each end's share.
//!
//!     cargo test --release -p tcpx-core --lib transfer::tests::speed -- --ignored --nocapture

use std::time::Duration;

use tcpx_protocol::plans::piece_cursor::PieceCursor;
use tcpx_protocol::plans::pieces::Pieces;
use tcpx_protocol::types::MemoryType;

use super::ends::{AnnouncedSections, Buffer, Receiver, Sender, ends};

const PIECES: u64 = 100_000;
const PIECE_BYTES: u64 = 4096;
const ROUNDS: usize = 9;

/// Layout of the pieces of one end.
#[derive(Clone, Copy, Debug)]
enum PieceLayout {
    /// One piece.
    Whole,
    /// Every second page.
    Apart,
    /// Pages in no order.
    Shuffled,
}

impl PieceLayout {
    fn list(self) -> Vec<(u64, u64)> {
        let pages = |page: fn(u64) -> u64| {
            (0..PIECES).map(|at| (page(at) * PIECE_BYTES, PIECE_BYTES)).collect()
        };
        match self {
            Self::Whole => vec![(0, PIECES * PIECE_BYTES)],
            Self::Apart => pages(|at| 2 * at),
            // A prime: every page once, none right behind the one before it.
            Self::Shuffled => pages(|at| at * 61_813 % PIECES),
        }
    }
}

/// Returns the time that this thread has had of a processor: others of the machine add little to
/// it.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills a struct of its type.
    let code = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(code, 0, "every thread has this clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Moves a list. Milliseconds of the sender's rounds, and of the receiver's.
fn measure(sender: &mut Sender, receiver: &mut Receiver, lists: &(Pieces, Pieces)) -> [f64; 2] {
    let mut cursors = (PieceCursor::default(), PieceCursor::default());
    let mut told: Vec<AnnouncedSections> = Vec::new();
    let (mut times, mut at) = ([0.0; 2], processor_time());
    let mut lap = |end: usize| {
        let now = processor_time();
        times[end] += now.saturating_sub(std::mem::replace(&mut at, now)).as_secs_f64() * 1e3;
    };
    let (mut sent, mut received) = (0, 0);
    while sent < lists.0.bytes || received < lists.1.bytes {
        sender.deal(&lists.0, &mut cursors.0, |section| told.push(section));
        sent += sender.round();
        lap(0);
        told.drain(..).for_each(|section| receiver.take(&lists.1, &mut cursors.1, section));
        received += receiver.round();
        lap(1);
    }
    assert_eq!((sent, received), (lists.0.bytes, lists.1.bytes));
    times
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
#[ignore = "deep: measures"]
fn pieces_of_4_kib_beside_one_message_of_as_many_bytes() {
    use PieceLayout::{Apart, Shuffled, Whole};
    let cases =
        [(Whole, Whole), (Apart, Whole), (Whole, Apart), (Apart, Apart), (Shuffled, Shuffled)];
    let memory = MemoryType::Host;
    let (mut sender, mut receiver) = ends();
    sender.prepare_staging(memory);
    let buffers = [(); 2].map(|()| Buffer::new((2 * PIECES * PIECE_BYTES) as usize, 7));
    let lists = cases.map(|(from, to)| {
        let from = sender.pieces(&buffers[0], memory, &from.list());
        (from, receiver.pieces(&buffers[1], memory, &to.list()))
    });
    let mut round = |_| lists.each_ref().map(|it| measure(&mut sender, &mut receiver, it));
    // The first round touches everything for the first time.
    let rounds: Vec<_> = (0..=ROUNDS).map(&mut round).skip(1).collect();
    for (index, (from, to)) in cases.iter().enumerate() {
        let [sending, receiving] =
            [0, 1].map(|end| median(rounds.iter().map(|times| times[index][end])));
        let sum = |times: [f64; 2]| times[0] + times[1];
        let ratio = median(rounds.iter().map(|times| sum(times[index]) / sum(times[0])));
        println!(
            "{from:?} to {to:?}: {sending:.1} ms sending, {receiving:.1} ms receiving, \
             {ratio:.2} of one message"
        );
    }
    sender.close();
    receiver.close();
}
