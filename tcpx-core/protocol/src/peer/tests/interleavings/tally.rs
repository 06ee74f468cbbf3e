//! Count of what has occurred in conversations: which kinds of frames came to an end in which stage
//! of its life, and from which state an operation came to which end. What can occur must, so that
//! the conversations go on testing it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::send_all_lists;
use crate::frames::eager_terms::CreditKind;
use crate::frames::frame::Frame;
use crate::frames::messages::{Ended, LinkChunk, MessageId, Offer, Ready, WriteWay};
use crate::peer::PeerProtocol;
use crate::peer::action::{Outcome, Withdrawal};
use crate::peer::lifecycle::stage::PeerStage;
use crate::peer::message::{Message, State};
use crate::peer::tests::driver::End;
use crate::types::TransferKey;

/// Number of occurrences of each pair.
type Pairs = BTreeMap<(&'static str, String), u64>;

/// Occurrences in the conversations of a thread that counts.
#[derive(Debug, Default)]
struct Tally {
    frames: Pairs,
    ends: Pairs,
}

thread_local! {
    static TALLY: RefCell<Option<Tally>> = const { RefCell::new(None) };
}

/// The states of an end's operations when it last had nothing more to do.
#[derive(Debug, Default)]
pub(in crate::peer::tests) struct Seen(Vec<(TransferKey, &'static str)>);

fn is_counting() -> bool {
    TALLY.with_borrow(Option::is_some)
}

fn count(pairs: impl FnOnce(&mut Tally) -> &mut Pairs, first: &'static str, second: String) {
    TALLY.with_borrow_mut(|tally| {
        if let Some(tally) = tally {
            *pairs(tally).entry((first, second)).or_default() += 1;
        }
    });
}

/// Counts a frame that comes to an end.
pub(in crate::peer::tests) fn frame_comes(stage: PeerStage, frame: &Frame) {
    if is_counting() {
        count(|tally| &mut tally.frames, stage_name(stage), frame_name(frame).into());
    }
}

impl Seen {
    /// Counts an end that has nothing more to do.
    pub(in crate::peer::tests) fn look(&mut self, protocol: Option<&PeerProtocol>) {
        if !is_counting() {
            return;
        }
        let operations = protocol.iter().flat_map(|protocol| protocol.cx.operations.values());
        self.0.clear();
        self.0.extend(operations.map(|it| (it.posted.transfer, state_name(it))));
    }

    /// Counts an operation that comes to its end.
    pub(in crate::peer::tests) fn ends(&self, transfer: TransferKey, end: End) {
        if is_counting() {
            let seen = self.0.iter().find(|(other, _)| *other == transfer);
            let state = seen.map_or("New", |(_, state)| state);
            count(|tally| &mut tally.ends, state, end_name(end).into());
        }
    }
}

fn stage_name(stage: PeerStage) -> &'static str {
    match stage {
        PeerStage::Connecting => "Connecting",
        PeerStage::Up => "Up",
        PeerStage::Closing { peer_left: false } => "Leaving",
        PeerStage::Closing { peer_left: true } => "Parting",
        PeerStage::Over => "Over",
    }
}

/// Returns the subject of a frame, finer than its kind.
fn frame_name(frame: &Frame) -> &'static str {
    match frame {
        Frame::Handles(_) => "Handles",
        Frame::Open { .. } => "Open",
        Frame::Ping => "Ping",
        Frame::Pong(_) => "Pong",
        Frame::Goodbye => "Goodbye",
        Frame::Closed => "Closed",
        Frame::Abort(_) => "Abort",
        Frame::Credit { what: CreditKind::Chunks, .. } => "Credit",
        Frame::Credit { .. } => "MaySend",
        Frame::Unpacked(_) => "Unpacked",
        Frame::ChannelLost { .. } => "ChannelLost",
        Frame::Redeal { .. } => "Redeal",
        Frame::Offer(Offer::Eager { .. }) => "Ahead",
        Frame::Offer(Offer::Note { .. }) => "Note",
        Frame::Offer(Offer::Write { way: WriteWay::Inline(_), .. }) => "WriteInline",
        Frame::Offer(Offer::Write { .. }) => "Write",
        Frame::Ready(Ready::Receive { .. }) => "Announce",
        Frame::Ready(Ready::Write { .. }) => "Grant",
        Frame::Ready(Ready::Read { .. }) => "Read",
        Frame::Chunks(chunks) if chunks.recvs.len() > 1 => "Together",
        Frame::Chunks(chunks) if chunks.offset > 0 => "Section",
        Frame::Chunks(_) => "Chunks",
        Frame::LinkChunk(LinkChunk { of: MessageId::Receive(_), .. }) => "Deliver",
        Frame::LinkChunk(_) => "Part",
        Frame::End { message: MessageId::Eager(_), .. } => "Taken",
        Frame::End { how: Ended::Done, .. } => "Answer",
        Frame::End { how: Ended::Withdrawn, .. } => "Withdrawn",
        Frame::End { how: Ended::OtherSize(_), .. } => "OtherSize",
        Frame::End { how: Ended::Refused(_), .. } => "Refused",
        Frame::End { how: Ended::Stopped(_), .. } => "Stopped",
        Frame::Cancel { message: MessageId::Receive(_), .. } => "Cancel",
        Frame::Cancel { .. } => "Halt",
        Frame::List(part) if part.head.is_none() => "MoreOfList",
        Frame::List(_) => "List",
        Frame::Forget { .. } => "Forget",
    }
}

fn state_name(message: &Message) -> &'static str {
    match message.state {
        State::AwaitsReceive => "AwaitsReceive",
        State::ReadyQueued => "ReadyQueued",
        State::ReadySent => "ReadySent",
        State::RequestQueued => "RequestQueued",
        State::RequestSent => "RequestSent",
        State::Cancelling(_) => "Cancelling",
        State::Moving => "Moving",
        State::Ending { .. } => "Ending",
        State::AwaitsAnswer => "AwaitsAnswer",
        State::Answered => "Answered",
    }
}

