#![allow(unsafe_code)]
//! Sets of processors, and threads that run on nothing else.

use std::path::Path;
use std::str::FromStr;
use std::{fmt, fs, io};

/// Number of processors that a set can name: as many as the system's own type.
const MAX_CPUS: usize = 8 * size_of::<libc::cpu_set_t>();

/// Text that is no list of processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a list of processors below 1024, such as 0-3,8")]
#[non_exhaustive]
pub struct CpuListError;

/// Set of processors, by the system's numbers. Never empty.
#[derive(Clone, PartialEq, Eq)]
pub struct CpuSet {
    /// One bit each, lowest first, as the system has them.
    words: [u64; MAX_CPUS / 64],
}

impl CpuSet {
    /// Restricts the calling thread to these processors, or to those of them that the system
    /// allows.
    ///
    /// # Errors
    /// Returns the system's error: it allows none of them.
    pub fn run_here(&self) -> io::Result<()> {
        let bytes = size_of_val(&self.words);
        // SAFETY: the words have the length that the call gets, and are only read. 0 is the calling
        // thread.
        match unsafe { libc::sched_setaffinity(0, bytes, self.words.as_ptr().cast()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Returns the processors on which the calling thread may run.
    ///
    /// # Errors
    /// Returns the system's error: it has more than 1,024.
    pub fn of_thread() -> io::Result<Self> {
        let mut words = [0; MAX_CPUS / 64];
        let bytes = size_of_val(&words);
        // SAFETY: the words have the length that the call gets. 0 is the calling thread.
        match unsafe { libc::sched_getaffinity(0, bytes, words.as_mut_ptr().cast()) } {
            0 => Ok(Self { words }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Returns those of the calling thread's processors that a file of the system lists: `None`
    /// where they are all, or none, or there is no such file.
    #[must_use]
    pub fn of_thread_near(list: &Path) -> Option<Self> {
        let own = Self::of_thread().ok()?;
        let near: Self = fs::read_to_string(list).ok()?.trim().parse().ok()?;
        near.and(&own).filter(|near| *near != own)
    }

    /// Returns the processors that both have, if there are any.
    #[must_use]
    pub fn and(&self, other: &Self) -> Option<Self> {
        let words = std::array::from_fn(|index| self.words[index] & other.words[index]);
        words.iter().any(|&word: &u64| word != 0).then_some(Self { words })
    }

    fn has(&self, cpu: usize) -> bool {
        self.words[cpu / 64] >> (cpu % 64) & 1 == 1
    }
}

impl FromStr for CpuSet {
    type Err = CpuListError;

    /// A list of numbers and ranges, as the system writes them: `0-3,8`.
    fn from_str(text: &str) -> Result<Self, CpuListError> {
        let number = |text: &str| match text.parse::<usize>() {
            Ok(cpu) if cpu < MAX_CPUS => Ok(cpu),
            _ => Err(CpuListError),
        };
        let mut words = [0; MAX_CPUS / 64];
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(CpuListError);
            }
            (first..=last).for_each(|cpu| words[cpu / 64] |= 1 << (cpu % 64));
        }
        Ok(Self { words })
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for cpu in (0..MAX_CPUS).filter(|&cpu| self.has(cpu)) {
            write!(f, "{separator}{cpu}")?;
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intersection_is_a_set_unless_it_is_empty() {
        let set = |text: &str| text.parse::<CpuSet>().expect("a list");
        assert_eq!(set("0-3,70").and(&set("2-8,70")), Some(set("2,3,70")));
        assert_eq!(set("0-3").and(&set("4")), None);
        let here = CpuSet::of_thread().expect("it runs somewhere");
        assert_eq!(here.and(&here), Some(here));
    }

    #[test]
    fn a_list_means_what_the_system_means_by_it() {
        let read = |text: &str| text.parse().map(|set: CpuSet| set.to_string()).ok();
        assert_eq!(read("0").as_deref(), Some("0"));
        assert_eq!(read("0-3,8,2").as_deref(), Some("0,1,2,3,8"));
        assert_eq!(read("63-64,1023").as_deref(), Some("63,64,1023"));
        for nonsense in ["", ",", "1,", "3-1", "-1", "1024", "0-1024", "a", "1 ", "0-1-2"] {
            assert_eq!(read(nonsense), None, "{nonsense:?}");
        }
    }
}
