//! A peer whose control link is proven: drives the link, the comms and the lanes as the protocol
//! says.

use std::collections::TryReserveError;
use std::sync::Arc;
use std::time::Instant;

use tcpx_protocol::frames::fields::ChannelHandle;
use tcpx_protocol::frames::frame::Frame;
use tcpx_protocol::frames::hello::Agreement;
use tcpx_protocol::peer::operation::NewOperation;
use tcpx_protocol::peer::posting::{PORTION, PostError};
use tcpx_protocol::peer::room::KeptTerms;
use tcpx_protocol::peer::stage::{Leaving, PeerStage};
use tcpx_protocol::peer::withdrawing::Unmatched;
use tcpx_protocol::peer::{Opening, PeerProtocol, SLICE};
use tcpx_protocol::plans::plan::{Member, Stripe};
use tcpx_protocol::plans::stripe_queue::Finished;
use tcpx_protocol::types::{Direction, RegistrationKey, TransferKey};

use super::comm_setup::CommSetup;
use super::commons::Commons;
use super::deferred_failure::DeferredFailure;
use super::dial_places::DialPlaces;
use super::kept_messages::{KeptMessages, UnreadAnswers};
use super::session_context::SessionContext;
use crate::control::identity::ChannelClaim;
use crate::control::socket::{LinkError, LinkSocket};
use crate::error::{Departure, Error, MemoryUnavailable, Phase, Result};
use crate::plugin::comm::ReturnedHandles;
use crate::stats::ChannelStats;
use crate::stats::stages::Activity;
use crate::transfer::batch::BatchNumber;
use crate::transfer::recv_lane::RecvLane;
use crate::transfer::send_lane::SendLane;
use crate::types::{PeerKey, PeerName};
use crate::workers::Ticket;

/// Reads of one round while a long operation arrives, so that no peer keeps the others waiting.
const READS_A_ROUND: usize = 4;

/// The NIC of each channel, and what lanes that are closed have counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChannelRecord {
    pub(crate) nics: Vec<Arc<str>>,
    pub(crate) sends: Vec<ChannelStats>,
    pub(crate) recvs: Vec<ChannelStats>,
    /// Operations that ended with an error.
    pub(crate) errors: u64,
}

/// Comms that the protocol wants closed, on their way.
#[derive(Debug)]
pub(super) struct Closing {
    pub(super) direction: Direction,
    pub(super) ticket: Ticket,
    /// Free when the comms are closed.
    pub(super) stagings: Vec<RegistrationKey>,
}

/// One proven link, with everything that hangs on it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(super) key: PeerKey,
    pub(super) name: PeerName,
    pub(super) link: LinkSocket,
    pub(super) protocol: PeerProtocol,
    /// Where the peer's channels may be dialled, until they are.
    pub(super) places: Option<DialPlaces>,
    /// The comms, while they are being connected.
    pub(super) setup: Option<CommSetup>,
    pub(super) send_lanes: Vec<SendLane>,
    pub(super) recv_lanes: Vec<RecvLane>,
    pub(super) record: ChannelRecord,
    pub(super) closing: Option<Closing>,
    /// Messages that went ahead of their receives.
    pub(super) kept: KeptMessages,
    /// Notes of writes that are under way.
    pub(super) kept_notes: KeptMessages,
    /// Room for what is sent on the link of several pieces.
    pub(super) scratch: Vec<u8>,
    pub(super) unread_answers: UnreadAnswers,
    /// Chunks that the protocol has not been told of.
    finished: Vec<Finished>,
    /// Chunks that were sent, and that arrived, when the last round ended.
    chunks: [u64; 2],
    pub(super) deferred: Option<DeferredFailure>,
    /// When the protocol wants to know the time.
    pub(super) timeout: Option<Instant>,
    /// Held for as long as the comms are open.
    _channels: ChannelClaim,
}

impl Connection {
    /// The link is proven. Channels are dialled in these places only.
    pub(super) fn new(
        key: PeerKey,
        name: &PeerName,
        link: LinkSocket,
        places: DialPlaces,
        (agreement, channels): (Agreement, ChannelClaim),
        now: Instant,
        session: &SessionContext,
    ) -> Self {
        let opening = Opening {
            agreement,
            tuning: session.tuning(&agreement),
            one_sided: session.one_sided_terms(agreement.note_bytes),
            peer_timeout: session.options.peer_timeout,
            is_named: name.is_bound(),
            connect_timeout: session.options.connect_timeout,
            kept: KeptTerms::new(&session.kept),
            slice: SLICE,
        };
        Self {
            key,
            name: name.clone(),
            link,
            protocol: PeerProtocol::new(opening, now),
            record: ChannelRecord::default(),
            places: Some(places),
            setup: None,
            send_lanes: Vec::new(),
            recv_lanes: Vec::new(),
            closing: None,
            kept: KeptMessages::default(),
            kept_notes: KeptMessages::default(),
            scratch: Vec::new(),
            unread_answers: UnreadAnswers::default(),
            finished: Vec::new(),
            chunks: [0; 2],
            deferred: None,
            timeout: Some(now),
            _channels: channels,
        }
    }

