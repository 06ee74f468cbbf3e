//! Memory of the program's own that it registers: what the system says lies behind it.

use cudarc::driver::sys::CUresult;

use crate::status::Result;

/// What lies behind a range of addresses: a part of a file, or of memory without a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Backing {
    /// Device and inode.
    file: String,
    offset: u64,
}

impl Backing {
    /// What lies behind these addresses now: one mapping, which the program shares and may write.
    pub(crate) fn of(address: u64, bytes: u64) -> Result<Self> {
        let maps = std::fs::read_to_string("/proc/self/maps");
        let maps = maps.map_err(|_| CUresult::CUDA_ERROR_OPERATING_SYSTEM)?;
        let end = address.checked_add(bytes).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let mut lines = maps.lines().filter_map(Mapping::of);
        let found = lines.find(|mapping| (mapping.start..mapping.end).contains(&address));
        let found = found.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        if found.end < end {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        // The real driver also takes memory of the heap. Nothing here does, and there is no second
        // mapping of such pages.
        if found.rights != "rw-s" {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        Ok(Self { file: found.file, offset: found.offset + (address - found.start) })
    }
}

/// A line of the system's list of mappings.
struct Mapping<'a> {
    start: u64,
    end: u64,
    rights: &'a str,
    offset: u64,
    file: String,
}

impl<'a> Mapping<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let number = |text| u64::from_str_radix(text, 16).ok();
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let (rights, offset) = (words.next()?, words.next()?);
        let file = format!("{} {}", words.next()?, words.next()?);
        Some(Self {
            start: number(start)?,
            end: number(end)?,
            rights,
            offset: number(offset)?,
            file,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_list_is_read() {
        let line = "7f00a000-7f00c000 rw-s 00003000 00:01 2051   /memfd:tcpx (deleted)";
        let mapping = Mapping::of(line).expect("it is one");
        assert_eq!((mapping.start, mapping.end), (0x7f00_a000, 0x7f00_c000));
        assert_eq!((mapping.rights, mapping.offset), ("rw-s", 0x3000));
        assert_eq!(mapping.file, "00:01 2051");
        assert!(Mapping::of("no mapping").is_none());
    }

    #[test]
    fn a_program_owns_what_it_registers() {
        let heap = vec![0_u8; 1 << 20];
        let address = heap.as_ptr().addr() as u64;
        assert_eq!(Backing::of(address, 4096), Err(CUresult::CUDA_ERROR_NOT_SUPPORTED));
        assert_eq!(Backing::of(8, 4096), Err(CUresult::CUDA_ERROR_INVALID_VALUE));
        assert_eq!(Backing::of(address, u64::MAX), Err(CUresult::CUDA_ERROR_INVALID_VALUE));
    }
}
