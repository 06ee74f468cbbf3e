//! Memory as both ends speak of it: its owner, the host or a GPU; the number by which a program
//! knows a registration; the kind of an operation on memory of the other end; and the access that
//! an export allows.
//!
//! The last two bytes of the id of a session, as a hello names it, say which device it is. The
//! host's are 0, and so are those of a session of one device. So a remote key says where it leads,
//! and the connection info of a session is that of all its devices, before they are used. The upper
//! 16 bits of the id of a registration say the device likewise.

use std::fmt;
use std::num::NonZeroU64;

use super::{Access, Direction};

/// Memory of a machine: of the host, or of one of its devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Device {
    /// The host's.
    #[default]
    Host,
    /// Memory of the GPU with this CUDA ordinal.
    Gpu(u32),
}

/// Longest end of the name of a peer's GPU.
pub const LONGEST_SUFFIX: usize = "/gpu65534".len();
/// Registrations of a device have ids of their own: these bits say which.
const ID_SHIFT: u32 = 48;

impl Device {
    /// Returns the number that stands for it in ids of sessions: 0 for the host, which is also that
    /// of sessions of one device. `None`: no machine has such a GPU.
    pub fn number(self) -> Option<u16> {
        match self {
            Self::Host => Some(0),
            Self::Gpu(ordinal) => u16::try_from(ordinal).ok()?.checked_add(1),
        }
    }

    /// Returns the device with this number.
    pub fn from_number(number: u16) -> Self {
        match number.checked_sub(1) {
            None => Self::Host,
            Some(ordinal) => Self::Gpu(ordinal.into()),
        }
    }

    /// Returns the id that this device has in the session with this id.
    pub fn session_of(self, session: [u8; 16]) -> [u8; 16] {
        let mut id = session;
        id[14..].copy_from_slice(&self.number().unwrap_or(u16::MAX).to_le_bytes());
        id
    }

    /// Returns the device of the session with this id.
    pub fn of_session(id: &[u8; 16]) -> Self {
        Self::from_number(u16::from_le_bytes([id[14], id[15]]))
    }

    /// Returns how many registrations come before the first of this device.
    pub fn ids_before(self) -> u64 {
        u64::from(self.number().unwrap_or(u16::MAX)) << ID_SHIFT
    }

    /// Returns the device of the registration with this id.
    pub fn of_id(id: u64) -> Self {
        Self::from_number((id >> ID_SHIFT) as u16)
    }

    /// Returns the name that this device of a peer has for programs that call the peer `name`.
    pub fn name_in(self, name: &str) -> String {
        match self {
            Self::Host => name.to_owned(),
            Self::Gpu(_) => format!("{name}/{self}"),
        }
    }

    /// Returns the name of the peer that has a device of this name.
    pub fn peer_name(name: &str) -> &str {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        match name.rsplit_once("/gpu") {
            Some((peer, ordinal)) if is_number(ordinal) => peer,
            _ => name,
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Gpu(ordinal) => write!(f, "gpu{ordinal}"),
        }
    }
}

/// A registration of a session. Ids count from 1, and a session never uses one twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryId(NonZeroU64);

impl MemoryId {
    /// Returns the id of this number, as [`get`](Self::get) gave it; `None` for 0, which is no id.
    #[must_use]
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// Returns the device whose memory it is, in a session of all devices. Other sessions give out
    /// ids of the host.
    #[must_use]
    pub fn device(self) -> Device {
        Device::of_id(self.get())
    }

    /// Returns its number, for where a type cannot go: another language, a file, a log.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0.get()
    }

    /// Returns the id of the registration that `others` others came before.
    pub fn after(others: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(others))
    }
}

impl fmt::Display for MemoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Kind of access of a one-sided operation to the memory of the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationKind {
    /// Brings its bytes here.
    Read,
    /// Puts bytes of this end there.
    Write,
}

