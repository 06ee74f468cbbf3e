//! Whose memory it is: the host's, or a GPU's. A session of a group belongs to one.

use std::fmt;

/// Which memory of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Device {
    /// The host's.
    #[default]
    Host,
    /// That of the GPU with this CUDA ordinal.
    Gpu(u32),
}

/// Longest end of the name of a GPU's session.
pub const LONGEST_SUFFIX: usize = "/gpu65534".len();
/// Registrations of a device have ids of their own: these bits say which.
const ID_SHIFT: u32 = 48;

impl Device {
    /// The number that stands for it in ids of sessions: 0 for the host, which is also that of
    /// sessions outside groups. `None`: no machine has such a GPU.
    pub fn number(self) -> Option<u16> {
        match self {
            Self::Host => Some(0),
            Self::Gpu(ordinal) => u16::try_from(ordinal).ok()?.checked_add(1),
        }
    }

    /// The device with this number.
    pub fn from_number(number: u16) -> Self {
        match number.checked_sub(1) {
            None => Self::Host,
            Some(ordinal) => Self::Gpu(ordinal.into()),
        }
    }

    /// The id of the session of this device in the group with this id.
    pub fn session_of(self, group: [u8; 16]) -> [u8; 16] {
        let mut id = group;
        id[14..].copy_from_slice(&self.number().unwrap_or(u16::MAX).to_le_bytes());
        id
    }

    /// The device of the session with this id.
    pub fn of_session(id: &[u8; 16]) -> Self {
        Self::from_number(u16::from_le_bytes([id[14], id[15]]))
    }

    /// How many registrations come before the first of this device.
    pub fn ids_before(self) -> u64 {
        u64::from(self.number().unwrap_or(u16::MAX)) << ID_SHIFT
    }

    /// The device of the registration with this id.
    pub fn of_id(id: u64) -> Self {
        Self::from_number((id >> ID_SHIFT) as u16)
    }

    /// What a peer's session of this device is called by those who call its group `name`.
    pub fn name_in(self, name: &str) -> String {
        match self {
            Self::Host => name.to_owned(),
            Self::Gpu(_) => format!("{name}/{self}"),
        }
    }

    /// What the group is called of which a session has this name.
    pub fn group_name(name: &str) -> &str {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        match name.rsplit_once("/gpu") {
            Some((group, ordinal)) if is_number(ordinal) => group,
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

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: [Device; 4] =
        [Device::Host, Device::Gpu(0), Device::Gpu(7), Device::Gpu(u16::MAX as u32 - 1)];

    #[test]
    fn sessions_and_registrations_say_whose_they_are() {
        let group = Device::Host.session_of([9; 16]);
        for device in SOME {
            let session = device.session_of(group);
            assert_eq!(Device::of_session(&session), device);
            assert_eq!(Device::Host.session_of(session), group, "the group stays the same");
            assert_eq!(Device::of_id(device.ids_before() + 1), device);
        }
        assert_eq!((Device::Host.number(), Device::Host.ids_before()), (Some(0), 0));
        assert_eq!(Device::Gpu(u16::MAX.into()).number(), None);
    }

    #[test]
    fn names_lead_from_a_group_to_its_sessions_and_back() {
        for device in SOME {
            let name = device.name_in("decode");
            assert_eq!(Device::group_name(&name), "decode");
        }
        assert_eq!(Device::Gpu(3).name_in("decode"), "decode/gpu3");
        for other in ["decode/gpu", "decode/gpu3x", "gpu3", "decode/3"] {
            assert_eq!(Device::group_name(other), other);
        }
    }
}
