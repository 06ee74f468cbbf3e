//! Two ends, a link with frames under way, and the bytes between them.

mod end_checks;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::credit::Bounce;
use super::driver::{Check, Driver, Over, ensure};
use super::interleavings::tally;
use super::moving::Moved;
use super::payload::{Came, Chunk, Payload, Piece, is_followed};
use super::setting::Setting;
use crate::peer::action::Ending;
use crate::peer::lifecycle::stage::PeerStage;
use crate::types::{Direction, TransferKey};

/// The two ends by number; the other one of `end` is `1 - end`.
pub(super) const ENDS: [usize; 2] = [0, 1];

/// Both ends of one conversation.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) now: Instant,
    pub(super) ends: [Driver; 2],
    /// Frames that each end still reads of a link that is cut.
    still_read: Option<[usize; 2]>,
    has_seen_end: [bool; 2],
    /// Whether each end has parted without the last word of the other.
    has_parted_unheard: [bool; 2],
    /// Receive that each send was matched with, by sending end.
    matches: [BTreeMap<TransferKey, TransferKey>; 2],
    /// Pieces of each receive that have arrived, by offset, by sending end.
    arrived: [BTreeMap<TransferKey, BTreeMap<u64, u64>>; 2],
    /// Bytes of requests in chunks that have arrived and are not consumed, by receiving end and
    /// channel.
    moved: [Vec<VecDeque<Vec<Moved>>>; 2],
}

impl Pair {
    pub(super) fn new(settings: [Setting; 2]) -> Self {
        let now = Instant::now();
        let mut pair = Self {
            now,
            ends: settings.map(|setting| Driver::new(setting, now)),
            still_read: None,
            has_seen_end: [false; 2],
            has_parted_unheard: [false; 2],
            matches: [BTreeMap::new(), BTreeMap::new()],
            arrived: [BTreeMap::new(), BTreeMap::new()],
            moved: settings.map(|setting| vec![VecDeque::new(); setting.channels.into()]),
        };
        let begins = |end: &mut Driver| end.act().expect("it says how it begins");
        pair.ends.iter_mut().for_each(begins);
        pair
    }

    /// Makes two ends that are up.
    pub(super) fn up(settings: [Setting; 2]) -> Self {
        let mut pair = Self::new(settings);
        pair.connect().and_then(|()| pair.deliver_all()).expect("nothing is in its way");
        assert!(pair.ends.iter().all(|end| end.stage() == PeerStage::Up));
        pair
    }

    /// Does everything that belongs to connecting, in the usual order.
    pub(super) fn connect(&mut self) -> Check {
        if ENDS.iter().all(|end| !self.ends[*end].is_opening) {
            return Ok(());
        }
        ENDS.into_iter().try_for_each(|end| self.ends[end].listen())?;
        self.deliver_all()?;
        for end in ENDS {
            self.ends[end].input(|protocol| protocol.handle_comms_connected())?;
            self.ends[end].accept_comms()?;
        }
        Ok(())
    }

    /// Delivers the next frame to an end. Returns false when none is under way.
    pub(super) fn deliver(&mut self, end: usize) -> Result<bool, String> {
        if let Some(still_read) = &mut self.still_read {
            if still_read[end] == 0 {
                self.ends[1 - end].outbox.clear();
                self.ends[1 - end].following.clear();
            }
            still_read[end] = still_read[end].saturating_sub(1);
        }
        let sender = &mut self.ends[1 - end];
        let Some(frame) = sender.outbox.pop_front() else { return Ok(false) };
        let payload = if is_followed(&frame) { sender.following.pop_front() } else { None };
        let came = payload.map(|payload| match payload {
            Payload::Message(message) => Came::Message((message, sender.posted[message].bytes)),
            Payload::Listed { bytes, note } => Came::Listed { bytes, note },
        });
        if self.ends[end].over.is_some() {
            return Ok(true);
        }
        let now = self.now;
        tally::frame_comes(self.ends[end].stage(), &frame);
        self.ends[end].input(|protocol| protocol.handle_received(now))?;
        if let Some(landed) = self.ends[end].read(frame, came)? {
            self.place_landed(1 - end, &landed)?;
        }
        self.ends[end].answer()?;
        self.check_order(end)?;
        self.check_requests()?;
        Ok(true)
    }

    pub(super) fn deliver_all(&mut self) -> Check {
        while self.deliver(0)? || self.deliver(1)? {}
        Ok(())
    }

