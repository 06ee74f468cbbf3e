//! Channel that is lost while work goes on over others: its chunks, and what is left of its comms.

use std::sync::Arc;

use tcpx_protocol::types::RegistrationKey;

use crate::error::Error;
use crate::stats::tcp::TcpStats;
use crate::transfer::batch::BatchNumber;
use crate::transfer::lost_lane::LostLane;
use crate::transfer::recv_lane::RecvLane;
use crate::workers::Ticket;

/// A channel that is lost.
#[derive(Debug)]
pub(super) struct LostChannel {
    pub(super) channel: u16,
    pub(super) nic: Arc<str>,
    /// Reason why this end has lost it; `None`: the other end has.
    pub(super) why: Option<Error>,
    pub(super) sends: LostLane,
    pub(super) tcp: TcpStats,
    pub(super) receives: LostLane,
    /// The lane that receives, until its chunks are unpacked.
    pub(super) unpacking: Option<Box<RecvLane>>,
    /// Batch after which no copy uses its bounce buffer and its staging buffers.
    pub(super) until: BatchNumber,
    /// Tickets of the comms that are being closed.
    pub(super) tickets: Vec<Ticket>,
    pub(super) stagings: Vec<RegistrationKey>,
    /// Whether the protocol knows that it is closed.
    pub(super) is_closed: bool,
}

impl LostChannel {
    /// Returns the loss in words.
    pub(super) fn words(&self) -> String {
        let Self { channel, nic, why, .. } = self;
        let why = why.as_ref().map_or_else(|| "the peer has lost it".into(), Error::to_string);
        format!("channel {channel}, NIC {nic}: lost, and work goes on over the others: {why}")
    }
}
