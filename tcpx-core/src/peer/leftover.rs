//! What cannot be closed or freed yet when a peer ends: chunks of it are being unpacked or
//! gathered.

use super::protocol::operation::Operation;
use crate::transfer::batch::BatchNumber;
use crate::transfer::recv_lane::RecvLane;
use crate::types::RegistrationKey;

#[derive(Debug)]
pub(crate) struct Leftover {
    pub(crate) lanes: Vec<RecvLane>,
    /// Staging buffers whose comms are closed.
    pub(crate) stagings: Vec<RegistrationKey>,
    /// Operations whose memory is still written or read.
    pub(crate) operations: Vec<Operation>,
    /// The batch that ends it.
    pub(crate) until: BatchNumber,
}
