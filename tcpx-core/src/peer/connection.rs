//! Connection of a peer whose control link is proven. It drives the link, the comms and the lanes
//! as the protocol says.

use std::sync::Arc;
use std::time::Instant;

use tcpx_protocol::peer::flow_control::FlowTerms;
use tcpx_protocol::peer::lifecycle::arrivals::Loss;
use tcpx_protocol::peer::lifecycle::stage::PeerStage;
use tcpx_protocol::peer::tags::withdrawing::Unmatched;
use tcpx_protocol::peer::{Opening, PeerProtocol, SLICE};
use tcpx_protocol::plans::stripe_queue::Finished;
use tcpx_protocol::types::{Direction, RegistrationKey, TransferKey};

use super::comm_setup::CommSetup;
use super::deferred_failure::DeferredFailure;
use super::dial_policy::DialPolicy;
use super::lanes::Lanes;
use super::lost_channel::LostChannel;
use super::message_buffers::{MessageBuffers, UnreadAnswers};
use super::session_context::SessionContext;
use crate::control::identity::{ChannelClaim, ProvenLink};
use crate::control::socket::{LinkError, LinkSocket};
use crate::error::{Departure, Error, Phase, Result};
use crate::plugin::comm::ReturnedHandles;
use crate::stats::ChannelStats;
use crate::stats::peer_transport::PeerTransport;
use crate::stats::stages::Activity;
use crate::stats::tcp::TcpStats;
use crate::transfer::link_copies::LinkCopies;
use crate::transfer::recv_lane::RecvLane;
use crate::transfer::send_lane::SendLane;
use crate::types::{PeerKey, PeerName};
use crate::workers::Ticket;

/// NIC of each channel, and counters of closed lanes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChannelRecord {
    pub(crate) nics: Vec<Arc<str>>,
    pub(crate) sends: Vec<ChannelStats>,
    pub(crate) recvs: Vec<ChannelStats>,
    /// Connections of the send lanes.
    pub(crate) tcps: Vec<TcpStats>,
    /// Channels that were lost.
    pub(crate) lost: Vec<u16>,
    /// Operations that ended with an error.
    pub(crate) errors: u64,
}

/// Comms that a worker is closing.
#[derive(Debug)]
pub(super) struct ClosingComms {
    pub(super) direction: Direction,
    pub(super) ticket: Ticket,
    /// Staging buffers that are free when the comms are closed.
    pub(super) stagings: Vec<RegistrationKey>,
}

/// Proven link, with its protocol, comms and lanes.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(super) key: PeerKey,
    pub(super) name: PeerName,
    pub(super) link: LinkSocket,
    pub(super) protocol: PeerProtocol,
    /// What carries the bytes.
    pub(super) transport: Box<PeerTransport>,
    /// Policy for the addresses of the peer's channels, until they are dialled.
    pub(super) policy: Option<DialPolicy>,
    /// Set-up of the comms, while they are being connected.
    pub(super) setup: Option<CommSetup>,
    pub(super) send_lanes: Lanes<SendLane>,
    pub(super) recv_lanes: Lanes<RecvLane>,
    /// Channels that are lost.
    pub(super) lost: Vec<LostChannel>,
    /// Failures of channels that are about to be lost.
    pub(super) failures: Vec<(u16, Error)>,
    pub(super) record: ChannelRecord,
    pub(super) closing: Option<ClosingComms>,
    /// Unexpected messages, until their receives are posted.
    pub(super) unexpected: MessageBuffers,
    /// Notifications of writes that are under way.
    pub(super) early_notes: MessageBuffers,
    /// Buffer in which several pieces are gathered for the link.
    pub(super) scratch: Vec<u8>,
    pub(super) unread_answers: UnreadAnswers,
    /// Finished chunks that the protocol does not know of yet.
    pub(super) finished: Vec<Finished>,
    /// Chunks that were sent, and that arrived, when the last round ended.
    chunks: [u64; 2],
    /// Copies of the link, and what waits for them.
    pub(super) copies: LinkCopies,
    pub(super) deferred: Option<DeferredFailure>,
    /// Time at which the protocol wants to be called next.
    pub(super) timeout: Option<Instant>,
    /// Claim on the number of channels, as long as the comms are open.
    _channels: ChannelClaim,
}