fn end_name(end: End) -> &'static str {
    match end {
        End::Completed(Outcome::Done) => "Done",
        End::Completed(Outcome::SizeMismatch { .. }) => "SizeMismatch",
        End::Completed(Outcome::Refused { .. }) => "Refused",
        End::Completed(Outcome::Withdrawn(Withdrawal::Cancelled)) => "Cancelled",
        End::Completed(Outcome::Withdrawn(Withdrawal::Left)) => "Left",
        End::Completed(Outcome::Withdrawn(Withdrawal::PeerLeft)) => "PeerLeft",
        End::WithThePeer => "WithThePeer",
    }
}

const STAGES: [&str; 4] = ["Connecting", "Up", "Leaving", "Parting"];

/// All that a frame may be about, by the names of [`frame_name`].
#[rustfmt::skip]
const FRAMES: [&str; 35] = [
    "Handles", "Open", "Ping", "Pong", "Goodbye", "Closed", "Abort", "Credit", "MaySend", "Unpacked",
    "ChannelLost", "Redeal", "Ahead", "Note", "WriteInline", "Write", "Announce", "Grant", "Read", "Together", "Section", "Chunks",
    "Deliver", "Part", "Taken", "Answer", "Withdrawn", "OtherSize", "Refused", "Stopped", "Cancel",
    "Halt", "MoreOfList", "List", "Forget",
];

const STATES: [&str; 11] = [
    "New",
    "AwaitsReceive",
    "ReadyQueued",
    "ReadySent",
    "Cancelling",
    "RequestQueued",
    "RequestSent",
    "Moving",
    "Ending",
    "AwaitsAnswer",
    "Answered",
];

const ENDS: [&str; 7] =
    ["Done", "SizeMismatch", "Refused", "Cancelled", "Left", "PeerLeft", "WithThePeer"];

/// Some pairs, and why they are.
type Known = (&'static [&'static str], &'static [&'static str], &'static str);

