//! What is left of a peer that ended: comms that are being closed, and what they and copies under
//! way still use.

use std::sync::Arc;

use tcpx_protocol::exports::joint_uses::ExportKey;
use tcpx_protocol::peer::operation::PostedOperation;
use tcpx_protocol::plans::pieces::Pieces;
use tcpx_protocol::types::{Direction, RegistrationKey, TransferKey};

use crate::transfer::batch::BatchNumber;
use crate::transfer::recv_lane::RecvLane;
use crate::workers::ticket::Ticket;

/// An operation with a list that has not ended.
#[derive(Debug)]
pub(crate) struct LeftList {
    pub(crate) pieces: Arc<Pieces>,
    pub(crate) whose: Whose,
}

/// Whose operation it is.
#[derive(Debug)]
pub(crate) enum Whose {
    /// This end's program has posted it.
    Own { transfer: TransferKey, direction: Direction },
    /// The peer has asked for it, and it uses these exports.
    Peers(Arc<[ExportKey]>),
}

#[derive(Debug)]
pub(crate) struct Leftover {
    /// Lanes whose chunks are being unpacked. Their comms close after that.
    pub(crate) lanes: Vec<RecvLane>,
    /// Of the other comms, which are being closed.
    pub(crate) tickets: Vec<Ticket>,
    pub(crate) stagings: Vec<RegistrationKey>,
    /// Operations whose memory a comm or a copy may still write or read.
    pub(crate) operations: Vec<PostedOperation>,
    /// The same with lists, of this end's programs and of its peer's.
    pub(crate) listed: Vec<LeftList>,
    /// The batch after which no copy uses any of it.
    pub(crate) until: BatchNumber,
}
