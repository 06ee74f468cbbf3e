//! Gzipped tar file of texts. Pure: bytes in, bytes out.
//!
//! The files are small, so they are stored and not compressed. This needs no other library.

const BLOCK_BYTES: usize = 512;
/// Most bytes of a stored block, as RFC 1951 has it.
const STORED_BYTES: usize = 65_535;
/// Longest name in a header.
const NAME_BYTES: usize = 100;

/// Files, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    tar: Vec<u8>,
}

impl Archive {
    /// Adds a file. A name that is too long is cut off. `time`: in seconds since 1970.
    pub(crate) fn add(&mut self, name: &str, content: &[u8], time: u64) {
        let mut header = [0; BLOCK_BYTES];
        let name = &name.as_bytes()[..name.len().min(NAME_BYTES)];
        header[..name.len()].copy_from_slice(name);
        let mut field = |at: usize, text: String| {
            header[at..at + text.len()].copy_from_slice(text.as_bytes());
        };
        field(100, "0000644\0".into());
        field(108, "0000000\0".into());
        field(116, "0000000\0".into());
        field(124, format!("{:011o}\0", content.len()));
        field(136, format!("{time:011o}\0"));
        // The sum is taken with spaces in its own place.
        field(148, " ".repeat(8));
        field(156, "0".into());
        field(257, "ustar\x0000".into());
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.tar.extend(header);
        self.tar.extend(content);
        self.tar.resize(self.tar.len().next_multiple_of(BLOCK_BYTES), 0);
    }

    /// Returns the whole file.
    pub(crate) fn into_gzip(mut self) -> Vec<u8> {
        // Two empty blocks end a tar file.
        self.tar.resize(self.tar.len() + 2 * BLOCK_BYTES, 0);
        // Deflate; no flags, no time, made on Unix.
        let mut gzip = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
        let mut blocks = self.tar.chunks(STORED_BYTES).peekable();
        while let Some(block) = blocks.next() {
            let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
            gzip.push(u8::from(blocks.peek().is_none()));
            gzip.extend(length.to_le_bytes());
            gzip.extend((!length).to_le_bytes());
            gzip.extend(block);
        }
        gzip.extend(crc32(&self.tar).to_le_bytes());
        gzip.extend((self.tar.len() as u32).to_le_bytes());
        gzip
    }
}

/// The checksum of RFC 1952.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| match sum & 1 {
            1 => (sum >> 1) ^ 0xedb8_8320,
            _ => sum >> 1,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_known_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn tar_reads_what_was_packed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("some.tar.gz");
        let mut archive = Archive::default();
        let long = "line\n".repeat(40_000);
        archive.add("some/empty", b"", 0);
        archive.add("some/long.txt", long.as_bytes(), 1_700_000_000);
        std::fs::write(&file, archive.into_gzip()).unwrap();
        let unpacked = std::process::Command::new("tar")
            .args(["-x", "-z", "-f"])
            .arg(&file)
            .arg("-C")
            .arg(folder.path())
            .output()
            .unwrap();
        assert!(unpacked.status.success() && unpacked.stderr.is_empty(), "{unpacked:?}");
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!((read("some/empty").as_str(), read("some/long.txt")), ("", long));
    }
}
