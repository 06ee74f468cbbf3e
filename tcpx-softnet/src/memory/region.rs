#![allow(unsafe_code)]
//! Every access to memory that is not the plugin's own: what callers lend, and the bounce region.
//!
//! Nothing here forms a reference to such memory: the consumer, or a GPU, may touch it at any time. Socket calls get
//! addresses and the kernel checks them; the only copies made in user space are [`Piece::write`] and
//! [`Region::write`]. GPU memory never comes here: it is received into through pinned pages, from which it is read or
//! copied up (see `uploader`), and sent from pinned pages (see `stager`).

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};

use memmap2::{MmapMut, MmapOptions, MmapRaw};
use tcpx_cuda::{CudaError, CudaGpu, DeviceBuffer, PinnedBuffer};
use tcpx_sys::UNPACK_PAGE_BYTES;

use crate::log;
use crate::memory::page_pool::Run;

/// A range of memory that a request may read from, or write to, until it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    address: usize,
    len: usize,
}

impl Piece {
    pub(crate) const EMPTY: Self = Self { address: 0, len: 0 };

    /// # Safety
    /// The range is memory that the caller of the plugin lends to a request: registered, not freed, and for receives not
    /// touched by anyone else, until the request is done or its comm closed. (That is what `isend` and `irecv` ask for.)
    pub(crate) unsafe fn lent(address: usize, len: usize) -> Self {
        Self { address, len }
    }

    /// A range that is only looked at as numbers.
    #[cfg(test)]
    pub(crate) fn for_tests(address: usize, len: usize) -> Self {
        Self { address, len }
    }

    pub(crate) fn address(self) -> usize {
        self.address
    }

    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// `len` bytes from `offset`; cut to what the piece has.
    pub(crate) fn part(self, offset: usize, len: usize) -> Self {
        let offset = offset.min(self.len);
        Self { address: self.address + offset, len: len.min(self.len - offset) }
    }

    /// Copies `bytes` to the start of the piece, as far as it goes.
    pub(crate) fn write(self, bytes: &[u8]) {
        let len = bytes.len().min(self.len);
        let target = core::ptr::with_exposed_provenance_mut::<u8>(self.address);
        // SAFETY:
        // - the piece is lent memory (see `lent`) or a part of the bounce region, writable for `self.len ≥ len` bytes;
        // - `bytes` is a live slice of the plugin's own, so the two cannot overlap.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), target, len) };
    }
}

/// The bounce region: where device receives land. One of each kind per process, there for good.
#[derive(Debug)]
pub(crate) enum Region {
    /// Ordinary memory, touched only as pages are used.
    Mapped(MmapRaw),
    /// Page-locked memory, which every GPU reads at the address that the host uses.
    Pinned(PinnedBuffer),
    /// Memory of a GPU, with pinned memory of the same size beside it: page k of the one is copied to page k of the other.
    OnGpu { pinned: PinnedBuffer, device: DeviceBuffer },
}