    /// One step: link, comms, posts and tests. Arrived chunks go into the batch. Returns whether
    /// anything moved.
    pub(super) fn progress(&mut self, now: Instant, cx: &mut Commons) -> Result<bool> {
        let mut moved = self.settle_closing(cx)?;
        if self.protocol.is_parted() {
            // The peer may be through, and its link with it.
            return Ok(moved);
        }
        moved |= self.flush()?;
        moved |= self.protocol.handle_round();
        moved |= self.read_link(now, cx)?;
        if let Some(failure) = &self.deferred {
            failure.check(now)?;
            return Ok(moved);
        }
        // What the peer has to know of chunks goes before them: sending them takes a while.
        moved |= self.flush()?;
        match self.drive_comms(cx) {
            Ok(comms_moved) => moved |= comms_moved,
            Err(error) => return self.defer(error, now, cx),
        }
        // Without a time, whatever brings it here may end its rest.
        if self.timeout.is_none_or(|timeout| now >= timeout) {
            self.protocol.handle_timeout(now);
            // What is asked for now decides when to look again.
            self.act(cx)?;
            self.timeout = self.protocol.next_timeout();
        }
        self.act(cx)?;
        moved |= self.flush()?;
        Ok(moved)
    }

    fn read_link(&mut self, now: Instant, cx: &mut Commons) -> Result<bool> {
        if cx.ledger.exports.is_any_copied() {
            return Ok(false);
        }
        self.link.begin_round();
        let mut moved = false;
        for _ in 0..READS_A_ROUND {
            if self.protocol.is_round_spent() || !self.read_once(now, cx)? {
                break;
            }
            moved = true;
            self.protocol.handle_heard(self.link.heard_at);
            while let Some(frame) = self.next_frame()? {
                self.handle_frame(frame, cx)?;
                if self.protocol.is_round_spent() {
                    self.link.end_round();
                }
            }
            if self.link.part_to_read().is_none() {
                break;
            }
        }
        if moved {
            // It need not be asked for a sign of life for a while.
            self.timeout = self.timeout.and_then(|_| self.protocol.next_timeout());
            self.act(cx)?;
        }
        Ok(moved)
    }

    /// Reads what has arrived, and bytes of a part to where they belong.
    fn read_once(&mut self, now: Instant, cx: &mut Commons) -> Result<bool> {
        if let Some(part) = self.link.part_to_read()
            && let Some(place) = self.protocol.place_of(part)
        {
            return self.read_part(part, &place, now, cx);
        }
        self.link.read(now).map_err(|error| self.link_error(error))
    }

    fn next_frame(&mut self) -> Result<Option<Frame>> {
        self.link.next_of_round().map_err(|error| self.link_error(error))
    }

    /// Everything that calls the plugin.
    fn drive_comms(&mut self, cx: &mut Commons) -> Result<bool> {
        let mut moved = false;
        // After a goodbye its end is no fault.
        let setup = self.setup.as_ref().filter(|_| self.protocol.is_setting_up());
        if let Some(news) = setup.map_or(Ok(None), CommSetup::poll)? {
            if let Some(handles) = news.listening {
                let handles = handles.into_iter().map(|handle| ChannelHandle(handle.0));
                self.protocol.handle_listening(handles.collect());
            }
            if let Some(credit) = news.accepted {
                self.protocol.handle_comms_accepted(credit);
            }
            if news.is_connected {
                self.protocol.handle_comms_connected();
            }
            self.act(cx)?;
            moved = true;
        }
        moved |= self.settle_staging(cx)?;
        let Commons { session, ledger, batch, .. } = cx;
        let registrations = &mut ledger.registrations;
        for lane in &mut self.send_lanes {
            moved |= lane.progress(registrations, batch, &mut self.finished)?.moved;
        }
        for lane in &mut self.recv_lanes {
            moved |= lane.progress(registrations, batch, &session.memory)?.moved;
        }
        self.tell_finished(cx)?;
        Ok(moved)
    }

