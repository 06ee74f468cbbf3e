//! Identity of a NIC: its name and its number.

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::error::DevmemError;

/// NIC of this process's network namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Nic {
    name: String,
    ifindex: u32,
}

impl Nic {
    /// Looks the NIC up by its name.
    ///
    /// # Errors
    /// Returns [`DevmemError::NoNic`], or the system's error.
    pub fn named(name: &str) -> Result<Self, DevmemError> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None);
        let socket = socket.map_err(|error| DevmemError::System {
            what: "a socket cannot be made",
            source: error.into(),
        })?;
        match name_to_index(&socket, name) {
            Ok(ifindex) => Ok(Self { name: name.to_owned(), ifindex }),
            Err(_) => Err(DevmemError::NoNic { nic: name.to_owned() }),
        }
    }

    /// Returns the name of the NIC.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of the NIC.
    #[must_use]
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_number_one() {
        let nic = Nic::named("lo").expect("every namespace has one");
        assert_eq!((nic.name(), nic.ifindex()), ("lo", 1));
        for name in ["no-such-nic", "", "a-name-that-is-too-long-for-any"] {
            assert!(matches!(Nic::named(name), Err(DevmemError::NoNic { .. })), "{name}");
        }
    }
}