impl Connection {
    /// Makes a connection of a proven link. Channels are dialled only where the policy allows it.
    pub(super) fn new(
        key: PeerKey,
        name: &PeerName,
        proven: ProvenLink,
        policy: DialPolicy,
        now: Instant,
        session: &SessionContext,
    ) -> Self {
        let transport = session.transport_of(&proven);
        let ProvenLink { link, agreement, channels, .. } = proven;
        let opening = Opening {
            agreement,
            tuning: session.tuning(&agreement),
            one_sided: session.one_sided_terms(agreement.note_bytes),
            peer_timeout: session.options.peer_timeout,
            is_named: name.is_bound(),
            connect_timeout: session.options.connect_timeout,
            kept: FlowTerms::new(&session.kept),
            slice: SLICE,
        };
        Self {
            key,
            name: name.clone(),
            link,
            protocol: PeerProtocol::new(opening, now),
            record: ChannelRecord::default(),
            transport: Box::new(transport),
            policy: Some(policy),
            setup: None,
            send_lanes: Lanes::default(),
            recv_lanes: Lanes::default(),
            lost: Vec::new(),
            failures: Vec::new(),
            closing: None,
            unexpected: MessageBuffers::default(),
            early_notes: MessageBuffers::default(),
            scratch: Vec::new(),
            unread_answers: UnreadAnswers::default(),
            finished: Vec::new(),
            chunks: [0; 2],
            copies: LinkCopies::default(),
            deferred: None,
            timeout: Some(now),
            _channels: channels,
        }
    }

    /// Checks that operations can be posted to this peer. Fails with the reason if none can.
    pub(crate) fn check_up(&self) -> Result<()> {
        if self.protocol.stage() == PeerStage::Up { Ok(()) } else { Err(self.not_up()) }
    }

    /// Checks that operations and notifications go to this peer, now or when it is up. Fails with
    /// the reason if none do.
    pub(super) fn check_requests(&self) -> Result<()> {
        match self.protocol.stage() {
            PeerStage::Connecting => Ok(()),
            _ => self.check_up(),
        }
    }

    pub(super) fn not_up(&self) -> Error {
        match self.protocol.stage() {
            PeerStage::Closing { peer_left: true } => self.gone(Departure::Goodbye, Phase::Send),
            _ => Error::PeerState {
                peer: self.name.to_string(),
                state: self.protocol.state(),
                cure: "post transfers while it is up",
            },
        }
    }

    /// Returns the operations of a transfer that have no counterpart.
    pub(crate) fn unmatched(&self, transfer: TransferKey) -> Unmatched {
        self.protocol.unmatched(transfer)
    }

    /// Sends what the kernel takes. Returns whether any byte moved.
    pub(super) fn flush(&mut self) -> Result<bool> {
        self.link.flush().or_else(|error| self.link_ended(error).map(|()| false))
    }

    /// Returns the number of chunks that were sent so far, and that have arrived.
    pub(super) fn chunks(&self) -> [u64; 2] {
        let sent = self.send_lanes.iter().map(|lane| lane.stats.chunks).sum();
        [sent, self.recv_lanes.iter().map(RecvLane::chunks_arrived).sum()]
    }

    /// Adds the activity that has ended since the last call.
    pub(super) fn note_ended(&mut self, ended: &mut Activity) {
        let [sent, arrived] = self.chunks();
        let [sent_before, arrived_before] = std::mem::replace(&mut self.chunks, [sent, arrived]);
        ended.sending |= sent != sent_before;
        ended.receiving |= arrived != arrived_before;
    }

    /// Converts the handles that the comms of this connection gave out to calls.
    pub(crate) fn take_back(&self, handles: &mut ReturnedHandles) {
        self.send_lanes.iter().for_each(|lane| handles.take_back(lane.id, lane.comm()));
        self.recv_lanes.iter().for_each(|lane| handles.take_back(lane.id, lane.comm()));
    }

    pub(super) fn phase(&self) -> Phase {
        phase_of(self.protocol.stage())
    }

    pub(super) fn gone(&self, how: Departure, phase: Phase) -> Error {
        Error::PeerGone { peer: self.name.to_string(), phase, how }
    }

    pub(super) fn error_of_loss(&self, loss: Loss, phase: Phase) -> Error {
        let Loss { channel, sent, arrived, waited } = loss;
        self.gone(Departure::ChunksLost { channel, sent, arrived, waited }, phase)
    }

    /// Handles the end of the link. Returns it as an error, unless the peer may have left in order.
    pub(super) fn link_ended(&mut self, error: LinkError) -> Result<()> {
        let is_closed = error == LinkError::Gone(Departure::LinkClosed);
        if is_closed && self.protocol.handle_link_closed() {
            return Ok(());
        }
        Err(self.link_error(error))
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

pub(super) fn phase_of(stage: PeerStage) -> Phase {
    match stage {
        PeerStage::Connecting => Phase::Connect,
        PeerStage::Up => Phase::Receive,
        PeerStage::Closing { .. } | PeerStage::Over => Phase::Close,
    }
}