impl Region {
    /// `bytes` is a multiple of the page size and at most 4 GiB, because entries have 32-bit offsets.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let map: MmapMut = MmapOptions::new().len(bytes).no_reserve_swap().map_anon()?;
        Ok(Self::Mapped(MmapRaw::from(map)))
    }

    /// As [`new`](Self::new), for consumers on GPUs. All of it is taken, and locked, at once.
    pub(crate) fn pinned(gpu: &CudaGpu, bytes: usize) -> Result<Self, CudaError> {
        PinnedBuffer::new(gpu, bytes as u64).map(Self::Pinned)
    }

    /// As [`pinned`](Self::pinned), for a consumer that finds the pages in the GPU's own memory.
    pub(crate) fn on_gpu(gpu: &CudaGpu, bytes: usize) -> Result<Self, CudaError> {
        let pinned = PinnedBuffer::new(gpu, bytes as u64)?;
        Ok(Self::OnGpu { pinned, device: DeviceBuffer::new(gpu, bytes as u64)? })
    }

    /// Where bytes land.
    fn base(&self) -> *mut u8 {
        match self {
            Self::Mapped(map) => map.as_mut_ptr(),
            Self::Pinned(buffer) | Self::OnGpu { pinned: buffer, .. } => buffer.as_ptr(),
        }
    }

    /// Where the consumer finds them.
    pub(crate) fn consumer_base(&self) -> *mut u8 {
        match self {
            Self::OnGpu { device, .. } => {
                core::ptr::with_exposed_provenance_mut(device.address() as usize)
            }
            Self::Mapped(_) | Self::Pinned(_) => self.base(),
        }
    }

    /// The same as a number.
    pub(crate) fn consumer_address(&self) -> u64 {
        self.consumer_base().addr() as u64
    }

    /// What it is, for the log.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Mapped(_) => "ordinary memory",
            Self::Pinned(_) => "pinned memory",
            Self::OnGpu { .. } => "GPU memory and as much pinned memory",
        }
    }

    /// Whether what has landed must be copied to the consumer's memory.
    pub(crate) fn is_on_gpu(&self) -> bool {
        matches!(self, Self::OnGpu { .. })
    }

    fn len(&self) -> usize {
        match self {
            Self::Mapped(map) => map.len(),
            Self::Pinned(buffer) | Self::OnGpu { pinned: buffer, .. } => buffer.bytes() as usize,
        }
    }

    /// `len` bytes from `offset`, cut to the region. The caller holds the pages they lie in.
    pub(crate) fn piece(&self, offset: usize, len: usize) -> Piece {
        let base = self.base().expose_provenance();
        Piece { address: base, len: self.len() }.part(offset, len)
    }

    /// Offset of a piece of this region.
    pub(crate) fn offset(&self, piece: Piece) -> usize {
        piece.address - self.base().addr()
    }

    /// Overwrites pages that nobody holds any more.
    pub(crate) fn fill(&self, run: Run, value: u8) {
        let piece = self
            .piece(run.first as usize * UNPACK_PAGE_BYTES, run.count as usize * UNPACK_PAGE_BYTES);
        let target = core::ptr::with_exposed_provenance_mut::<u8>(piece.address);
        // SAFETY: `piece` lies in the mapping, which is writable and never unmapped.
        unsafe { core::ptr::write_bytes(target, value, piece.len) };
        if let Self::OnGpu { device, .. } = self
            && let Err(error) =
                device.fill_range(self.offset(piece) as u64, value, piece.len as u64)
        {
            log::warn!("cannot overwrite bounce pages on the GPU: {error}");
        }
    }
}

/// Pieces of one gather or scatter call.
const MAX_PIECES: usize = 64;

/// What one socket call did.
#[derive(Debug)]
pub(crate) enum Moved {
    /// More than nothing.
    Bytes(usize),
    /// The socket has no room, or no data, now.
    Blocked,
    /// The peer has closed (receive only).
    Closed,
    /// The connection is dead.
    Failed(io::Error),
}

/// A gather or scatter list for one socket call.
pub(crate) struct IoList<'a> {
    vectors: [libc::iovec; MAX_PIECES],
    used: usize,
    bytes: usize,
    limit: usize,
    borrowed: PhantomData<&'a [u8]>,
}

impl<'a> IoList<'a> {
    /// Takes at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        let empty = libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 };
        Self { vectors: [empty; MAX_PIECES], used: 0, bytes: 0, limit, borrowed: PhantomData }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Appends a piece, cut to the limit; false when nothing after it can be taken.
    pub(crate) fn push(&mut self, piece: Piece) -> bool {
        self.append(core::ptr::with_exposed_provenance_mut(piece.address), piece.len)
    }

    /// Appends bytes of the plugin's own; for sending only.
    pub(crate) fn push_bytes(&mut self, bytes: &'a [u8]) -> bool {
        self.append(bytes.as_ptr().cast_mut(), bytes.len())
    }

