//! The 128 bytes of a connect handle, which `listen` fills. Pure.
//!
//! The first 88 bytes lie as in the original plugin (docs/plugin-contract.md §1.5). The address is
//! at 0, the port range at 28 (−1: any), the socket count at 36, and the thread count at 40. The
//! control address is at 48, and `connect`'s state at 80. The rest is ours: magic, version, flags
//! and the connection id that distinguishes the peer from a stray connection.

use std::net::{Ipv4Addr, SocketAddrV4};

use tcpx_comm::wire::{ConnectionId, MAGIC, MAX_SOCKETS, VERSION};
use tcpx_sys::HANDLE_BYTES;

/// Where `connect` keeps the id of its attempt. Zero in a fresh handle.
pub(crate) const STATE_OFFSET: usize = 80;

const PORT_RANGE_OFFSET: usize = 28;
const SOCKETS_OFFSET: usize = 36;
const THREADS_OFFSET: usize = 40;
const CONTROL_ADDRESS_OFFSET: usize = 48;
const MAGIC_OFFSET: usize = 88;
const VERSION_OFFSET: usize = 96;
const FLAGS_OFFSET: usize = 98;
const RESERVED_OFFSET: usize = 100;
const ID_OFFSET: usize = 104;
const TAIL_OFFSET: usize = 120;

/// `AF_INET` on Linux, in every architecture.
const FAMILY_INET: u16 = 2;
const FLAG_RECV_SYNC: u16 = 1;

/// What a handle says, once checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenHandle {
    pub(crate) address: SocketAddrV4,
    /// Data sockets of the comm, 1..=8. The listener decides.
    pub(crate) sockets: u16,
    /// Helper threads that the listener would use.
    pub(crate) threads: u16,
    /// Whether sends wait for the peer's receives. Both ends must agree.
    pub(crate) recv_sync: bool,
    pub(crate) id: ConnectionId,
}

/// Why bytes are not a handle of this plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HandleError {
    #[error("magic {0:#018x} is not the software plugin's")]
    Magic(u64),
    #[error("version {0}, this end speaks {VERSION}")]
    Version(u16),
    #[error("address family {0}, only IPv4 is supported")]
    Family(u16),
    #[error("no usable address or port: {0}")]
    Address(SocketAddrV4),
    #[error("control address {control} differs from data address {data}")]
    ControlAddress { data: SocketAddrV4, control: SocketAddrV4 },
    #[error("{0} data sockets, allowed are 1..={MAX_SOCKETS}")]
    Sockets(u32),
    #[error("{0} threads, allowed are 1..={MAX_SOCKETS}")]
    Threads(u32),
    #[error("reserved bytes are not zero")]
    Reserved,
}

impl ListenHandle {
    /// All 128 bytes, the state of `connect` zero.
    pub(crate) fn encode(&self) -> [u8; HANDLE_BYTES] {
        let mut bytes = [0; HANDLE_BYTES];
        put_address(&mut bytes, 0, self.address);
        put(&mut bytes, PORT_RANGE_OFFSET, &(-1i32).to_le_bytes());
        put(&mut bytes, PORT_RANGE_OFFSET + 4, &(-1i32).to_le_bytes());
        put(&mut bytes, SOCKETS_OFFSET, &u32::from(self.sockets).to_le_bytes());
        put(&mut bytes, THREADS_OFFSET, &u32::from(self.threads).to_le_bytes());
        put_address(&mut bytes, CONTROL_ADDRESS_OFFSET, self.address);
        put(&mut bytes, MAGIC_OFFSET, &MAGIC.to_le_bytes());
        put(&mut bytes, VERSION_OFFSET, &VERSION.to_le_bytes());
        let flags = if self.recv_sync { FLAG_RECV_SYNC } else { 0 };
        put(&mut bytes, FLAGS_OFFSET, &flags.to_le_bytes());
        put(&mut bytes, ID_OFFSET, &self.id.0);
        bytes
    }

    /// Checks every field but the state of `connect`, which is the caller's business.
    pub(crate) fn decode(bytes: &[u8; HANDLE_BYTES]) -> Result<Self, HandleError> {
        let magic = u64::from_le_bytes(take(bytes, MAGIC_OFFSET));
        if magic != MAGIC {
            return Err(HandleError::Magic(magic));
        }
        let version = u16::from_le_bytes(take(bytes, VERSION_OFFSET));
        if version != VERSION {
            return Err(HandleError::Version(version));
        }
        let address = take_address(bytes, 0)?;
        let control = take_address(bytes, CONTROL_ADDRESS_OFFSET)?;
        if control != address {
            return Err(HandleError::ControlAddress { data: address, control });
        }
        let sockets = u32::from_le_bytes(take(bytes, SOCKETS_OFFSET));
        let sockets = count(sockets).ok_or(HandleError::Sockets(sockets))?;
        let threads = u32::from_le_bytes(take(bytes, THREADS_OFFSET));
        let threads = count(threads).ok_or(HandleError::Threads(threads))?;
        let flags = u16::from_le_bytes(take(bytes, FLAGS_OFFSET));
        let reserved: [u8; 4] = take(bytes, RESERVED_OFFSET);
        let tail: [u8; 8] = take(bytes, TAIL_OFFSET);
        if flags & !FLAG_RECV_SYNC != 0 || reserved != [0; 4] || tail != [0; 8] {
            return Err(HandleError::Reserved);
        }
        let recv_sync = flags & FLAG_RECV_SYNC != 0;
        Ok(Self { address, sockets, threads, recv_sync, id: ConnectionId(take(bytes, ID_OFFSET)) })
    }
}

