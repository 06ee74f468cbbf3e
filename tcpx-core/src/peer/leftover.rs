//! What is left of a peer that ended: comms that are being closed, and what they and copies under
//! way still use.

use super::protocol::operation::PostedOperation;
use crate::transfer::batch::BatchNumber;
use crate::transfer::recv_lane::RecvLane;
use crate::types::RegistrationKey;
use crate::workers::ticket::Ticket;

#[derive(Debug)]
pub(crate) struct Leftover {
    /// Lanes whose chunks are being unpacked. Their comms close after that.
    pub(crate) lanes: Vec<RecvLane>,
    /// Of the other comms, which are being closed.
    pub(crate) tickets: Vec<Ticket>,
    pub(crate) stagings: Vec<RegistrationKey>,
    /// Operations whose memory a comm or a copy may still write or read.
    pub(crate) operations: Vec<PostedOperation>,
    /// The batch after which no copy uses any of it.
    pub(crate) until: BatchNumber,
}
