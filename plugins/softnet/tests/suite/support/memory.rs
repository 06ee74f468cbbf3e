//! Memory that tests send from and receive into.

use tcpx_testkit::pattern;

/// Page-aligned memory.
pub(crate) struct Memory {
    map: memmap2::MmapMut,
}

impl Memory {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { map: memmap2::MmapMut::map_anon(bytes.max(1)).expect("mapping") }
    }

    /// The pattern of `seed`.
    pub(crate) fn patterned(bytes: usize, seed: usize) -> Self {
        Self::shifted(bytes, seed, 0)
    }

    /// The same after `shift` bytes more, to send from an odd address.
    pub(crate) fn shifted(bytes: usize, seed: usize, shift: usize) -> Self {
        let mut memory = Self::new(bytes + shift);
        pattern::fill(seed as u64, 0, &mut memory.map[shift..][..bytes]);
        memory
    }

    pub(crate) fn data(&mut self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map
    }

    pub(crate) fn fill(&mut self, byte: u8) {
        self.map.fill(byte);
    }
}
