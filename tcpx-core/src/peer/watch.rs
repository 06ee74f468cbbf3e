//! What a peer's counters say is wrong, about once a second.

use std::time::{Duration, Instant};

use crate::peer::{Peer, Stage};
use crate::stats::alarm::{Alarm, Alarms};
use crate::stats::channel::ChannelStats;
use crate::stats::watch::lane::LaneState;
use crate::stats::watch::matches::MatchSample;
use crate::stats::watch::pages::PageUse;
use crate::stats::watch::{ALIVE, Round};
use crate::transfer::ledger::{Ledger, Op, OpState};
use crate::types::{Direction, PeerKey};

/// One look at a session.
pub(crate) struct WatchInput<'a> {
    pub(crate) round: Round,
    pub(crate) now: Instant,
    /// How long nothing may move.
    pub(crate) stall_after: Duration,
    pub(crate) ledger: &'a Ledger,
    pub(crate) pages: &'a PageUse,
}

const SEND_SILENT: &str = "sends are posted, test says not yet: the peer takes nothing";
const UNPACK_BEHIND: &str = "arrived chunks hold the slots and wait for their unpack";
const GATHER_BEHIND: &str = "chunks that are gathered to be sent wait for the unpack backend";
const RECV_SILENT: &str = "receives are posted and matched, test says not yet: nothing comes";

/// A channel, and what its lane looks like.
type CommLabel = (usize, LaneState);

/// The first lane with each trouble.
#[derive(Default)]
struct LaneTroubles {
    sending: Option<CommLabel>,
    receiving: Option<CommLabel>,
    lost: Option<CommLabel>,
    behind: Option<CommLabel>,
    gathering: Option<CommLabel>,
    starved: Option<CommLabel>,
    zero: Option<CommLabel>,
}

impl Peer {
    /// Looks at every lane, and at the sends that wait for their receive.
    pub(crate) fn watch(&mut self, look: &WatchInput<'_>, alarms: &mut Alarms) {
        let is_on = matches!(self.stage, Stage::Up | Stage::Closing(_));
        let is_alive = self.silence(look.now).is_some_and(|silence| silence < ALIVE);
        if look.round == Round::AfterSleep || !is_on || !is_alive {
            self.restart_watches();
            return;
        }
        let sample = MatchSample {
            sends: self.matcher.waiting_sends(),
            announced: self.matcher.announced(),
            met: self.messages.sent,
        };
        let unmatched = self.matches.look(sample, look.stall_after, look.now);
        let lanes = self.look_at_lanes(look);
        let draining = lanes.receiving.filter(|_| look.pages.is_draining());
        let receiving = lanes.receiving.filter(|_| draining.is_none());
        let nics = &self.nics;
        let at = |(channel, state): CommLabel, what: &str| {
            let nic = nics.get(channel).map_or("?", |nic| nic);
            let seconds = state.silent.max(state.unpacking).as_secs();
            format!("channel {channel}, NIC {nic}: {what}; nothing has moved for {seconds} s")
        };
        let stuck = || match (lanes.sending, receiving, unmatched) {
            (Some(place), ..) => at(place, SEND_SILENT),
            (_, Some(place), _) => at(place, RECV_SILENT),
            (.., waited) => {
                unmatched_words(self.key, &sample, waited.unwrap_or_default(), look.ledger)
            }
        };
        let name = Some(self.name.as_str());
        let is_stuck = lanes.sending.is_some() || receiving.is_some() || unmatched.is_some();
        self.troubles.set(Alarm::Stuck, is_stuck, alarms, name, stuck);
        self.troubles.set(Alarm::PagesDraining, draining.is_some(), alarms, name, || {
            let what = format!("receives wait; {} bytes of bounce pages were used, and new ones were needed all the time",
                look.pages.seen_bytes());
            draining.map_or_else(String::new, |place| at(place, &what))
        });
        let (behind, behind_what) = match lanes.behind {
            Some(place) => (Some(place), UNPACK_BEHIND),
            None => (lanes.gathering, GATHER_BEHIND),
        };
        for (alarm, place, what) in [
            (
                Alarm::FirstMessageLost,
                lanes.lost,
                "the first receives are posted and matched, but nothing ever came",
            ),
            (Alarm::UnpackBehind, behind, behind_what),
            (
                Alarm::Starved,
                lanes.starved,
                "large chunks move, but at most a quarter of the window at a time",
            ),
            (Alarm::AllZero, lanes.zero, "every one of the first chunks begins with zeros"),
        ] {
            let seen = || place.map_or_else(String::new, |place| at(place, what));
            self.troubles.set(alarm, place.is_some(), alarms, name, seen);
        }
    }

    /// Adds what was received on all its channels.
    pub(crate) fn add_received(&self, sum: &mut ChannelStats) {
        self.recv_lanes.iter().for_each(|lane| sum.add(&lane.stats));
    }

    fn restart_watches(&mut self) {
        self.matches.restart();
        self.send_lanes.iter_mut().for_each(|lane| lane.watch.restart());
        self.recv_lanes.iter_mut().for_each(|lane| lane.watch.restart());
    }

    fn look_at_lanes(&mut self, look: &WatchInput<'_>) -> LaneTroubles {
        let mut troubles = LaneTroubles::default();
        let chunk_bytes = self.agreement.chunk_bytes;
        for (channel, lane) in self.send_lanes.iter_mut().enumerate() {
            let state = lane.look(chunk_bytes, look.now);
            let note = |place: &mut Option<CommLabel>, is_there: bool| {
                note(place, channel, state, is_there)
            };
            note(&mut troubles.sending, state.silent >= look.stall_after);
            note(&mut troubles.gathering, state.unpacking >= look.stall_after);
            note(&mut troubles.starved, state.is_starved);
        }
        for (channel, lane) in self.recv_lanes.iter_mut().enumerate() {
            let state = lane.look(chunk_bytes, look.now);
            let note = |place: &mut Option<CommLabel>, is_there: bool| {
                note(place, channel, state, is_there)
            };
            let (is_silent, is_new) = (state.silent >= look.stall_after, lane.stats.chunks == 0);
            note(&mut troubles.receiving, is_silent && !is_new);
            note(&mut troubles.lost, is_silent && is_new);
            note(&mut troubles.behind, state.is_behind || state.unpacking >= look.stall_after);
            note(&mut troubles.starved, state.is_starved);
            note(&mut troubles.zero, lane.payload.is_all_zero());
        }
        troubles
    }
}

/// Keeps the first channel with a trouble.
fn note(place: &mut Option<CommLabel>, channel: usize, state: LaneState, is_there: bool) {
    if is_there && place.is_none() {
        *place = Some((channel, state));
    }
}

fn unmatched_words(
    key: PeerKey,
    sample: &MatchSample,
    waited: Duration,
    ledger: &Ledger,
) -> String {
    let is_waiting = |op: &&Op| {
        op.peer == key && op.direction == Direction::Send && op.state == OpState::Unmatched
    };
    let first = ledger.ops.values().find(is_waiting);
    let tag = first
        .map_or(String::new(), |op| format!(", one of {} bytes with tag {}", op.bytes, op.tag));
    let peer = match sample.announced {
        0 => "the peer has posted no receive".to_owned(),
        some => format!("the peer has posted {some} receives, under other tags"),
    };
    let (sends, seconds) = (sample.sends, waited.as_secs());
    format!("{sends} sends{tag} have waited {seconds} s for their receive; {peer}")
}
