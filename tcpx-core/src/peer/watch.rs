//! Checks of a peer's counters, about once a second.

use std::time::{Duration, Instant};

use tcpx_protocol::peer::lifecycle::stage::PeerStage;

use super::connection::Connection;
use crate::stats::alarm::{Alarm, Alarms, Troubles};
use crate::stats::watch::checks::{MatchSample, MatchWatch};
use crate::stats::watch::lane::LaneState;
use crate::stats::watch::pages::PageUse;
use crate::stats::watch::{ALIVE, CheckTiming};

/// Time and limits of one check of a session.
pub(crate) struct WatchContext<'a> {
    pub(crate) timing: CheckTiming,
    pub(crate) now: Instant,
    /// Time without progress that is trouble.
    pub(crate) stall_after: Duration,
    pub(crate) pages: &'a PageUse,
}

/// Time without any progress after which NICs are checked.
const QUIET: Duration = Duration::from_secs(2);

const SEND_SILENT: &str = "sends are posted, test says not yet: the peer takes nothing";
const UNPACK_BEHIND: &str = "arrived chunks hold the slots and wait for their unpack";
const GATHER_BEHIND: &str = "chunks that are gathered to be sent wait for the unpack backend";
const RECV_SILENT: &str = "receives are posted and matched, test says not yet: nothing comes";

/// Channel, and the state of its lane.
type ChannelLane = (usize, LaneState);

/// First lane with each trouble.
#[derive(Default)]
struct LaneTroubles {
    sending: Option<ChannelLane>,
    receiving: Option<ChannelLane>,
    lost: Option<ChannelLane>,
    behind: Option<ChannelLane>,
    gathering: Option<ChannelLane>,
    starved: Option<ChannelLane>,
    /// A lane with posted requests that has done nothing for [`QUIET`].
    quiet: Option<ChannelLane>,
    zero: Option<ChannelLane>,
}

/// Results of a peer's earlier checks.
#[derive(Debug, Default)]
pub(super) struct PeerWatch {
    matches: MatchWatch,
    troubles: Troubles,
    /// The chunks that were sent and had arrived at the last check, if it found nothing under
    /// way.
    idle_chunks: Option<[u64; 2]>,
}

impl PeerWatch {
    /// Checks every lane of a connection, and at the sends that wait for their receive, unless
    /// nothing can have changed since the last check. Nothing has where a peer speaks, and all
    /// that is posted are receives whose sends it has yet to post: of 1,000 peers that send a
    /// message a second each, that would be a check for each message.
    pub(super) fn check(
        &mut self,
        connection: &mut Connection,
        name: &str,
        context: &WatchContext<'_>,
        alarms: &mut Alarms,
    ) {
        let is_regular =
            context.timing == CheckTiming::Due && connection.protocol.silence(context.now) < ALIVE;
        let chunks = (is_regular && connection.is_quiescent()).then(|| connection.chunks());
        if self.is_new(chunks) {
            self.check_all(connection, name, context, alarms);
        }
    }

    /// Returns whether a check may find anything else than the last one. `idle_chunks`: the chunks
    /// that were sent and have arrived, if nothing is under way, and the peer answers.
    fn is_new(&mut self, idle_chunks: Option<[u64; 2]>) -> bool {
        let before = std::mem::replace(&mut self.idle_chunks, idle_chunks);
        idle_chunks.is_none() || idle_chunks != before
    }

