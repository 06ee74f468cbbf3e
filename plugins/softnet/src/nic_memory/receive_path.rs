//! Path by which a NIC's received bytes reach a region. Everything else of a region is the same
//! for both paths.

use std::os::fd::BorrowedFd;

use tcpx_devmem::{DevmemError, Receiver, RingBinding, RxBinding, return_tokens};
use tcpx_rx::TokenRanges;

use super::ring_thread::RingThread;

/// Path by which a NIC's received bytes reach a region.
#[derive(Debug)]
pub(super) enum ReceivePath {
    /// By the kernel's device-memory TCP: each call says where bytes are.
    Devmem {
        /// Number of the binding.
        binding: u32,
        /// Number of bytes that the NIC has.
        bytes: u64,
    },
    /// By io_uring: a ring says where bytes are, and a thread of the region's own reads the ring.
    Ring(RingThread),
}

/// Binding through which a NIC is asked whether it still has the memory. The thread that watches a
/// region has it.
#[derive(Debug)]
pub(super) enum Binding {
    Devmem(RxBinding),
    Ring(RingBinding),
}

impl Binding {
    /// Returns whether the NIC is up.
    ///
    /// # Errors
    /// The NIC does not have the memory any more.
    pub(super) fn is_up(&self) -> Result<bool, DevmemError> {
        match self {
            Self::Devmem(binding) => binding.is_up(),
            Self::Ring(binding) => binding.is_up(),
        }
    }
}

impl ReceivePath {
    /// Checks that the thread that reads the ring still runs.
    ///
    /// # Errors
    /// [`DevmemError::RingFailed`].
    pub(super) fn check(&self) -> Result<(), DevmemError> {
        self.ring().map_or(Ok(()), RingThread::check)
    }

    /// Stops the reading of a lost region: nothing comes any more.
    pub(super) fn end(&self) {
        if let Self::Ring(thread) = self {
            thread.stop();
        }
    }

    /// Returns the receiver that works by calls.
    pub(super) fn receiver(&self) -> Option<Receiver> {
        match self {
            Self::Devmem { binding, bytes } => Some(Receiver::new(*binding, *bytes)),
            Self::Ring(_) => None,
        }
    }

    /// Returns the thread that reads the ring.
    pub(super) fn ring(&self) -> Option<&RingThread> {
        match self {
            Self::Devmem { .. } => None,
            Self::Ring(thread) => Some(thread),
        }
    }

    /// Gives back fragments that came on this socket.
    pub(super) fn return_fragments(
        &self,
        socket: BorrowedFd<'_>,
        tokens: &mut TokenRanges,
    ) -> Result<(), DevmemError> {
        match self {
            Self::Devmem { .. } => return_tokens(socket, tokens).map(drop),
            Self::Ring(_) => {
                self.drop_held(tokens);
                Ok(())
            }
        }
    }

    /// Releases fragments whose socket is closed, or will be. Closing returns device memory, but
    /// not memory that a ring has handed out.
    pub(super) fn drop_held(&self, tokens: &mut TokenRanges) {
        if let Self::Ring(thread) = self {
            let pages = tokens.as_slice().iter().flat_map(|range| {
                (0..range.count()).map(|offset| range.start().wrapping_add(offset))
            });
            thread.refill().return_pages(pages);
        }
        tokens.clear();
    }
}
