//! Messages that went ahead of their receives.

use foldhash::HashMap;

use crate::error::{Error, MemoryUnavailable, Result};

/// Bytes of messages that went ahead of their receives, by the numbers that the protocol has for
/// them. The protocol bounds how many they are.
#[derive(Debug, Default)]
pub(super) struct KeptMessages(HashMap<u64, Vec<u8>>);

impl KeptMessages {
    /// Keeps bytes.
    ///
    /// # Errors
    /// [`Error::MemoryUnavailable`] when the system has no memory for them.
    pub(super) fn keep(&mut self, number: u64, bytes: &[u8]) -> Result<()> {
        let mut kept = Vec::new();
        let made = kept.try_reserve_exact(bytes.len()).and_then(|()| self.0.try_reserve(1));
        made.map_err(|_| Error::MemoryUnavailable(MemoryUnavailable::Operations { count: 1 }))?;
        kept.extend_from_slice(bytes);
        self.0.insert(number, kept);
        Ok(())
    }

    /// Takes bytes out.
    pub(super) fn take(&mut self, number: u64) -> Option<Vec<u8>> {
        self.0.remove(&number)
    }
}