    fn check_all(
        &mut self,
        connection: &mut Connection,
        name: &str,
        context: &WatchContext<'_>,
        alarms: &mut Alarms,
    ) {
        let stage = connection.protocol.stage();
        let is_on = matches!(stage, PeerStage::Up | PeerStage::Closing { .. });
        let silence = connection.protocol.silence(context.now);
        let is_alive = silence < ALIVE;
        if context.timing == CheckTiming::AfterSleep || !is_on || !is_alive {
            self.matches.restart();
            connection.send_lanes.iter_mut().for_each(|lane| lane.watch.restart());
            connection.recv_lanes.iter_mut().for_each(|lane| lane.watch.restart());
            // The link may go over the same NIC.
            let is_quiet = is_on && !is_alive && context.timing != CheckTiming::AfterSleep;
            self.check_nics(connection, name, is_quiet.then_some(silence), alarms);
            return;
        }
        let sample = MatchSample {
            sends: connection.protocol.waiting_sends(),
            announced: connection.protocol.posted_receives(),
            met: connection.protocol.messages().sent,
        };
        let unmatched = self.matches.check(sample, context.stall_after, context.now);
        let lanes = check_lanes(connection, context);
        let quiet = lanes.quiet.map(|(_, state)| state.silent).or(unmatched);
        let is_down = self.check_nics(connection, name, quiet, alarms);
        let draining = lanes.receiving.filter(|_| context.pages.is_draining());
        let receiving = lanes.receiving.filter(|_| draining.is_none());
        let nics = &connection.record.nics;
        let at = |(channel, state): ChannelLane, what: &str| {
            let nic = nics.get(channel).map_or("?", |nic| nic);
            let seconds = state.silent.max(state.unpacking).as_secs();
            format!("channel {channel}, NIC {nic}: {what}; nothing has moved for {seconds} s")
        };
        let stuck = || match (lanes.sending, receiving, unmatched) {
            (Some(place), ..) => at(place, SEND_SILENT),
            (_, Some(place), _) => at(place, RECV_SILENT),
            (.., waited) => unmatched_words(connection, &sample, waited.unwrap_or_default()),
        };
        let name = Some(name);
        let is_stuck = lanes.sending.is_some() || receiving.is_some() || unmatched.is_some();
        let is_stuck = is_stuck && !is_down;
        self.troubles.set(Alarm::Stuck, is_stuck, alarms, name, stuck);
        self.troubles.set(Alarm::PagesDraining, draining.is_some(), alarms, name, || {
            let what = format!(
                "receives wait; {} bytes of bounce pages were used, and new ones were needed all \
                 the time",
                context.pages.seen_bytes()
            );
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

    /// Checks whether a NIC of this host is down, where nothing has moved for some time.
    fn check_nics(
        &mut self,
        connection: &Connection,
        name: &str,
        quiet: Option<Duration>,
        alarms: &mut Alarms,
    ) -> bool {
        let seen = quiet.and_then(|quiet| Some((connection.down_nic()?, quiet)));
        let lost = connection.lost_channel();
        let is_on = seen.is_some() || lost.is_some();
        self.troubles.set(Alarm::NicDown, is_on, alarms, Some(name), || match (&seen, lost) {
            (Some((down, quiet)), _) => {
                format!("{down}; nothing has moved for {} s", quiet.as_secs())
            }
            (None, lost) => lost.map_or_else(String::new, |lost| lost.words()),
        });
        seen.is_some()
    }
}

fn check_lanes(connection: &mut Connection, context: &WatchContext<'_>) -> LaneTroubles {
    let mut troubles = LaneTroubles::default();
    let chunk_bytes = connection.protocol.agreement().chunk_bytes;
    let mut starved = [StarvedLanes::default(); 2];
    let [sending, receiving] = &mut starved;
    for (channel, lane) in connection.send_lanes.by_channel_mut() {
        let state = lane.check(chunk_bytes, context.now);
        let channel = usize::from(channel);
        sending.note(channel, state);
        let note = |place: &mut Option<ChannelLane>, is_there: bool| {
            record_first(place, channel, state, is_there)
        };
        note(&mut troubles.quiet, state.silent >= QUIET.min(context.stall_after));
        note(&mut troubles.sending, state.silent >= context.stall_after);
        note(&mut troubles.gathering, state.unpacking >= context.stall_after);
    }
    for (channel, lane) in connection.recv_lanes.by_channel_mut() {
        let state = lane.check(chunk_bytes, context.now);
        let channel = usize::from(channel);
        receiving.note(channel, state);
        let note = |place: &mut Option<ChannelLane>, is_there: bool| {
            record_first(place, channel, state, is_there)
        };
        let (is_silent, is_new) = (state.silent >= context.stall_after, lane.stats.chunks == 0);
        note(&mut troubles.quiet, state.silent >= QUIET.min(context.stall_after));
        note(&mut troubles.receiving, is_silent && !is_new);
        note(&mut troubles.lost, is_silent && is_new);
        note(&mut troubles.behind, state.is_behind || state.unpacking >= context.stall_after);
        note(&mut troubles.zero, lane.payload.is_all_zero());
    }
    troubles.starved = starved.into_iter().find_map(StarvedLanes::trouble);
    troubles
}

/// Lanes of one direction that are starved. One beside others that are not is no trouble: channels
/// over a slow NIC get few chunks.
#[derive(Clone, Copy, Debug, Default)]
struct StarvedLanes {
    first: Option<ChannelLane>,
    is_any_fed: bool,
}

impl StarvedLanes {
    fn note(&mut self, channel: usize, state: LaneState) {
        record_first(&mut self.first, channel, state, state.is_starved);
        self.is_any_fed |= state.is_fed;
    }

    /// Returns the first lane, if all that move chunks are starved.
    fn trouble(self) -> Option<ChannelLane> {
        self.first.filter(|_| !self.is_any_fed)
    }
}

/// Records the first channel with a trouble.
fn record_first(place: &mut Option<ChannelLane>, channel: usize, state: LaneState, is_there: bool) {
    if is_there && place.is_none() {
        *place = Some((channel, state));
    }
}

fn unmatched_words(connection: &Connection, sample: &MatchSample, waited: Duration) -> String {
    let oldest = connection.protocol.oldest_send().map_or_else(String::new, |send| {
        format!(", the oldest of {} bytes with tag {},", send.bytes, send.tag)
    });
    let peer = match sample.announced {
        0 => "the peer has posted no receive".to_owned(),
        some => format!("the peer has posted {some} receives, under other tags"),
    };
    let (sends, seconds) = (sample.sends, waited.as_secs());
    format!("{sends} sends{oldest} have waited {seconds} s for their receive; {peer}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_at_rest_is_checked_once_and_after_each_change() {
        let mut watch = PeerWatch::default();
        assert!(watch.is_new(Some([3, 4])), "what moved until then may be trouble");
        assert!(!watch.is_new(Some([3, 4])) && !watch.is_new(Some([3, 4])));
        assert!(watch.is_new(Some([3, 5])), "a chunk has come and gone");
        assert!(!watch.is_new(Some([3, 5])));
        assert!(watch.is_new(None) && watch.is_new(None), "something is under way");
        assert!(watch.is_new(Some([3, 5])), "a trouble that was seen then is over");
        assert!(!watch.is_new(Some([3, 5])));
    }

    #[test]
    fn a_starved_lane_beside_a_fed_one_is_no_trouble() {
        let state = |is_starved, is_fed| LaneState {
            silent: Duration::ZERO,
            unpacking: Duration::ZERO,
            is_behind: false,
            is_starved,
            is_fed,
        };
        let trouble = |states: &[(bool, bool)]| {
            let mut lanes = StarvedLanes::default();
            for (channel, &(is_starved, is_fed)) in states.iter().enumerate() {
                lanes.note(channel, state(is_starved, is_fed));
            }
            lanes.trouble().map(|(channel, _)| channel)
        };
        assert_eq!(trouble(&[(false, false), (true, false)]), Some(1), "the first is idle");
        assert_eq!(trouble(&[(true, false), (true, false)]), Some(0));
        assert_eq!(trouble(&[(true, false), (false, true)]), None, "a fast NIC");
        assert_eq!(trouble(&[]), None);
    }
}
