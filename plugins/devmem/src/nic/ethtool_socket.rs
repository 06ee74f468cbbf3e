#![allow(unsafe_code)]
//! Older of ethtool's two interfaces to a driver: an ioctl on a struct of the caller's. It has what
//! the netlink family lacks.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

const SIOCETHTOOL: u64 = 0x8946;

/// `struct ifreq` as SIOCETHTOOL uses it: a name and a pointer.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    data: *mut u64,
    rest: [u64; 2],
}

const _: () = assert!(size_of::<InterfaceRequest>() == size_of::<libc::ifreq>());

/// Socket for calls about one NIC.
#[derive(Debug)]
pub struct EthtoolSocket {
    socket: OwnedFd,
    name: [u8; 16],
}

impl EthtoolSocket {
    /// Opens a socket. The first call looks the NIC up.
    ///
    /// # Errors
    /// Returns an error for a name that is too long, and the system's error.
    pub fn open(nic: &str) -> io::Result<Self> {
        let mut name = [0; 16];
        // The last byte stays 0: names end there.
        if nic.len() >= name.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        name[..nic.len()].copy_from_slice(nic.as_bytes());
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
        Ok(Self { socket, name })
    }

    /// Makes the call that the first word of `words` names.
    ///
    /// # Errors
    /// Returns the error of the kernel or the driver.
    ///
    /// # Safety
    /// `words` must be as large as what the kernel reads and writes for that command. This is its
    /// struct, and as many items behind it as the struct says or the driver has.
    pub unsafe fn call(&self, words: &mut [u64]) -> io::Result<()> {
        let mut request =
            InterfaceRequest { name: self.name, data: words.as_mut_ptr(), rest: [0; 2] };
        // SAFETY:
        // - the descriptor is open as long as `self` lives;
        // - `request` has the size of an ifreq and lives through the call;
        // - `data` points to `words`, exclusively borrowed, 8-byte aligned, and as large as the
        //   caller promises.
        let status =
            unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
        if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_nic_has_are_refused() {
        assert!(EthtoolSocket::open("a-name-of-sixteen-bytes").is_err());
        let socket = EthtoolSocket::open("no-such-nic").expect("a socket");
        // ETHTOOL_GLINK: the command, and a number.
        // SAFETY: the struct is two words of 32 bits.
        let refused = unsafe { socket.call(&mut [0x0a, 0]) };
        assert_eq!(refused.map_err(|error| error.raw_os_error()), Err(Some(libc::ENODEV)));
    }
}
