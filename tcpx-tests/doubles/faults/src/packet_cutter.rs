//! Layout of the payload of packets in pages, one socket's packets after the other. Pure.

use tcpx_sys::UNPACK_PAGE_BYTES;

const PAGE: u32 = UNPACK_PAGE_BYTES as u32;
/// Payload of a packet of the original's machines.
const USUAL_PACKET: u32 = 2 * PAGE;

/// Cuts what one socket receives. A packet begins a new page unless all of it fits behind the one
/// before.
#[derive(Debug)]
pub(crate) struct PacketCutter {
    packet: u32,
    /// Whether a packet may carry the end of one chunk and the start of the next, which then begins
    /// inside a page.
    spans: bool,
    in_packet: u32,
    page_used: u32,
}

impl PacketCutter {
    /// `packet`: payload of a packet.
    pub(crate) fn new(packet: Option<u32>, spans: bool) -> Self {
        let packet = packet.unwrap_or(USUAL_PACKET);
        Self { packet, spans, in_packet: packet, page_used: PAGE }
    }

    /// Whether chunks share pages.
    pub(crate) fn spans(&self) -> bool {
        self.spans
    }

    /// The next bytes belong to another chunk.
    pub(crate) fn begin_chunk(&mut self) {
        if !self.spans {
            (self.in_packet, self.page_used) = (self.packet, PAGE);
        }
    }

    /// Whether the next fragment begins a page.
    pub(crate) fn needs_page(&self) -> bool {
        let is_new_packet = self.in_packet == self.packet;
        let wanted = if is_new_packet { self.packet.min(PAGE) } else { 1 };
        self.page_used + wanted > PAGE
    }

    /// The next fragment of at most `most` bytes: its place in its page, and its length.
    pub(crate) fn cut(&mut self, most: u32) -> (u32, u32) {
        if self.needs_page() {
            self.page_used = 0;
        }
        if self.in_packet == self.packet {
            self.in_packet = 0;
        }
        let offset = self.page_used;
        let len = most.min(self.packet - self.in_packet).min(PAGE - offset);
        self.in_packet += len;
        self.page_used += len;
        (offset, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cuts chunks of these lengths: (whether on a new page, offset, length).
    fn cut(mut cutter: PacketCutter, chunks: &[u32]) -> Vec<(bool, u32, u32)> {
        let mut cuts = Vec::new();
        for &chunk in chunks {
            cutter.begin_chunk();
            let mut left = chunk;
            while left > 0 {
                let page = cutter.needs_page();
                let (offset, len) = cutter.cut(left);
                left -= len;
                cuts.push((page, offset, len));
            }
        }
        cuts
    }

    #[test]
    fn whole_pages_unless_packets_are_short() {
        let whole = cut(PacketCutter::new(None, false), &[10_000, 1]);
        let expected = [(true, 0, 4096), (true, 0, 4096), (true, 0, 1808), (true, 0, 1)];
        assert_eq!(whole, expected);
        let short = cut(PacketCutter::new(Some(1448), false), &[5000]);
        let expected = [(true, 0, 1448), (false, 1448, 1448), (true, 0, 1448), (false, 1448, 656)];
        assert_eq!(short, expected);
        let jumbo = cut(PacketCutter::new(Some(5000), false), &[6000]);
        assert_eq!(jumbo, [(true, 0, 4096), (true, 0, 904), (true, 0, 1000)]);
    }

    #[test]
    fn a_packet_that_spans_two_chunks_is_split() {
        let spans = cut(PacketCutter::new(None, true), &[100, 8192, 1]);
        let expected =
            [(true, 0, 100), (false, 100, 3996), (true, 0, 4096), (true, 0, 100), (false, 100, 1)];
        assert_eq!(spans, expected);
    }

    #[test]
    fn four_mebibytes_in_short_packets_are_too_many_fragments() {
        let count = |bytes| cut(PacketCutter::new(Some(1448), false), &[bytes]).len();
        assert_eq!((count(4 << 20), count(2 << 20)), (2897, 1449));
    }
}
