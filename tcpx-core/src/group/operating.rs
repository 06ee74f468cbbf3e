//! Operations between devices of a group and of its peers, and notifications.

use super::Group;
use crate::completions::notification::Notification;
use crate::error::{Error, RemoteProblem, Result};
use crate::exports::remote_range::RemoteRange;
use crate::session::Session;
use crate::session::operation::Operation;
use crate::transfer::memory_range::MemoryRange;
use crate::types::device::Device;
use crate::types::remote_access::OperationKind;

impl Group {
    /// As [`Session::prepare`](crate::Session::prepare), between one device of this group and one
    /// of the peer: those that the ranges lie on. In all four ways: host or GPU here, host or GPU
    /// there; but no hardware plugin receives into memory of a host.
    ///
    /// The first post between two devices connects them, and waits for that. Errors name the peer
    /// with the device: "decode/gpu1".
    ///
    /// # Errors
    /// As there; [`RemoteProblem::SeveralDevices`] for ranges of several devices on one side;
    /// [`Error::UnknownPeer`] for one whose connection info was not loaded, and that has not
    /// connected these devices itself.
    pub fn prepare(
        &self,
        peer: &str,
        kind: OperationKind,
        local: &[MemoryRange],
        remote: &[RemoteRange<'_>],
    ) -> Result<Operation> {
        let here = local.iter().map(|range| Self::device_of(range.memory));
        let there = remote.iter().map(|range| Device::of_session(&range.key.session));
        let several = || {
            let (peer, problem) = (Some(peer.to_owned()), RemoteProblem::SeveralDevices);
            Error::Remote { peer, memory: None, problem }
        };
        let here = only(here).ok_or_else(several)?;
        let there = only(there).ok_or_else(several)?;
        let name = there.name_in(peer);
        let prepare = |session: &Session| {
            if let Some(info) = self.members.names.info(peer, there) {
                session.know(&name, info)?;
            }
            session.prepare(&name, kind, local, remote)
        };
        let id = local.first().map(|range| range.memory);
        self.with_known(here, prepare, || match id {
            Some(id) => Error::UnknownRegistration { id },
            None => Error::Closed,
        })
    }

    /// As [`Session::notify`](crate::Session::notify).
    ///
    /// # Errors
    /// As there.
    pub fn notify(&self, peer: &str, bytes: &[u8]) -> Result<()> {
        self.front.notify(peer, bytes)
    }

    /// As [`Session::poll_notifications`](crate::Session::poll_notifications), of all devices of
    /// all peers. Those of [`notify`](Self::notify) come in the order in which the peer has sent
    /// them.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn poll_notifications(
        &self,
        notifications: &mut Vec<Notification>,
        most: usize,
    ) -> Result<usize> {
        self.poll_notifications_within(notifications, most, usize::MAX)
    }

    /// As [`Session::poll_notifications_within`](crate::Session::poll_notifications_within).
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn poll_notifications_within(
        &self,
        notifications: &mut Vec<Notification>,
        most: usize,
        most_bytes: usize,
    ) -> Result<usize> {
        let before = notifications.len();
        self.front.poll_notifications_within(notifications, most, most_bytes)?;
        for member in self.members.all() {
            let taken = &notifications[before..];
            let room = most_bytes - taken.iter().map(|note| note.bytes.len()).sum::<usize>();
            let most = most - taken.len();
            member.poll_notifications_within(notifications, most, room)?;
        }
        for note in &mut notifications[before..] {
            let length = Device::group_name(&note.peer).len();
            note.peer.truncate(length);
        }
        Ok(notifications.len() - before)
    }
}

/// The one device that there is; the host, if there is none.
fn only(mut devices: impl Iterator<Item = Device>) -> Option<Device> {
    let first = devices.next().unwrap_or_default();
    devices.all(|device| device == first).then_some(first)
}