    /// Cuts the link: an end reads `still_read` more frames, then sees the end of the link.
    pub(super) fn cut(&mut self, still_read: [usize; 2]) {
        self.still_read.get_or_insert(still_read);
    }

    /// Returns whether an end may see the end of its link: the link is cut, or the other end has
    /// closed it, and everything that came before is read.
    pub(super) fn may_see_link_end(&self, end: usize) -> bool {
        let is_read = self.ends[1 - end].outbox.is_empty();
        let is_closed = self.ends[1 - end].over.is_some() && is_read;
        let is_cut = self.still_read.is_some_and(|still_read| still_read[end] == 0 || is_read);
        (is_closed || is_cut) && !self.has_seen_end[end]
    }

    pub(super) fn see_link_end(&mut self, end: usize) -> Check {
        self.has_seen_end[end] = true;
        if self.ends[end].over.is_some() {
            return Ok(());
        }
        let parted = Some(Over::Said(Ending::Goodbye));
        let mut may_have_parted = false;
        self.ends[end].input(|protocol| may_have_parted = protocol.handle_link_closed())?;
        if may_have_parted {
            ensure!(self.ends[end].over == parted, "end {end} does not go on with the parting");
            self.has_parted_unheard[end] = true;
            return Ok(());
        }
        // An end that has heard this one's last word has parted, and its own may have been lost.
        let other = 1 - end;
        ensure!(
            self.has_parted_unheard[other] || self.ends[other].over != parted,
            "end {other} has parted, and end {end} has not"
        );
        self.ends[end].end(Over::ByDriver)
    }

    /// Sends the oldest chunk of a channel from an end. Returns false when there is none.
    pub(super) fn send_chunk(&mut self, end: usize, channel: usize) -> Result<bool, String> {
        let sends = self.ends[end].send_chunk(channel)?;
        let sent = self.ends[end].sent_counts();
        self.ends[1 - end].bounce().map_or(Ok(()), |bounce| bounce.check(&sent))?;
        Ok(sends)
    }

    /// Delivers the oldest chunk that was sent on a channel to an end, if the end expects it by
    /// now.
    pub(super) fn receive_chunk(&mut self, end: usize, channel: usize) -> Result<bool, String> {
        let is_lost = self.ends[end].kept[channel].is_lost;
        if is_lost || self.ends[1 - end].sent[channel].is_empty() {
            return Ok(false);
        }
        let is_expected = self.ends[end].receiving[channel].peek().is_some();
        if !is_expected || !self.ends[1 - end].kept[channel].arrives() {
            return Ok(false);
        }
        let Some(expected) = self.ends[end].receive_chunk(channel)? else { return Ok(false) };
        let came = self.ends[1 - end].sent[channel].pop_front().unwrap_or_default();
        let moved = self.check_chunk(1 - end, &came, &expected)?;
        self.moved[end][channel].push_back(moved);
        Ok(true)
    }

    /// Consumes the oldest chunk that has arrived on a channel. Returns false when there is none.
    pub(super) fn consume_chunk(&mut self, end: usize, channel: usize) -> Result<bool, String> {
        if let Some(moved) = self.moved[end][channel].pop_front()
            && self.ends[end].over.is_none()
        {
            self.place(&moved)?;
        }
        let consumes = self.ends[end].consume_chunk(channel)?;
        self.check_requests()?;
        Ok(consumes)
    }

    /// Checks that a chunk has what the other end expects in it, message by message.
    fn check_chunk(
        &mut self,
        sender: usize,
        came: &Chunk,
        expected: &Chunk,
    ) -> Result<Vec<Moved>, String> {
        let is_message = |piece: &Piece| self.ends[sender].posted.contains_key(piece.of);
        if !came.iter().any(is_message) {
            return Self::moves_of_chunk(sender, came, expected);
        }
        ensure!(came.len() == expected.len(), "{came:?} came for {expected:?}");
        for (sent, received) in came.iter().zip(expected) {
            let (send, recv) = (sent.of, received.of);
            let is_same = (sent.offset, sent.bytes) == (received.offset, received.bytes);
            ensure!(is_same, "{came:?} came for {expected:?}");
            self.check_message(sender, send, recv, true)?;
            let pieces = self.arrived[sender].entry(recv).or_default();
            let before = pieces.insert(received.offset, received.bytes);
            ensure!(before.is_none(), "{received:?} arrives twice");
        }
        Ok(Vec::new())
    }