/// A count of sockets or threads, if it is one that `listen` writes.
fn count(value: u32) -> Option<u16> {
    u16::try_from(value).ok().filter(|n| (1..=MAX_SOCKETS).contains(n))
}

fn put(bytes: &mut [u8; HANDLE_BYTES], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn take<const N: usize>(bytes: &[u8; HANDLE_BYTES], at: usize) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&bytes[at..at + N]);
    value
}

/// A `sockaddr_in`: family in native order, port and address in network order.
fn put_address(bytes: &mut [u8; HANDLE_BYTES], at: usize, address: SocketAddrV4) {
    put(bytes, at, &FAMILY_INET.to_ne_bytes());
    put(bytes, at + 2, &address.port().to_be_bytes());
    put(bytes, at + 4, &address.ip().octets());
}

fn take_address(bytes: &[u8; HANDLE_BYTES], at: usize) -> Result<SocketAddrV4, HandleError> {
    let family = u16::from_ne_bytes(take(bytes, at));
    if family != FAMILY_INET {
        return Err(HandleError::Family(family));
    }
    let port = u16::from_be_bytes(take(bytes, at + 2));
    let ip = Ipv4Addr::from(take::<4>(bytes, at + 4));
    let address = SocketAddrV4::new(ip, port);
    if port == 0 || ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast() {
        return Err(HandleError::Address(address));
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn example() -> ListenHandle {
        ListenHandle {
            address: SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 7), 40_001),
            sockets: 4,
            threads: 2,
            recv_sync: true,
            id: ConnectionId([7; 16]),
        }
    }

    #[test]
    fn layout_is_the_originals_where_they_share_a_field() {
        let bytes = example().encode();
        assert_eq!(bytes[..8], [2, 0, 0x9c, 0x41, 192, 0, 2, 7]);
        assert_eq!(bytes[28..36], [0xff; 8]);
        assert_eq!(bytes[36..44], [4, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(bytes[48..56], bytes[..8]);
        assert_eq!(bytes[STATE_OFFSET..STATE_OFFSET + 8], [0; 8]);
    }

    #[test]
    fn state_of_connect_does_not_matter() {
        let mut bytes = example().encode();
        bytes[STATE_OFFSET..STATE_OFFSET + 8].fill(0xff);
        assert_eq!(ListenHandle::decode(&bytes), Ok(example()));
    }

    #[test]
    fn each_damaged_field_is_refused() {
        let damaged = |at: usize, value: u8| {
            let mut bytes = example().encode();
            bytes[at] = value;
            ListenHandle::decode(&bytes)
        };
        assert!(matches!(damaged(MAGIC_OFFSET, 0), Err(HandleError::Magic(_))));
        assert!(matches!(damaged(VERSION_OFFSET, 9), Err(HandleError::Version(9))));
        assert!(matches!(damaged(0, 10), Err(HandleError::Family(10))));
        assert!(matches!(damaged(SOCKETS_OFFSET, 0), Err(HandleError::Sockets(0))));
        assert!(matches!(damaged(SOCKETS_OFFSET, 9), Err(HandleError::Sockets(9))));
        assert!(matches!(damaged(THREADS_OFFSET + 2, 1), Err(HandleError::Threads(65_538))));
        assert!(matches!(
            damaged(CONTROL_ADDRESS_OFFSET + 7, 8),
            Err(HandleError::ControlAddress { .. })
        ));
        assert!(matches!(damaged(FLAGS_OFFSET, 2), Err(HandleError::Reserved)));
        assert!(matches!(damaged(TAIL_OFFSET, 1), Err(HandleError::Reserved)));
    }

    proptest! {
        #[test]
        fn any_bytes_decode_to_an_error_or_to_what_encodes_back(
            bytes in prop::array::uniform32(any::<u32>()),
        ) {
            let mut handle = example().encode();
            for (place, word) in handle.chunks_exact_mut(4).zip(bytes) {
                if word % 5 == 0 {
                    place.copy_from_slice(&word.to_le_bytes());
                }
            }
            if let Ok(decoded) = ListenHandle::decode(&handle) {
                prop_assert_eq!(ListenHandle::decode(&decoded.encode()), Ok(decoded));
            }
        }
    }
}
