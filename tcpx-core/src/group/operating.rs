//! Operations between devices of a group and of its peers.

use tcpx_protocol::error::remote_problem::RemoteProblem;
use tcpx_protocol::exports::remote_range::RemoteRange;
use tcpx_protocol::types::device::Device;
use tcpx_protocol::types::remote_access::OperationKind;

use super::Group;
use super::splitting::{DevicePair, only_pair, split};
use crate::error::{Error, Result};
use crate::session::Session;
use crate::session::operation::Operation;
use crate::session::operation::part::Part;
use crate::transfer::memory_range::MemoryRange;

impl Group {
    /// As [`Session::prepare`](crate::Session::prepare), of any devices at both ends, in all four
    /// ways: host or GPU here, host or GPU there; but no hardware plugin receives into memory of a
    /// host.
    ///
    /// Ranges of several devices are one operation all the same: its bytes go between each two
    /// devices by themselves, side by side, and it is done when all are. A notification comes after
    /// all bytes, with those that are sent last: a few, which take another round trip. When
    /// something fails between two devices the rest is given up, and the operation ends with that
    /// error once nothing of it uses memory.
    ///
    /// The first post between two devices connects them, and waits for that. Errors name the peer
    /// with the device, "decode/gpu1", and for ranges of several devices also the one here:
    /// "decode/gpu1 from gpu0".
    ///
    /// # Errors
    /// As there; [`Error::UnknownPeer`] for one whose connection info was not loaded, and that has
    /// not connected these devices itself.
    pub fn prepare(
        &self,
        peer: &str,
        kind: OperationKind,
        local: &[MemoryRange],
        remote: &[RemoteRange<'_>],
    ) -> Result<Operation> {
        if let Some((here, there)) = only_pair(local, remote) {
            let prepare =
                |name: &str, session: &Session| session.prepare(name, kind, local, remote);
            return self.with_pair(peer, (here, there), local.first(), prepare);
        }
        let parts = split(kind, local, remote).map_err(|problem| refused(peer, problem))?;
        let mut prepared = Vec::new();
        for part in parts {
            match self.prepare_part(peer, kind, &part) {
                Ok(ready) => prepared.push(ready),
                // Its ranges are empty, and were checked.
                Err(Error::Remote { problem: RemoteProblem::Nothing, .. }) => {}
                Err(error) => return Err(part.place(error).of_device(part.here)),
            }
        }
        self.front.join(peer, kind, prepared)
    }

    fn prepare_part(&self, peer: &str, kind: OperationKind, of: &DevicePair<'_>) -> Result<Part> {
        let DevicePair { here, there, local, remote, .. } = of;
        self.with_pair(peer, (*here, *there), local.first(), |name, session| {
            session.prepare_part(name, kind, local, remote, *here)
        })
    }

    /// Does something with the session of a device here, which knows the way to one there.
    fn with_pair<T>(
        &self,
        peer: &str,
        (here, there): (Device, Device),
        local: Option<&MemoryRange>,
        call: impl FnOnce(&str, &Session) -> Result<T>,
    ) -> Result<T> {
        let (called, info) = self.members.names.way(peer, there);
        let name = there.name_in(&called);
        let prepare = |session: &Session| {
            if let Some(info) = info {
                session.know(&name, info)?;
            }
            call(&name, session)
        };
        self.with_known(here, prepare, || match local {
            Some(range) => Error::UnknownRegistration { id: range.memory },
            None => Error::Closed,
        })
    }
}

/// The error of ranges that make no operation with this peer.
fn refused(peer: &str, problem: RemoteProblem) -> Error {
    Error::Remote { peer: Some(peer.to_owned()), memory: None, problem }
}
