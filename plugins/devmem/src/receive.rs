#![allow(unsafe_code)]
//! Receiving into device memory: one call, and the decoding of its result.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use tcpx_rx::dialect::MSG_SOCK_DEVMEM;
use tcpx_rx::{Dialect, Fragment, walk};

use crate::error::DevmemError;

/// Largest number of fragments of one call. The kernel then returns fewer bytes, and the rest with
/// the next call.
const MAX_FRAGMENTS: usize = 512;
/// Bytes of a region that a NIC takes for one fragment.
const PAGE_BYTES: u64 = 4096;
/// The kernel had no room to describe even one fragment. This error has no name outside of the
/// kernel.
const ETOOSMALL: i32 = 525;

/// Result of one call.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// Bytes have come.
    Bytes(Arrival<'a>),
    /// No bytes are there yet.
    Blocked,
    /// The peer has sent its last byte.
    Closed,
}

/// Received bytes of the stream, and their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// All fragments, in the order of the stream.
    pub fragments: &'a [Fragment],
    /// Bytes of the linear fragments, one behind the other.
    pub linear: &'a [u8],
}

impl Arrival<'_> {
    /// Returns the number of received bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.fragments.iter().map(|fragment| u64::from(fragment.bytes())).sum()
    }
}

/// Receiver for sockets whose packets go to one binding. Keeps the buffers that calls need.
#[derive(Debug)]
pub struct Receiver {
    binding: u32,
    region_bytes: u64,
    linear: Vec<u8>,
    control: Vec<u64>,
    fragments: Vec<Fragment>,
}

impl Receiver {
    /// Creates a receiver. `binding` is the number of the binding, `region_bytes` the size of its
    /// dma-buf.
    #[must_use]
    pub fn new(binding: u32, region_bytes: u64) -> Self {
        let control = MAX_FRAGMENTS * Dialect::Mainline.cmsg_space();
        Self {
            binding,
            region_bytes,
            linear: Vec::new(),
            control: vec![0; control / 8],
            fragments: Vec::with_capacity(MAX_FRAGMENTS),
        }
    }

    /// Takes at most `most` bytes off the stream of `socket`. Never waits.
    ///
    /// A fragment's token goes back by [`return_tokens`](crate::return_tokens()), on the same
    /// socket. An error loses the place in the stream, and may lose tokens: close the socket, which
    /// gives all tokens back.
    ///
    /// # Errors
    /// Returns the system's error, and an error for an inconsistent description.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        most: usize,
    ) -> Result<Received<'_>, DevmemError> {
        if self.linear.len() < most {
            // The kernel takes no more bytes than fit here, even where it puts none of them here.
            self.linear.resize(most, 0);
        }
        loop {
            match self.call(socket, most) {
                Ok((0, ..)) => return Ok(Received::Closed),
                Ok((bytes, control, was_cut)) => {
                    return self.describe(bytes, control, was_cut).map(Received::Bytes);
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(Received::Blocked),
                    Some(libc::EINTR) => {}
                    Some(libc::ENODEV) => return Err(DevmemError::ForeignPacket),
                    Some(ETOOSMALL) => {
                        return Err(bad(0, 0, "the kernel found no room to describe it"));
                    }
                    _ => {
                        return Err(DevmemError::System { what: "recvmsg failed", source: error });
                    }
                },
            }
        }
    }

    /// Returns an error if unreturned fragments may be the cause of a stall. `held_fragments`
    /// counts them over all sockets of the binding. Call this after a deadline: a pool that is full
    /// for a while is normal.
    #[must_use]
    pub fn stall_reason(&self, held_fragments: u64) -> Option<DevmemError> {
        stall_reason(held_fragments, self.region_bytes / PAGE_BYTES)
    }

    /// Returns the number of received bytes, the number of bytes of control messages, and whether
    /// control messages were truncated.
    fn call(&mut self, socket: BorrowedFd<'_>, most: usize) -> io::Result<(usize, usize, bool)> {
        let mut vector = libc::iovec { iov_base: self.linear.as_mut_ptr().cast(), iov_len: most };
        // SAFETY: `msghdr` is plain C data for which all zeros is a valid value.
        let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
        message.msg_iov = &raw mut vector;
        message.msg_iovlen = 1;
        message.msg_control = self.control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(self.control.as_slice()) as _;
        let flags = MSG_SOCK_DEVMEM | libc::MSG_DONTWAIT;
        // SAFETY: `message` points to `vector`, to `most` bytes of `linear`, which has as many, and
        // to `control` with its own length. All are exclusively borrowed during the call.
        let bytes = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
        let bytes = usize::try_from(bytes).map_err(|_| io::Error::last_os_error())?;
        let was_cut = message.msg_flags & libc::MSG_CTRUNC != 0;
        Ok((bytes, message.msg_controllen as usize, was_cut))
    }

    fn describe(
        &mut self,
        bytes: usize,
        control: usize,
        was_cut: bool,
    ) -> Result<Arrival<'_>, DevmemError> {
        let control: Vec<u8> = self.control[..control.div_ceil(8)]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .take(control)
            .collect();
        if was_cut {
            // The truncated part held tokens, which can no longer be given back.
            return Err(bad(bytes, 0, "the description was cut"));
        }
        let linear =
            read_fragments(&control, bytes, self.binding, self.region_bytes, &mut self.fragments)?;
        Ok(Arrival { fragments: &self.fragments, linear: &self.linear[..linear] })
    }
}

