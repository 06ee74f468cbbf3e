//! Choice of the sockets that make up the one peer of a listen comm. Pure: hellos go in, decisions
//! come out.

use tcpx_comm::wire::{ConnectionId, Hello, HelloStatus, MAX_SOCKETS, SocketRole};

/// What to do with a socket that has said hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Keep it: it is this part of the comm.
    Keep(SocketRole),
    /// Reply, then close it.
    Refuse(HelloStatus),
    /// Close it without a word: it does not know the connection id, so it gets to know nothing.
    Ignore,
}

/// The peer of one listen comm, with the sockets that have come.
#[derive(Debug)]
pub(crate) struct Pairing {
    id: ConnectionId,
    sockets: u16,
    recv_sync: bool,
    encrypted: bool,
    claim: Option<ClaimedPeer>,
}

#[derive(Debug)]
struct ClaimedPeer {
    attempt: u64,
    chunk_bytes: u32,
    attached: [bool; MAX_SOCKETS as usize],
}

impl Pairing {
    pub(crate) fn new(id: ConnectionId, sockets: u16, recv_sync: bool, encrypted: bool) -> Self {
        Self { id, sockets, recv_sync, encrypted, claim: None }
    }

    /// The first control socket that knows the id claims the comm; data sockets must be of the same
    /// attempt.
    pub(crate) fn offer(&mut self, hello: &Hello) -> Decision {
        if hello.id != self.id {
            return Decision::Ignore;
        }
        let ours = (self.sockets, self.recv_sync, self.encrypted);
        if (hello.sockets, hello.recv_sync, hello.encrypted) != ours {
            return Decision::Refuse(HelloStatus::Mismatch);
        }
        match (&mut self.claim, hello.role) {
            (None, SocketRole::Control) => {
                self.claim = Some(ClaimedPeer {
                    attempt: hello.attempt,
                    chunk_bytes: hello.chunk_bytes,
                    attached: [false; MAX_SOCKETS as usize],
                });
                Decision::Keep(SocketRole::Control)
            }
            (Some(claim), SocketRole::Data(index)) if claim.attempt == hello.attempt => {
                match claim.attached.get_mut(usize::from(index)) {
                    Some(attached) if !*attached && claim.chunk_bytes == hello.chunk_bytes => {
                        *attached = true;
                        Decision::Keep(hello.role)
                    }
                    _ => Decision::Refuse(HelloStatus::Mismatch),
                }
            }
            _ => Decision::Refuse(HelloStatus::InUse),
        }
    }

    /// The claimant is gone: the next control socket may claim the comm.
    pub(crate) fn reset(&mut self) {
        self.claim = None;
    }

    /// The peer's chunk size, once every socket is attached.
    pub(crate) fn complete(&self) -> Option<u32> {
        let claim = self.claim.as_ref()?;
        let attached = claim.attached.iter().filter(|&&attached| attached).count();
        (attached == usize::from(self.sockets)).then_some(claim.chunk_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ConnectionId = ConnectionId([3; 16]);

    fn hello(attempt: u64, role: SocketRole) -> Hello {
        let (sockets, recv_sync, encrypted) = (2, false, false);
        Hello { id: ID, attempt, role, sockets, recv_sync, encrypted, chunk_bytes: 4096 }
    }

    #[test]
    fn one_attempt_gets_all_its_sockets_in_any_order() {
        let mut pairing = Pairing::new(ID, 2, false, false);
        assert_eq!(
            pairing.offer(&hello(1, SocketRole::Control)),
            Decision::Keep(SocketRole::Control)
        );
        assert_eq!(
            pairing.offer(&hello(1, SocketRole::Data(1))),
            Decision::Keep(SocketRole::Data(1))
        );
        assert_eq!(pairing.complete(), None);
        assert_eq!(
            pairing.offer(&hello(1, SocketRole::Data(0))),
            Decision::Keep(SocketRole::Data(0))
        );
        assert_eq!(pairing.complete(), Some(4096));
    }

    #[test]
    fn other_peers_get_the_status_in_use() {
        let mut pairing = Pairing::new(ID, 2, false, false);
        let taken = Decision::Refuse(HelloStatus::InUse);
        assert_eq!(pairing.offer(&hello(1, SocketRole::Data(0))), taken, "data before control");
        pairing.offer(&hello(1, SocketRole::Control));
        assert_eq!(pairing.offer(&hello(2, SocketRole::Control)), taken);
        assert_eq!(pairing.offer(&hello(2, SocketRole::Data(0))), taken);
        pairing.reset();
        assert_eq!(
            pairing.offer(&hello(2, SocketRole::Control)),
            Decision::Keep(SocketRole::Control)
        );
    }

    #[test]
    fn strays_and_mismatches_do_not_change_the_claim() {
        let mut pairing = Pairing::new(ID, 2, false, false);
        pairing.offer(&hello(1, SocketRole::Control));
        let stray = Hello { id: ConnectionId([4; 16]), ..hello(1, SocketRole::Data(0)) };
        assert_eq!(pairing.offer(&stray), Decision::Ignore);
        let mismatch = Decision::Refuse(HelloStatus::Mismatch);
        assert_eq!(pairing.offer(&Hello { sockets: 3, ..hello(1, SocketRole::Data(0)) }), mismatch);
        assert_eq!(
            pairing.offer(&Hello { recv_sync: true, ..hello(1, SocketRole::Data(0)) }),
            mismatch
        );
        assert_eq!(
            pairing.offer(&Hello { encrypted: true, ..hello(1, SocketRole::Data(0)) }),
            mismatch
        );
        assert_eq!(
            pairing.offer(&Hello { chunk_bytes: 5, ..hello(1, SocketRole::Data(0)) }),
            mismatch
        );
        pairing.offer(&hello(1, SocketRole::Data(0)));
        assert_eq!(
            pairing.offer(&hello(1, SocketRole::Data(0))),
            mismatch,
            "the same socket twice"
        );
        pairing.offer(&hello(1, SocketRole::Data(1)));
        assert_eq!(pairing.complete(), Some(4096));
    }
}
