//! Connect handle from a peer, checked before the plugin receives it. Pure.
//!
//! A handle comes from the peer and is not trusted. It holds the addresses to dial, the number of
//! sockets, and 8 bytes that the plugin takes for a pointer of its own unless they are zero. Both
//! plugins have these fields at the same places (docs/plugin-contract.md §1.5, §2.4).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tcpx_sys::{HANDLE_BYTES, NetHandle};

/// Offsets of the addresses of the data sockets and of the control socket.
const ADDRESS_OFFSETS: [usize; 2] = [0, 48];
const SOCKETS_OFFSET: usize = 36;
const THREADS_OFFSET: usize = 40;
/// Offset at which `connect` keeps a pointer.
const STATE_OFFSET: usize = 80;
const STATE_BYTES: usize = 8;

/// Largest number of sockets and threads of a comm; the plugin has room for no more.
const MAX_SOCKETS: u32 = 8;
/// Lowest port of a listen comm. Lower ports belong to a host's services. The system gives a
/// listener a higher port.
const FIRST_PORT: u16 = 1024;

const FAMILY_NONE: u16 = 0;
const FAMILY_INET: u16 = 2;
const FAMILY_INET6: u16 = 10;

/// Content that no plugin's `listen` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HandleProblem {
    #[error("an address of family {0}")]
    Family(u16),
    #[error("port {0}")]
    Port(u16),
    #[error("{0} sockets; 1 to {MAX_SOCKETS} are possible")]
    Sockets(u32),
    #[error("{0} threads; up to {MAX_SOCKETS} are possible")]
    Threads(u32),
}

/// Handle of a peer that was checked and may be passed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerHandle {
    handle: NetHandle,
    addresses: [Option<SocketAddr>; 2],
}

impl PeerHandle {
    /// Checks a handle. Clears the bytes that `connect` would take for a pointer of its own.
    pub(crate) fn read(mut handle: NetHandle) -> Result<Self, HandleProblem> {
        handle.0[STATE_OFFSET..STATE_OFFSET + STATE_BYTES].fill(0);
        let mut addresses = [None; 2];
        for (address, offset) in addresses.iter_mut().zip(ADDRESS_OFFSETS) {
            *address = read_address(&handle.0, offset)?;
        }
        // A handle without any address leads nowhere.
        if addresses != [None; 2] {
            let sockets = u32::from_le_bytes(take(&handle.0, SOCKETS_OFFSET));
            if sockets == 0 || sockets > MAX_SOCKETS {
                return Err(HandleProblem::Sockets(sockets));
            }
            let threads = u32::from_le_bytes(take(&handle.0, THREADS_OFFSET));
            if threads > MAX_SOCKETS {
                return Err(HandleProblem::Threads(threads));
            }
        }
        Ok(Self { handle, addresses })
    }

    /// Returns the addresses that the plugin will dial.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.addresses.into_iter().flatten()
    }

    /// Returns the handle for the plugin.
    pub(crate) fn into_handle(self) -> NetHandle {
        self.handle
    }
}

/// Reads a `sockaddr`: family in native order, port and address in network order.
fn read_address(
    bytes: &[u8; HANDLE_BYTES],
    at: usize,
) -> Result<Option<SocketAddr>, HandleProblem> {
    let ip = match u16::from_ne_bytes(take(bytes, at)) {
        FAMILY_NONE => return Ok(None),
        FAMILY_INET => IpAddr::V4(Ipv4Addr::from(take::<4>(bytes, at + 4))),
        FAMILY_INET6 => IpAddr::V6(Ipv6Addr::from(take::<16>(bytes, at + 8))),
        family => return Err(HandleProblem::Family(family)),
    };
    match u16::from_be_bytes(take(bytes, at + 2)) {
        port @ FIRST_PORT.. => Ok(Some(SocketAddr::new(ip.to_canonical(), port))),
        port => Err(HandleProblem::Port(port)),
    }
}

fn take<const N: usize>(bytes: &[u8; HANDLE_BYTES], at: usize) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&bytes[at..at + N]);
    value
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Makes a handle that leads to this address, with its data and its control.
    pub(crate) fn handle_to(address: Ipv4Addr, port: u16) -> NetHandle {
        let mut handle = NetHandle::zeroed();
        for at in ADDRESS_OFFSETS {
            handle.0[at..at + 2].copy_from_slice(&FAMILY_INET.to_ne_bytes());
            handle.0[at + 2..at + 4].copy_from_slice(&port.to_be_bytes());
            handle.0[at + 4..at + 8].copy_from_slice(&address.octets());
        }
        handle.0[SOCKETS_OFFSET] = 2;
        handle.0[THREADS_OFFSET] = 1;
        handle
    }

    fn sample() -> NetHandle {
        handle_to(Ipv4Addr::new(10, 0, 0, 7), 40_001)
    }

    fn changed(at: usize, bytes: &[u8]) -> Result<PeerHandle, HandleProblem> {
        let mut handle = sample();
        handle.0[at..at + bytes.len()].copy_from_slice(bytes);
        PeerHandle::read(handle)
    }

    #[test]
    fn a_pointer_in_it_never_reaches_the_plugin() {
        let read = changed(STATE_OFFSET, &[0x41; 8]).unwrap();
        assert_eq!(read.into_handle(), sample(), "the rest stays as it came");
    }

    #[test]
    fn it_says_where_the_plugin_will_dial() {
        let address = "10.0.0.7:40001".parse().unwrap();
        let addresses = |handle| PeerHandle::read(handle).unwrap().addresses().collect::<Vec<_>>();
        assert_eq!(addresses(sample()), [address, address]);
        let mut mapped = sample();
        mapped.0[..28].fill(0);
        mapped.0[..2].copy_from_slice(&FAMILY_INET6.to_ne_bytes());
        mapped.0[2..4].copy_from_slice(&40_002u16.to_be_bytes());
        mapped.0[18..24].copy_from_slice(&[0xff, 0xff, 127, 0, 0, 1]);
        assert_eq!(addresses(mapped), ["127.0.0.1:40002".parse().unwrap(), address]);
        assert!(addresses(NetHandle::zeroed()).is_empty(), "it leads nowhere");
    }

    #[test]
    fn what_no_plugin_writes_is_refused() {
        let refused = |at, bytes: &[u8]| changed(at, bytes).unwrap_err();
        assert_eq!(refused(0, &1u16.to_ne_bytes()), HandleProblem::Family(1));
        assert_eq!(refused(2, &22u16.to_be_bytes()), HandleProblem::Port(22));
        assert_eq!(refused(50, &0u16.to_be_bytes()), HandleProblem::Port(0));
        for sockets in [0, 9, u32::MAX] {
            let bytes = sockets.to_le_bytes();
            assert_eq!(refused(SOCKETS_OFFSET, &bytes), HandleProblem::Sockets(sockets));
        }
        assert_eq!(refused(THREADS_OFFSET, &9u32.to_le_bytes()), HandleProblem::Threads(9));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_have_no_pointer(words in prop::array::uniform32(any::<u32>())) {
            let mut handle = sample();
            for (place, word) in handle.0.chunks_exact_mut(4).zip(words) {
                if word % 3 == 0 {
                    place.copy_from_slice(&word.to_le_bytes());
                }
            }
            if let Ok(read) = PeerHandle::read(handle) {
                prop_assert!(read.addresses().all(|address| address.port() >= FIRST_PORT));
                prop_assert_eq!(take::<8>(&read.into_handle().0, STATE_OFFSET), [0; 8]);
            }
        }
    }
}