impl OperationKind {
    /// Returns the direction of its bytes.
    pub fn direction(self) -> Direction {
        match self {
            Self::Write => Direction::Send,
            Self::Read => Direction::Receive,
        }
    }
}

impl fmt::Display for OperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

/// Operations that peers may do with memory that is exported to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemoteAccess {
    /// Read it.
    Read,
    /// Write it, and not read it.
    Write,
    /// Both.
    ReadWrite,
}

const READ_BIT: u8 = 1;
const WRITE_BIT: u8 = 2;

impl RemoteAccess {
    /// Returns whether it allows this.
    #[must_use]
    pub fn allows(self, kind: OperationKind) -> bool {
        match kind {
            OperationKind::Read => self != Self::Write,
            OperationKind::Write => self != Self::Read,
        }
    }

    /// Returns the access that the registration of such memory must allow.
    pub fn needs(self) -> Access {
        if self.allows(OperationKind::Write) { Access::ReadWrite } else { Access::ReadOnly }
    }

    /// Returns its bits as they travel.
    pub fn to_wire(self) -> u8 {
        match self {
            Self::Read => READ_BIT,
            Self::Write => WRITE_BIT,
            Self::ReadWrite => READ_BIT | WRITE_BIT,
        }
    }

    /// Returns the access with these bits.
    pub fn from_wire(bits: u8) -> Option<Self> {
        [Self::Read, Self::Write, Self::ReadWrite]
            .into_iter()
            .find(|access| access.to_wire() == bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: [Device; 4] =
        [Device::Host, Device::Gpu(0), Device::Gpu(7), Device::Gpu(u16::MAX as u32 - 1)];

    #[test]
    fn sessions_and_registrations_say_whose_they_are() {
        let host = Device::Host.session_of([9; 16]);
        for device in SOME {
            let session = device.session_of(host);
            assert_eq!(Device::of_session(&session), device);
            assert_eq!(Device::Host.session_of(session), host, "the session stays the same");
            assert_eq!(Device::of_id(device.ids_before() + 1), device);
        }
        assert_eq!((Device::Host.number(), Device::Host.ids_before()), (Some(0), 0));
        assert_eq!(Device::Gpu(u16::MAX.into()).number(), None);
    }

    #[test]
    fn names_lead_from_a_peer_to_its_devices_and_back() {
        for device in SOME {
            let name = device.name_in("decode");
            assert_eq!(Device::peer_name(&name), "decode");
        }
        assert_eq!(Device::Gpu(3).name_in("decode"), "decode/gpu3");
        for other in ["decode/gpu", "decode/gpu3x", "gpu3", "decode/3"] {
            assert_eq!(Device::peer_name(other), other);
        }
    }

    #[test]
    fn ids_count_from_one_and_show_as_their_number() {
        assert_eq!(MemoryId::new(0), None);
        assert_eq!(MemoryId::new(1), Some(MemoryId::after(0)));
        assert_eq!((MemoryId::after(41).get(), MemoryId::after(41).to_string()), (42, "42".into()));
        assert!(MemoryId::after(1) < MemoryId::after(2));
    }

    #[test]
    fn what_is_not_allowed_is_refused_and_writing_needs_memory_to_write() {
        use OperationKind::{Read, Write};
        for (access, allowed, needs, bits) in [
            (RemoteAccess::Read, [true, false], Access::ReadOnly, 1),
            (RemoteAccess::Write, [false, true], Access::ReadWrite, 2),
            (RemoteAccess::ReadWrite, [true, true], Access::ReadWrite, 3),
        ] {
            assert_eq!([Read, Write].map(|kind| access.allows(kind)), allowed);
            assert_eq!((access.needs(), access.to_wire()), (needs, bits));
            assert_eq!(RemoteAccess::from_wire(bits), Some(access));
        }
        assert_eq!((RemoteAccess::from_wire(0), RemoteAccess::from_wire(4)), (None, None));
        assert_eq!((Read.to_string(), Write.to_string()), ("read".into(), "write".into()));
    }
}