/// Pairs that cannot occur.
#[rustfmt::skip]
const NEVER: [Known; 11] = [
    (&["Connecting"], &[
        "Goodbye", "Closed", "Credit", "Unpacked", "ChannelLost", "Redeal", "Ahead", "Note", "WriteInline", "Write", "Announce", "Grant",
        "Read", "Together", "Section", "Chunks", "Deliver", "Part", "Taken", "Answer", "Withdrawn",
        "OtherSize", "Refused", "Stopped", "Cancel", "Halt", "MoreOfList", "List", "Forget",
    ], "its peer says that when it is up: after both have said that they are open"),
    (&["Up", "Leaving"], &["Closed"], "a peer closes its sends when both have said goodbye"),
    (&["Parting"], &[
        "Handles", "Open", "Goodbye", "Credit", "MaySend", "Redeal", "Ahead", "Note", "WriteInline", "Write",
        "Announce", "Grant", "Read", "Together", "Section", "Chunks", "Deliver", "Part", "Taken",
        "Answer", "Withdrawn", "OtherSize", "Refused", "Cancel", "Halt", "MoreOfList", "List",
        "Forget",
    ], "its peer has said goodbye, and begins and finishes nothing after that"),
    (&["New", "AwaitsReceive", "ReadyQueued", "ReadySent", "Cancelling"], &["Refused"],
        "only a read or write is refused, by the peer's word"),
    (&["RequestQueued", "RequestSent", "Moving", "Ending", "AwaitsAnswer", "Answered"], &["SizeMismatch"],
        "sizes are compared when a send meets its receive"),
    (&["RequestQueued"], &["Done", "Refused"], "the peer has not heard of it"),
    (&["RequestSent"], &["Done"], "a write moves first"),
    (&["Answered"], &["Refused", "Cancelled", "PeerLeft"], "all of it is there"),
    (&["New"], &["Cancelled", "Left", "PeerLeft", "WithThePeer"],
        "what ends in the call that posts it meets what was there before"),
    (&["Cancelling"], &["PeerLeft"], "it was given up before"),
    (&["RequestSent", "Moving", "Ending", "AwaitsAnswer", "Answered"], &["Left"],
        "what the peer knows of is finished before the goodbye"),
];

/// Pairs that occur in few conversations, so that only many must have them.
const RARE: [Known; 6] = [
    (&["Leaving"], &["Abort"], "a comm fails beside a goodbye"),
    (&["Leaving", "Parting"], &["Ping", "Pong"], "time passes while they say goodbye"),
    (&["Parting"], &["Stopped"], "what stops a read crosses the goodbye of who has asked for it"),
    (&["ReadySent"], &["Cancelled"], "a withdrawal is asked for and answered between two looks"),
    (&["Cancelling"], &["WithThePeer"], "the link is cut before the answer"),
    (&["Ending", "Answered"], &["PeerLeft", "WithThePeer"], "it is short, and ends soon"),
];

/// Pairs that may occur, and for which there are tests of their own instead.
const ELSEWHERE: [Known; 2] = [
    (&["Up", "Leaving"], &["MoreOfList"], "lists are short: see `local_lists` and `round_work`"),
    (&["Parting"], &["Abort"], "what fails so late is of no operation"),
];

fn is_among(known: &[Known], first: &str, second: &str) -> bool {
    known.iter().any(|(firsts, seconds, _)| firsts.contains(&first) && seconds.contains(&second))
}

/// Returns the faults of the pairs that have occurred.
fn faults(pairs: &Pairs, firsts: &[&'static str], seconds: &[&str], are_many: bool) -> Vec<String> {
    let mut faults = Vec::new();
    for (first, second) in pairs.keys() {
        let is_known = firsts.contains(first) && seconds.contains(&&**second);
        if !is_known || is_among(&NEVER, first, second) {
            faults.push(format!("{first} × {second} occurs"));
        }
    }
    for first in firsts {
        for second in seconds {
            let is_excused = is_among(&NEVER, first, second)
                || is_among(&ELSEWHERE, first, second)
                || !are_many && is_among(&RARE, first, second);
            if !is_excused && !pairs.contains_key(&(first, (*second).into())) {
                faults.push(format!("{first} × {second} never occurs"));
            }
        }
    }
    faults
}

/// Tells the stories of the first seeds. Each must end well. Every frame must have occurred in
/// every stage in which it can, and every state must have come to every end that it can have: the
/// rare ones only where there are many stories.
pub(super) fn send_all_and_count(conversations: u64, are_many: bool) {
    TALLY.set(Some(Tally::default()));
    send_all_lists(0..conversations);
    let Tally { frames, ends } = TALLY.take().expect("it was set");
    let mut faults = faults(&frames, &STAGES, &FRAMES, are_many);
    faults.extend(self::faults(&ends, &STATES, &ENDS, are_many));
    assert!(faults.is_empty(), "{}\n{frames:?}\n{ends:?}", faults.join("\n"));
}