    /// Gives slots back whose unpack has finished, and posts what was gathered.
    pub(super) fn consume(
        &mut self,
        now: Instant,
        finished: BatchNumber,
        cx: &mut Commons,
    ) -> Result<bool> {
        if self.deferred.is_some() {
            return Ok(false);
        }
        match self.use_finished(finished, cx) {
            Ok(moved) => {
                self.tell_finished(cx)?;
                let moved = moved | self.renew_credit(cx)?;
                // Whoever has waited for this may be the last to make a round for a while.
                Ok(moved | self.flush()?)
            }
            Err(error) => self.defer(error, now, cx),
        }
    }

    fn use_finished(&mut self, finished: BatchNumber, cx: &mut Commons) -> Result<bool> {
        let mut moved = false;
        for lane in &mut self.send_lanes {
            moved |= lane.post_gathered(&mut cx.ledger.registrations, finished)?;
        }
        for lane in &mut self.recv_lanes {
            moved |= lane.consume(finished, &mut self.finished)?;
        }
        Ok(moved)
    }

    /// The plugin has failed: no more calls of it for this peer, and its end unless the link may
    /// know more. What was done before counts.
    pub(super) fn defer(&mut self, error: Error, now: Instant, cx: &mut Commons) -> Result<bool> {
        self.tell_finished(cx)?;
        self.deferred = Some(DeferredFailure::new(error, now)?);
        Ok(true)
    }

    /// Tells the protocol of chunks that are done.
    fn tell_finished(&mut self, cx: &mut Commons) -> Result<()> {
        if self.finished.is_empty() {
            return Ok(());
        }
        let transfers = &mut cx.ledger.transfers;
        for finished in self.finished.drain(..) {
            match &finished {
                Finished::Parts { transfer, chunks, bytes, .. } => {
                    transfers.chunks_done(*transfer, *chunks, *bytes);
                }
                Finished::Together(members) => {
                    for member in members {
                        transfers.chunks_done(member.transfer, 1, member.bytes);
                    }
                }
            }
            self.protocol.handle_finished(finished);
        }
        self.act(cx)
    }

    /// Whether so many operations may be posted now.
    ///
    /// # Errors
    /// [`Error::PeerState`], [`Error::PeerGone`].
    pub(crate) fn check_posts(&self, direction: Direction, count: usize) -> Result<()> {
        self.protocol.check_posts(direction, count).map_err(|error| match error {
            PostError::NotUp => self.not_up(),
            PostError::TooManyReceives => Error::PeerState {
                peer: self.name.to_string(),
                state: "behind with its sends",
                cure: "wait for some of the 4,194,304 receives that it has not matched",
            },
        })
    }

    /// Makes room for so many operations, which are posted next.
    ///
    /// # Errors
    /// [`MemoryUnavailable::Operations`]. Nothing has changed then.
    pub(crate) fn make_room(&mut self, direction: Direction, count: usize) -> Result<()> {
        let (link, protocol) = (&mut self.link, &mut self.protocol);
        let made = link
            .reserve(protocol.frame_bytes(direction, count))
            .and_then(|()| room_for_plans(protocol, direction, count))
            .and_then(|for_plans| protocol.make_room(direction, count).map(|()| drop(for_plans)));
        made.map_err(|_| {
            link.give_room_back();
            protocol.give_room_back();
            Error::MemoryUnavailable(MemoryUnavailable::Operations { count })
        })
    }

    /// Posts operations, which [`check_posts`](Self::check_posts) allows and
    /// [`make_room`](Self::make_room) has made room for. All are posted also where it fails: they
    /// end with the peer.
    pub(crate) fn post(&mut self, operations: &[NewOperation], cx: &mut Commons) -> Result<()> {
        let (mut rest, mut outcome) = (operations, Ok(()));
        self.protocol.handle_batch_of(operations.len());
        while !rest.is_empty() {
            let portion = rest.split_off(..rest.len().min(PORTION)).unwrap_or_default();
            for operation in portion {
                cx.ledger.registrations.begin(operation.span.registration);
                self.protocol.handle_post(*operation);
            }
            // Messages of all portions may share chunks.
            self.protocol.handle_batch(!rest.is_empty());
            if outcome.is_ok() {
                outcome = self.act(cx);
            }
        }
        outcome
    }

    /// Why nothing can be posted to this peer, if nothing can.
    pub(crate) fn check_up(&self) -> Result<()> {
        if self.protocol.stage() == PeerStage::Up { Ok(()) } else { Err(self.not_up()) }
    }

    /// Why no operations and notifications go to this peer, now or when it is up, if none do.
    pub(super) fn check_requests(&self) -> Result<()> {
        match self.protocol.stage() {
            PeerStage::Connecting => Ok(()),
            _ => self.check_up(),
        }
    }