    /// Checks a send that met this receive.
    fn check_message(
        &mut self,
        sender: usize,
        send: TransferKey,
        recv: TransferKey,
        has_its_size: bool,
    ) -> Check {
        let posted = self.ends[sender].posted[send];
        let into = self.ends[1 - sender].posted[recv];
        let is_fit = posted.tag == into.tag
            && (posted.bytes == into.bytes) == has_its_size
            && posted.direction == Direction::Send
            && into.direction == Direction::Receive;
        ensure!(is_fit, "{posted:?} came for {into:?}");
        let known = *self.matches[sender].entry(send).or_insert(recv);
        ensure!(known == recv, "{posted:?} goes to two receives");
        Ok(())
    }

    /// Looks at the messages that came on the link to an end.
    fn check_messages_on_link(&mut self, end: usize) -> Check {
        let messages = &mut self.ends[end].messages;
        let placed = std::mem::take(&mut messages.placed);
        let misfits = std::mem::take(&mut messages.misfits);
        for (send, recv) in placed {
            ensure!(!self.matches[1 - end].contains_key(&send), "a message came twice");
            self.check_message(1 - end, send, recv, true)?;
            let bytes = self.ends[end].posted[recv].bytes;
            self.arrived[1 - end].entry(recv).or_default().insert(0, bytes);
        }
        for (send, recv) in misfits {
            ensure!(!self.matches[1 - end].contains_key(&send), "a message came twice");
            self.check_message(1 - end, send, recv, false)?;
        }
        Ok(())
    }

    /// Checks that a receive comm closes after the send comm at its other end.
    fn check_order(&self, end: usize) -> Check {
        let is_parted = self.ends[end].over == Some(Over::Said(Ending::Goodbye));
        ensure!(
            !is_parted || self.ends[1 - end].has_closed_sends,
            "end {end} has closed too early"
        );
        Ok(())
    }

    /// Lets time pass, and gives both ends the time.
    pub(super) fn pass(&mut self, time: Duration) -> Check {
        self.now += time;
        let now = self.now;
        ENDS.into_iter().try_for_each(|end| self.ends[end].pass(now))
    }

    /// Returns whether an end has given the other up.
    pub(super) fn has_given_up(&self) -> bool {
        self.ends.iter().any(|end| {
            let over = end.over.as_ref();
            over.is_some_and(|over| *over != Over::Said(Ending::Goodbye))
        })
    }

    /// Brings everything that is under way to its end: frames, chunks, what connecting needs.
    pub(super) fn settle(&mut self) -> Check {
        self.ends.iter_mut().filter_map(Driver::bounce).for_each(Bounce::leave_alone);
        loop {
            let mut moved = self.deliver(0)? || self.deliver(1)?;
            for end in ENDS {
                moved |= self.step_comms(end)?;
                moved |= self.ends[end].round()?;
                for channel in 0..self.ends[end].sent.len() {
                    moved |= self.send_chunk(end, channel)?;
                    moved |= self.receive_chunk(end, channel)?;
                    moved |= self.consume_chunk(end, channel)?;
                    moved |= self.ends[end].close_channel(channel)?;
                }
                moved |= self.ends[end].take_notes(usize::MAX)?;
                self.check_requests()?;
                if self.may_see_link_end(end) {
                    self.see_link_end(end)?;
                    moved = true;
                }
            }
            // Sends that end late end when everything else has happened.
            for end in ENDS {
                for channel in 0..self.ends[end].sent.len() {
                    moved |= !moved && self.ends[end].end_send(channel)?;
                }
            }
            self.check_requests()?;
            if !moved {
                return ENDS.into_iter().try_for_each(|end| self.check_messages_on_link(end));
            }
        }
    }

    /// Brings comms up until no more can come. Returns whether any did.
    pub(super) fn step_comms(&mut self, end: usize) -> Result<bool, String> {
        if !self.ends[end].is_opening {
            return Ok(false);
        }
        if !self.ends[end].listens {
            self.ends[end].listen()?;
            return Ok(true);
        }
        let before = self.ends[end].outbox.len();
        let was_open = self.ends[end].is_open;
        if self.ends[end].has_connect_handles {
            self.ends[end].input(|protocol| protocol.handle_comms_connected())?;
        }
        // The other end connects with the handles that it was given.
        if self.ends[1 - end].has_connect_handles {
            self.ends[end].accept_comms()?;
        }
        Ok(self.ends[end].outbox.len() != before || self.ends[end].is_open != was_open)
    }
}
