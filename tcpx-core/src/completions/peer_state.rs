//! What a peer is up to, as a program may ask at any time.

use crate::error::Error;

/// What a peer is up to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PeerState {
    /// An accept waits for it.
    Accepting,
    /// It is being reached, or has come in, and is not up yet.
    Connecting,
    /// It is up: transfers can be made.
    Up,
    /// This end has said goodbye, and waits for the peer's.
    Leaving,
    /// It was up and has said goodbye. Its name is free.
    Parted,
    /// The last attempt with the name has failed, or the peer has ended. The name is free.
    Failed(Error),
}
