//! Version of the NCCL that a program would load, on which safe settings depend.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use tcpx_diagnosis::variables::{Env, value};

/// Name by which programs load NCCL.
const LIBRARY: &str = "libnccl.so.2";
/// Text before the version in the library.
const MARK: &[u8] = b"NCCL version ";
/// Bytes that are read at once.
const BLOCK_BYTES: usize = 1 << 20;
/// Folders that the dynamic linker searches after `LD_LIBRARY_PATH`.
const USUAL: [&str; 5] = [
    "/usr/local/nvidia/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/local/lib",
];

/// Returns the version of the NCCL that a program in this environment finds first: `major * 10000 +
/// minor * 100 + patch`. `None` where the library path has none, as when Python's packages include
/// their own.
#[must_use]
pub fn nccl_version(env: &Env) -> Option<u32> {
    let named = value(env, "LD_LIBRARY_PATH").unwrap_or_default();
    let folders = named.split(':').filter(|folder| !folder.is_empty()).chain(USUAL);
    let library = folders.map(|folder| Path::new(folder).join(LIBRARY)).find(|it| it.is_file())?;
    version_of(&library)
}

/// Returns the version by the name of the file that the link leads to, or else by its text.
fn version_of(library: &Path) -> Option<u32> {
    let file = library.canonicalize().ok()?;
    let by_name = file.file_name()?.to_str()?.strip_prefix("libnccl.so.").and_then(number);
    by_name.or_else(|| version_in(File::open(&file).ok()?).ok().flatten())
}

/// Returns the version in a library's text.
fn version_in(mut library: impl Read) -> io::Result<Option<u32>> {
    /// Longer than mark and version together.
    const OVERLAP: usize = 64;
    let mut block = Vec::new();
    loop {
        let overlap = block.len().min(OVERLAP);
        block.drain(..block.len() - overlap);
        let more = (&mut library).take(BLOCK_BYTES as u64).read_to_end(&mut block)?;
        for at in memchr::memmem::find_iter(&block, MARK) {
            let text = &block[at + MARK.len()..];
            let text = &text[..text.len().min(OVERLAP - MARK.len())];
            let end = text.iter().position(|&byte| byte != b'.' && !byte.is_ascii_digit());
            let version = end.and_then(|end| number(std::str::from_utf8(&text[..end]).ok()?));
            if version.is_some() {
                return Ok(version);
            }
        }
        if more == 0 {
            return Ok(None);
        }
    }
}

/// Parses three numbers with dots between them, and combines them into one.
fn number(text: &str) -> Option<u32> {
    let parts: Vec<u32> = text.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    match parts[..] {
        [major, minor, patch] if minor < 100 && patch < 100 => {
            major.checked_mul(10_000)?.checked_add(100 * minor + patch)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_three_numbers() {
        for (text, expected) in [
            ("2.28.9", Some(22_809)),
            ("2.19.3", Some(21_903)),
            ("2", None),
            ("2.28", None),
            ("2.100.1", None),
            ("2.28.9.1", None),
            ("", None),
        ] {
            assert_eq!(number(text), expected, "{text:?}");
        }
    }

    #[test]
    fn the_version_is_found_wherever_it_lies_in_the_text() {
        for before in [0, 10, BLOCK_BYTES - 20, BLOCK_BYTES - 5, BLOCK_BYTES, 3 * BLOCK_BYTES - 13]
        {
            let mut text = vec![b'x'; before];
            text.extend_from_slice(b"NCCL version %d\0NCCL version 2.21.5+cuda12.4\0");
            text.resize(text.len() + 100, 0);
            assert_eq!(version_in(&text[..]).ok(), Some(Some(22_105)), "after {before} bytes");
        }
        assert_eq!(version_in(&b"no version here"[..]).ok(), Some(None));
    }

    #[test]
    fn the_first_folder_that_has_it_counts_and_the_files_name_comes_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let library = |place: &str, text: &str| {
            std::fs::create_dir_all(at(place)).expect("a folder");
            std::fs::write(at(place).join(LIBRARY), text).expect("a file");
        };
        library("wheel", "..NCCL version 2.19.3+cuda12.3..");
        library("other", "..NCCL version 2.28.9+cuda13.0..");
        std::fs::create_dir(at("distribution")).expect("a folder");
        std::fs::write(at("distribution/libnccl.so.2.24.3"), "").expect("a file");
        std::os::unix::fs::symlink("libnccl.so.2.24.3", at("distribution").join(LIBRARY))
            .expect("a link");
        let found = |places: &[&str]| {
            let path = places.iter().map(|it| at(it).display().to_string()).collect::<Vec<_>>();
            nccl_version(&[("LD_LIBRARY_PATH".to_owned(), path.join(":"))].into())
        };
        assert_eq!(found(&["nothing", "wheel", "other"]), Some(21_903));
        assert_eq!(found(&["other", "wheel"]), Some(22_809));
        assert_eq!(found(&["distribution"]), Some(22_403));
    }
}