/// Returns an error if unreturned fragments may be the cause of a stall of a region of `pages`
/// pages. See [`Receiver::stall_reason`].
#[must_use]
pub fn stall_reason(held_fragments: u64, pages: u64) -> Option<DevmemError> {
    // A NIC keeps some pages in its rings, and a packet may need more than one page.
    (held_fragments >= pages - pages / 4)
        .then_some(DevmemError::PoolHeld { held: held_fragments, pages })
}

fn bad(bytes: usize, described: u64, what: impl ToString) -> DevmemError {
    DevmemError::BadDescription { bytes: bytes as u64, described, what: what.to_string() }
}

/// Decodes the kernel's description of `bytes` bytes, and returns how many of them are in host
/// memory. Bytes without a description are in host memory as well: their packet has no other
/// memory, or came to another queue.
fn read_fragments(
    control: &[u8],
    bytes: usize,
    binding: u32,
    region_bytes: u64,
    fragments: &mut Vec<Fragment>,
) -> Result<usize, DevmemError> {
    fragments.clear();
    let mut walk = walk(control, Dialect::Mainline);
    for fragment in walk.by_ref() {
        let fragment = fragment.map_err(|error| bad(bytes, 0, error))?;
        if let Fragment::Device(device) = fragment {
            if device.dmabuf_id != Some(binding) {
                return Err(DevmemError::ForeignPacket);
            }
            // The walk has checked that the sum does not overflow.
            if device.offset + u64::from(device.bytes) > region_bytes {
                return Err(bad(bytes, 0, format_args!("a fragment at {}", device.offset)));
            }
        }
        fragments.push(fragment);
    }
    let totals = walk.totals();
    let described = totals.device_bytes + totals.linear_bytes;
    if described == 0 {
        // One call takes no more than 2 GiB.
        fragments.push(Fragment::Linear { bytes: bytes as u32 });
        return Ok(bytes);
    }
    if described != bytes as u64 {
        return Err(bad(bytes, described, "they differ"));
    }
    Ok(totals.linear_bytes as usize)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use proptest::prelude::*;
    use tcpx_rx::{DeviceFragment, encode};

    use super::*;

    fn device(offset: u64, bytes: u32) -> Fragment {
        Fragment::Device(DeviceFragment::new(offset, bytes, 1, Some(7)))
    }

    fn control(fragments: &[Fragment]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for fragment in fragments {
            encode(fragment, Dialect::Mainline, &mut bytes).expect("it has a form");
        }
        bytes
    }

    fn read(fragments: &[Fragment], bytes: usize) -> Result<(Vec<Fragment>, usize), DevmemError> {
        let mut found = vec![device(0, 1)];
        let linear = read_fragments(&control(fragments), bytes, 7, 8192, &mut found)?;
        Ok((found, linear))
    }

    #[test]
    fn both_kinds_of_memory_are_distinguished() {
        let linear = Fragment::Linear { bytes: 10 };
        let all = [device(0, 4096), linear, device(8000, 192), linear];
        let (found, linear) = read(&all, 4308).expect("a description that holds");
        assert_eq!((found.as_slice(), linear), (&all[..], 20));
    }

    #[test]
    fn bytes_without_a_description_are_in_host_memory() {
        let (found, linear) = read(&[], 77).expect("ordinary bytes");
        assert_eq!((found, linear), (vec![Fragment::Linear { bytes: 77 }], 77));
    }

    #[test]
    fn descriptions_that_do_not_hold_are_errors() {
        for bytes in [0, 4095, 4097] {
            let error = read(&[device(0, 4096)], bytes).expect_err("another sum");
            assert_eq!(error.diagnosis().map(|it| it.code.number()), Some(429), "{error}");
        }
        let error = read(&[device(8192, 1)], 1).expect_err("outside of the region");
        assert!(matches!(error, DevmemError::BadDescription { .. }), "{error}");
        let foreign = DeviceFragment::new(0, 1, 1, Some(8));
        let error = read(&[Fragment::Device(foreign)], 1).expect_err("another's memory");
        assert!(matches!(error, DevmemError::ForeignPacket), "{error}");
    }

    #[test]
    fn a_holder_of_most_pages_is_the_reason_of_a_stall() {
        let receiver = Receiver::new(1, 100 * 4096);
        assert!(receiver.stall_reason(74).is_none());
        let error = receiver.stall_reason(75).expect("too few are left");
        assert_eq!(error.diagnosis().map(|it| it.code.number()), Some(431));
        assert!(error.to_string().contains("75 of the NIC's 100 pages"), "{error}");
    }

    #[test]
    fn ordinary_sockets_are_received_from() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut near = TcpStream::connect(listener.local_addr().expect("bound")).expect("there");
        let (far, _) = listener.accept().expect("connected");
        let mut receiver = Receiver::new(1, 4096);
        assert_eq!(receiver.receive(far.as_fd(), 9).expect("a socket"), Received::Blocked);
        near.write_all(b"ordinary").expect("there is room");
        let poll = rustix::event::PollFd::new(&far, rustix::event::PollFlags::IN);
        rustix::event::poll(&mut [poll], None).expect("bytes come");
        match receiver.receive(far.as_fd(), 4) {
            Ok(Received::Bytes(arrival)) => {
                assert_eq!((arrival.linear, arrival.bytes()), (&b"ordi"[..], 4));
            }
            // A kernel without device memory may not know the flag.
            other => panic!("{other:?}"),
        }
        drop(near);
        assert!(matches!(receiver.receive(far.as_fd(), 9), Ok(Received::Bytes(_))));
        assert_eq!(receiver.receive(far.as_fd(), 9).expect("a socket"), Received::Closed);
    }

    proptest! {
        #[test]
        fn any_description_is_read(control: Vec<u8>, bytes in 0usize..10_000) {
            let mut found = Vec::new();
            if let Ok(linear) = read_fragments(&control, bytes, 7, 8192, &mut found) {
                let sum: u64 = found.iter().map(|fragment| u64::from(fragment.bytes())).sum();
                prop_assert_eq!(sum, bytes as u64);
                prop_assert!(linear <= bytes);
            }
        }
    }
}
