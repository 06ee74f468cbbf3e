//! Channels of an end that are lost: their chunks stay until the other end has unpacked them, and
//! go on other channels then.

use super::driver::{Check, Driver, Over, ensure};
use super::pair::Pair;
use crate::frames::frame::{ChunkCounts, Frame};
use crate::types::Direction;

/// State of one channel at one end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kept {
    /// Chunks that it has sent, and knows of it.
    pub(super) sent: u64,
    /// Chunks that the other end has unpacked, by its word.
    unpacked: u64,
    /// Chunks whose send is done.
    finished: u64,
    /// Chunks that this end has unpacked.
    pub(super) consumed: u64,
    /// Whether it is being closed, or is closed.
    pub(super) is_lost: bool,
    is_closed: bool,
    /// Chunks that still arrive of what was sent; `None`: all do.
    still_arrive: Option<usize>,
}

impl Driver {
    /// Ends the sends of a channel that are done. Returns whether there are any.
    pub(super) fn finish_sends(&mut self, channel: usize) -> Result<bool, String> {
        let kept = &mut self.kept[channel];
        let unpacked = if self.setting.keeps_chunks { kept.unpacked } else { u64::MAX };
        let most = if kept.is_closed { self.sent_counts[channel] } else { kept.sent };
        let until = most.min(unpacked);
        let mut done = Vec::new();
        while self.kept[channel].finished < until {
            self.kept[channel].finished += 1;
            let Some((bytes, is_long)) = self.unfinished[channel].pop_front() else { break };
            if is_long {
                self.long_under_way -= u64::from(bytes);
            }
            self.sending[channel].finish(&mut done);
        }
        let moved = !done.is_empty();
        self.finished(done)?;
        Ok(moved)
    }

    /// Takes the word of the other end on what it has unpacked.
    pub(super) fn note_unpacked(&mut self, chunks: &ChunkCounts) {
        for (kept, chunks) in self.kept.iter_mut().zip(chunks) {
            kept.unpacked = *chunks;
        }
    }

    /// Has the other end know what is unpacked here. Returns whether that is new.
    pub(super) fn report_unpacked(&mut self) -> Result<bool, String> {
        if !self.setting.keeps_chunks || !self.is_open {
            return Ok(false);
        }
        let before = self.outbox.len();
        let chunks = self.kept.iter().map(|kept| kept.consumed).collect();
        self.input(|protocol| protocol.handle_unpacked(chunks))?;
        Ok(self.outbox.len() > before)
    }

    /// Has a comm of a channel fail.
    pub(super) fn fail_channel(&mut self, channel: usize) -> Check {
        let Some(protocol) = &mut self.protocol else { return Ok(()) };
        if protocol.handle_channel_failed(channel as u16) {
            return self.act();
        }
        self.outbox.push_back(Frame::Abort("a comm has failed".into()));
        self.end(Over::ByDriver)
    }

    pub(super) fn begin_to_close(&mut self, channel: u16) -> Check {
        let kept = &mut self.kept[usize::from(channel)];
        ensure!(!kept.is_lost, "channel {channel} is lost twice");
        kept.is_lost = true;
        Ok(())
    }

    /// Closes a channel that is lost, once nothing of it is being unpacked. Returns whether it did.
    pub(super) fn close_channel(&mut self, channel: usize) -> Result<bool, String> {
        let kept = &mut self.kept[channel];
        if !kept.is_lost || kept.is_closed || !self.arrived[channel].is_empty() {
            return Ok(false);
        }
        kept.is_closed = true;
        let unpacked = kept.consumed;
        self.input(|protocol| protocol.handle_channel_closed(channel as u16, unpacked))?;
        Ok(true)
    }

    /// Moves the chunks of a lost channel to another one.
    pub(super) fn redeal(&mut self, direction: Direction, lost: u16, onto: u16) -> Check {
        let pair = [lost, onto].map(usize::from);
        ensure!(self.kept[pair[0]].is_closed, "deals of channel {lost}, which is not closed");
        let lanes = match direction {
            Direction::Send => {
                self.finish_sends(pair[0])?;
                // What was sent and is not unpacked is sent once more.
                self.unfinished[pair[0]].clear();
                &mut self.sending
            }
            Direction::Receive => &mut self.receiving,
        };
        let Ok([from, to]) = lanes.get_disjoint_mut(pair) else {
            return Err(format!("channel {lost} goes to {onto}"));
        };
        let chunks = from.move_to(to);
        if let (Direction::Receive, Some(bounce)) = (direction, &mut self.bounce) {
            bounce.expect(onto, chunks);
        }
        Ok(())
    }
}

impl Pair {
    /// Takes a channel down between both ends: of what was sent, each end gets this many more
    /// chunks, and nothing that is sent later.
    pub(super) fn take_down(&mut self, channel: usize, still_arrive: [usize; 2]) {
        for (end, count) in self.ends.iter_mut().zip(still_arrive) {
            let sent = end.sent[channel].len();
            end.kept[channel].still_arrive.get_or_insert(count.min(sent));
        }
    }
}

impl Kept {
    /// Takes the next chunk from the channel. Returns false when none arrives any more.
    pub(super) fn arrives(&mut self) -> bool {
        match &mut self.still_arrive {
            None => true,
            Some(0) => false,
            Some(count) => {
                *count -= 1;
                true
            }
        }
    }
}