    fn append(&mut self, base: *mut u8, len: usize) -> bool {
        let taken = len.min(self.limit - self.bytes);
        if taken > 0 && self.used < MAX_PIECES {
            self.vectors[self.used] = libc::iovec { iov_base: base.cast(), iov_len: taken };
            self.used += 1;
            self.bytes += taken;
        } else if len > 0 {
            return false;
        }
        taken == len && self.used < MAX_PIECES && self.bytes < self.limit
    }

    fn message(&mut self) -> libc::msghdr {
        // SAFETY: `msghdr` is plain C data for which all zeros is a valid value.
        let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
        message.msg_iov = self.vectors.as_mut_ptr();
        message.msg_iovlen = self.used as _;
        message
    }

    /// Sends from the listed memory without waiting and without SIGPIPE.
    pub(crate) fn send(mut self, socket: BorrowedFd<'_>) -> Moved {
        let message = self.message();
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY:
        // - `message` points to `self.vectors`, which outlives the call;
        // - the kernel only reads the listed memory, and answers EFAULT where the process has none.
        let result = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) };
        match moved(result) {
            Moved::Closed => Moved::Blocked,
            moved => moved,
        }
    }

    /// Receives into the listed memory without waiting. Must not be called after [`Self::push_bytes`].
    pub(crate) fn receive(mut self, socket: BorrowedFd<'_>) -> Moved {
        let mut message = self.message();
        // SAFETY:
        // - `message` points to `self.vectors`, which outlives the call;
        // - every piece is memory lent for writing or pages of the bounce region that the task holds, and the kernel
        //   answers EFAULT where the process has no writable memory.
        let result =
            unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
        moved(result)
    }
}

fn moved(result: isize) -> Moved {
    match usize::try_from(result) {
        Ok(0) => Moved::Closed,
        Ok(bytes) => Moved::Bytes(bytes),
        Err(_) => {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS) => Moved::Blocked,
                _ => Moved::Failed(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn parts_stay_inside() {
        let piece = Piece::for_tests(1000, 10);
        assert_eq!(piece.part(4, 3), Piece { address: 1004, len: 3 });
        assert_eq!(piece.part(4, 100).len(), 6);
        assert_eq!(piece.part(11, 1).len(), 0);
    }

    #[test]
    fn gathers_and_scatters_in_order() {
        let (left, right) = UnixStream::pair().expect("socket pair");
        let region = Region::new(2 * UNPACK_PAGE_BYTES).expect("mapping");
        region.piece(10, 4).write(b"page");
        let mut list = IoList::new(usize::MAX);
        assert!(list.push_bytes(b"own "));
        assert!(list.push(region.piece(10, 4)));
        assert!(matches!(list.send(left.as_fd()), Moved::Bytes(8)));
        let mut list = IoList::new(7);
        assert!(list.push(region.piece(4094, 4)));
        assert!(!list.push(region.piece(0, 4)), "the limit is reached");
        assert!(matches!(list.receive(right.as_fd()), Moved::Bytes(7)));
        let mut rest = [0; 1];
        (&right).read_exact(&mut rest).expect("the eighth byte");
        assert_eq!(&rest, b"e");
        let mut list = IoList::new(4);
        list.push(region.piece(0, 4));
        assert!(matches!(list.receive(right.as_fd()), Moved::Blocked));
        drop(left);
        let mut list = IoList::new(4);
        list.push(region.piece(0, 4));
        assert!(matches!(list.receive(right.as_fd()), Moved::Closed));
        assert!((&right).write(b"x").is_err());
    }

    #[test]
    fn a_wild_address_is_an_error_of_the_kernels() {
        let (left, _right) = UnixStream::pair().expect("socket pair");
        let mut list = IoList::new(8);
        // SAFETY: the kernel is meant to refuse this range; nothing else touches it.
        list.push(unsafe { Piece::lent(8, 8) });
        let Moved::Failed(error) = list.send(left.as_fd()) else { panic!("must fail") };
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    }
}
