//! Description of what a wait was missing when its deadline passed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tcpx_protocol::types::Direction;

/// Time of silence that the text mentions.
const NOTABLE_SILENCE: Duration = Duration::from_secs(1);

/// Numbers and states at the moment when a deadline passed. They become words only when they are
/// read, because many programs ask with a deadline of zero, again and again.
#[derive(Clone, Debug)]
pub struct Awaited(Box<Kind>);

#[derive(Clone, Debug)]
enum Kind {
    Peer(AwaitedPeer),
    Transfer(AwaitedTransfer, AwaitedPeer),
    Words(String),
}

/// Peer at that moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AwaitedPeer {
    pub(crate) state: &'static str,
    /// Time for which nothing was heard of the peer.
    pub(crate) silence: Option<Duration>,
}

/// NIC of this host that is down, and the first channel over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DownNic {
    pub(crate) channel: usize,
    pub(crate) nic: Arc<str>,
}

/// Transfer at that moment: the numbers of its round, and the operations without a counterpart.
#[derive(Clone, Debug)]
pub(crate) struct AwaitedTransfer {
    pub(crate) operations_done: u64,
    pub(crate) operations_posted: u64,
    pub(crate) chunks_done: u64,
    pub(crate) chunks_posted: u64,
    pub(crate) unmatched: usize,
    /// Direction and tag of the oldest unmatched operation, unless all of them are being withdrawn.
    pub(crate) oldest: Option<(Direction, i64)>,
    /// NIC whose failure may keep the transfer from being complete.
    pub(crate) down: Option<DownNic>,
}

impl Awaited {
    /// Makes the value for a peer that was to come up, or to answer.
    pub(crate) fn peer(peer: AwaitedPeer) -> Self {
        Self(Box::new(Kind::Peer(peer)))
    }

    /// Makes the value for a transfer with a peer that was to be complete.
    pub(crate) fn transfer(transfer: AwaitedTransfer, peer: AwaitedPeer) -> Self {
        Self(Box::new(Kind::Transfer(transfer, peer)))
    }

    /// Returns whether a NIC of this host was down.
    pub(crate) fn is_nic_down(&self) -> bool {
        matches!(&*self.0, Kind::Transfer(AwaitedTransfer { down: Some(_), .. }, _))
    }

    /// Makes the value from words, for requests that are rare enough to format at once.
    pub(crate) fn words(words: impl Into<String>) -> Self {
        Self(Box::new(Kind::Words(words.into())))
    }
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Peer(peer) => write!(f, "{peer}"),
            Kind::Transfer(transfer, peer) => {
                write!(f, "{transfer}; peer is {peer}")?;
                transfer.down.as_ref().map_or(Ok(()), |down| write!(f, "; {down}"))
            }
            Kind::Words(words) => f.write_str(words),
        }
    }
}

impl fmt::Display for AwaitedPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.state)?;
        match self.silence.filter(|silence| *silence >= NOTABLE_SILENCE) {
            Some(silence) => {
                write!(f, "; nothing was heard of it for {:.1} s", silence.as_secs_f64())
            }
            None => Ok(()),
        }
    }
}

impl fmt::Display for DownNic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "channel {} is over NIC {}, which is down", self.channel, self.nic)
    }
}

impl fmt::Display for AwaitedTransfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operations_done, operations_posted, chunks_done, chunks_posted, .. } = self;
        write!(
            f,
            "{operations_done} of {operations_posted} operations and {chunks_done} of \
             {chunks_posted} chunks are done, {} operations have no counterpart",
            self.unmatched
        )?;
        match self.oldest {
            Some((Direction::Send, tag)) => {
                write!(f, ": the send with tag {tag} waits for the peer's receive")
            }
            Some((Direction::Receive, tag)) => {
                write!(f, ": the receive with tag {tag} waits for the peer's send")
            }
            None if self.unmatched > 0 => f.write_str(": they are being withdrawn"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_words() {
        let peer =
            |seconds| AwaitedPeer { state: "up", silence: Some(Duration::from_secs(seconds)) };
        let transfer = |unmatched, oldest| AwaitedTransfer {
            operations_done: 1,
            operations_posted: 3,
            chunks_done: 4,
            chunks_posted: 5,
            unmatched,
            oldest,
            down: None,
        };
        let down = Some(DownNic { channel: 2, nic: "eth1".into() });
        let begin = "1 of 3 operations and 4 of 5 chunks are done,";
        for (awaited, text) in [
            (Awaited::peer(peer(0)), "up".to_owned()),
            (Awaited::peer(peer(2)), "up; nothing was heard of it for 2.0 s".to_owned()),
            (
                Awaited::transfer(transfer(2, Some((Direction::Send, -7))), peer(0)),
                format!(
                    "{begin} 2 operations have no counterpart: the send with tag -7 waits for the \
                     peer's receive; peer is up"
                ),
            ),
            (
                Awaited::transfer(transfer(1, Some((Direction::Receive, 8))), peer(0)),
                format!(
                    "{begin} 1 operations have no counterpart: the receive with tag 8 waits for \
                     the peer's send; peer is up"
                ),
            ),
            (
                Awaited::transfer(transfer(1, None), peer(0)),
                format!(
                    "{begin} 1 operations have no counterpart: they are being withdrawn; peer is up"
                ),
            ),
            (
                Awaited::transfer(transfer(0, None), peer(0)),
                format!("{begin} 0 operations have no counterpart; peer is up"),
            ),
            (
                Awaited::transfer(AwaitedTransfer { down, ..transfer(0, None) }, peer(0)),
                format!(
                    "{begin} 0 operations have no counterpart; peer is up; channel 2 is over NIC \
                     eth1, which is down"
                ),
            ),
            (Awaited::words("no goodbye"), "no goodbye".to_owned()),
        ] {
            assert_eq!(awaited.to_string(), text);
        }
    }
}