    fn not_up(&self) -> Error {
        match self.protocol.stage() {
            PeerStage::Closing { peer_left: true } => self.gone(Departure::Goodbye, Phase::Send),
            _ => Error::PeerState {
                peer: self.name.to_string(),
                state: self.protocol.state(),
                cure: "post transfers while it is up",
            },
        }
    }

    /// What of a transfer has no counterpart.
    pub(crate) fn unmatched(&self, transfer: TransferKey) -> Unmatched {
        self.protocol.unmatched(transfer)
    }

    /// Withdraws operations of a transfer that have no counterpart.
    pub(super) fn cancel(&mut self, transfer: TransferKey, cx: &mut Commons) -> Result<()> {
        self.protocol.handle_cancel(transfer);
        self.act(cx)
    }

    /// A transfer has taken too long: gives up what can be given up.
    pub(crate) fn overdue(&mut self, transfer: TransferKey, cx: &mut Commons) -> Result<()> {
        self.protocol.handle_overdue(transfer);
        self.act(cx)
    }

    /// An accept has asked for the peer.
    pub(super) fn named(&mut self, cx: &mut Commons) -> Result<()> {
        self.protocol.handle_named();
        self.act(cx)
    }

    /// The program leaves.
    pub(super) fn disconnect(&mut self, cx: &mut Commons) -> Result<Leaving> {
        let leaving = self.protocol.handle_disconnect();
        self.act(cx)?;
        Ok(leaving)
    }

    /// Sends what the kernel takes. Returns whether any byte moved.
    pub(super) fn flush(&mut self) -> Result<bool> {
        self.link.flush().map_err(|error| self.link_error(error))
    }

    /// Chunks of its lanes that were sent so far, and that have arrived.
    pub(super) fn chunks(&self) -> [u64; 2] {
        let sent = self.send_lanes.iter().map(|lane| lane.stats.chunks).sum();
        [sent, self.recv_lanes.iter().map(RecvLane::chunks_arrived).sum()]
    }

    /// Adds what has ended since the last time.
    pub(super) fn note_ended(&mut self, ended: &mut Activity) {
        let [sent, arrived] = self.chunks();
        let [sent_before, arrived_before] = std::mem::replace(&mut self.chunks, [sent, arrived]);
        ended.sending |= sent != sent_before;
        ended.receiving |= arrived != arrived_before;
    }

    /// Makes calls of the handles that these comms gave out.
    pub(crate) fn take_back(&self, handles: &mut ReturnedHandles) {
        self.send_lanes.iter().for_each(|lane| handles.take_back(lane.id, lane.comm()));
        self.recv_lanes.iter().for_each(|lane| handles.take_back(lane.id, lane.comm()));
    }

    fn phase(&self) -> Phase {
        phase_of(self.protocol.stage())
    }

    pub(super) fn gone(&self, how: Departure, phase: Phase) -> Error {
        Error::PeerGone { peer: self.name.to_string(), phase, how }
    }

    pub(super) fn link_error(&self, error: LinkError) -> Error {
        match error {
            LinkError::Gone(how) => self.gone(how, self.phase()),
            LinkError::Frame(error) => self.protocol_error(error.to_string()),
        }
    }

    pub(super) fn protocol_error(&self, detail: String) -> Error {
        Error::Protocol { peer: self.name.to_string(), detail }
    }
}

/// As much memory as the plans of a large batch of sends take, where receives for it are announced:
/// they wait on the lanes, in lists that grow plan by plan. It is let go before they are made.
fn room_for_plans(
    protocol: &PeerProtocol,
    direction: Direction,
    count: usize,
) -> std::result::Result<Vec<u8>, TryReserveError> {
    let mut room = Vec::new();
    let matched = if direction == Direction::Send { protocol.matched_by(count) } else { 0 };
    // Of a long batch few may be matched, and what it needs beside leaves nothing for these.
    if matched > 0 && count > PORTION {
        // A list that grows may have room for as many again.
        let each = 2 * (size_of::<Stripe>() + size_of::<Member>());
        room.try_reserve_exact(matched.max(PORTION).saturating_mul(each))?;
    }
    // What nobody uses need not be allocated, as the compiler sees it.
    Ok(std::hint::black_box(room))
}

pub(super) fn phase_of(stage: PeerStage) -> Phase {
    match stage {
        PeerStage::Connecting => Phase::Connect,
        PeerStage::Up => Phase::Receive,
        PeerStage::Closing { .. } | PeerStage::Over => Phase::Close,
    }
}
