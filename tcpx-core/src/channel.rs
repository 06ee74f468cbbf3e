//! A channel: one lane of chunks each way between two peers, each with its comm and its window.

mod gather;
mod recv;
mod send;

pub(crate) use recv::RecvLane;
pub(crate) use send::SendLane;
