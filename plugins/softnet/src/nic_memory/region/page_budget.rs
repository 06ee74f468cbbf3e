//! Pages of a region: how many of them messages and sockets may hold, and how many they do.

use std::sync::atomic::Ordering;

use tcpx_devmem::DevmemError;
use tcpx_sys::UNPACK_PAGE_BYTES;

use crate::sync::AtomicU32;

/// Pages of the largest packet that a socket takes beyond its receive buffer.
const PACKET_PAGES: u32 = 17;
/// Number of data sockets that a region has room for, unless their shares would be too small.
const SOCKETS: u32 = 64;
/// Smallest share: a packet, and room for another that comes meanwhile.
const LEAST_SHARE: u32 = 24;
/// Largest share, of 2 MiB.
const MOST_SHARE: u32 = 512;

/// Pages of a region, and the shares of its users.
#[derive(Debug)]
pub(super) struct PageBudget {
    pages: u32,
    /// Number of pages that sockets may hold.
    of_sockets: AtomicU32,
    /// Number of pages that messages may hold.
    of_messages: AtomicU32,
}

impl PageBudget {
    pub(super) fn new(pages: u32) -> Self {
        Self { pages, of_sockets: AtomicU32::new(0), of_messages: AtomicU32::new(0) }
    }

    pub(super) fn count(&self) -> u32 {
        self.pages
    }

    /// Returns the most pages that messages may hold.
    fn most_of_messages(&self) -> u32 {
        self.pages / 8 * 3
    }

    /// Reserves pages for a message; returns `None` if that is not possible now.
    ///
    /// # Errors
    /// There will never be this many pages.
    pub(super) fn reserve(
        &'static self,
        pages: u64,
        nic: &str,
    ) -> Result<Option<Reserved>, DevmemError> {
        let most = self.most_of_messages();
        let Some(wanted) = u32::try_from(pages).ok().filter(|&wanted| wanted <= most) else {
            return Err(DevmemError::PoolTooSmall {
                nic: nic.to_owned(),
                what: "a message",
                pages,
                free: u64::from(most),
            });
        };
        Ok(Reserved::take(&self.of_messages, wanted, most))
    }

    /// Reserves what `sockets` data sockets may hold. Also returns the receive buffer to give to
    /// each.
    ///
    /// # Errors
    /// Others have too much of the region.
    pub(super) fn share(
        &'static self,
        sockets: u16,
        nic: &str,
    ) -> Result<(Reserved, usize), DevmemError> {
        let most = self.pages / 2;
        let each = (most / SOCKETS).clamp(LEAST_SHARE, MOST_SHARE);
        let wanted = each * u32::from(sockets);
        let Some(share) = Reserved::take(&self.of_sockets, wanted, most) else {
            return Err(DevmemError::PoolTooSmall {
                nic: nic.to_owned(),
                what: "another comm",
                pages: u64::from(wanted),
                free: u64::from(most.saturating_sub(self.of_sockets.load(Ordering::Relaxed))),
            });
        };
        // The system doubles the value that it gets.
        let bytes = (each - PACKET_PAGES) as usize * UNPACK_PAGE_BYTES / 2;
        Ok((share, bytes))
    }
}

/// Reserved pages, until this is dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    of: &'static AtomicU32,
    pages: u32,
}

impl Reserved {
    /// Adds to `of` if the sum stays within `most`; otherwise returns `None` and adds nothing.
    fn take(of: &'static AtomicU32, pages: u32, most: u32) -> Option<Self> {
        let grown = |now: u32| now.checked_add(pages).filter(|&sum| sum <= most);
        #[allow(deprecated, reason = "its later name, try_update, is not in the oldest Rust")]
        let added = of.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown);
        // The drop takes off only what was added.
        added.ok().map(|_| Self { of, pages })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.of.fetch_sub(self.pages, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_pages_are_free_again_when_dropped() {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = || COUNT.load(Ordering::Relaxed);
        let three = Reserved::take(&COUNT, 3, 5).expect("there is room");
        // What is refused changes nothing, however often.
        for pages in [3, 3, u32::MAX] {
            assert!(Reserved::take(&COUNT, pages, 5).is_none());
            assert_eq!(count(), 3);
        }
        let two = Reserved::take(&COUNT, 2, 5).expect("there is room");
        drop(three);
        assert_eq!(count(), 2);
        drop(two);
        assert_eq!(count(), 0);
    }
}
