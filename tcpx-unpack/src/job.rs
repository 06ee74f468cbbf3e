//! Job of unpacking one chunk, and the checks that every backend makes before it copies.

use tcpx_rx::UnpackDescriptor;

use crate::error::{Side, UnpackError};

/// Job for one arrived chunk: fragments of a bounce buffer that belong at a destination.
///
/// Fragment `d` is copied as `dst[d.dst_off..][..d.len] = bounce[d.src_off..][..d.len]`. Any
/// length, alignment and order is allowed, and a length of 0 copies nothing. The destinations of
/// different fragments must not overlap: the winner would be undefined.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct UnpackJob<'a> {
    /// Address of the bounce buffer.
    pub bounce: u64,
    /// Size of the bounce buffer in bytes.
    pub bounce_bytes: u64,
    /// Address of the destination.
    pub dst: u64,
    /// Size of the destination in bytes.
    pub dst_bytes: u64,
    /// The fragments. Offsets are relative to `bounce` and `dst`.
    pub descriptors: &'a [UnpackDescriptor],
}

/// Facts about a submit's fragments that the check has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FragmentStats {
    /// Number of descriptors with bytes to copy.
    pub(crate) fragments: usize,
    /// Length of the longest fragment in bytes.
    pub(crate) longest: u32,
    /// Bytes of all fragments, overlaps counted twice.
    pub(crate) bytes: u64,
}

impl<'a> UnpackJob<'a> {
    /// Creates a job of these fragments. Its bounce buffer and its destination are empty so far.
    #[inline]
    #[must_use]
    pub const fn new(descriptors: &'a [UnpackDescriptor]) -> Self {
        Self { bounce: 0, bounce_bytes: 0, dst: 0, dst_bytes: 0, descriptors }
    }

    /// Sets the bounce buffer: its address, and its size in bytes.
    #[inline]
    #[must_use]
    pub const fn with_bounce(mut self, address: u64, bytes: u64) -> Self {
        (self.bounce, self.bounce_bytes) = (address, bytes);
        self
    }

    /// Sets the destination: its address, and its size in bytes.
    #[inline]
    #[must_use]
    pub const fn with_destination(mut self, address: u64, bytes: u64) -> Self {
        (self.dst, self.dst_bytes) = (address, bytes);
        self
    }

    /// Checks that every fragment lies inside both memories. `index` names the job in errors.
    fn check(&self, index: usize, checked: &mut FragmentStats) -> Result<(), UnpackError> {
        if self.descriptors.is_empty() {
            return Ok(());
        }
        let bounce_end = range_end(index, Side::Bounce, self.bounce, self.bounce_bytes)?;
        let dst_end = range_end(index, Side::Destination, self.dst, self.dst_bytes)?;
        if self.bounce < dst_end && self.dst < bounce_end {
            return Err(UnpackError::Overlap { job: index, bounce: self.bounce, dst: self.dst });
        }
        // Every chunk goes through this loop. Only the furthest ends count, so the loop has no
        // branch.
        let (mut furthest_src, mut furthest_dst) = (0, 0);
        let (mut longest, mut empty, mut bytes) = (0, 0, 0);
        for descriptor in self.descriptors {
            let len = u64::from(descriptor.len);
            furthest_src = furthest_src.max(u64::from(descriptor.src_off) + len);
            furthest_dst = furthest_dst.max(descriptor.dst_off.saturating_add(len));
            longest = longest.max(descriptor.len);
            empty += usize::from(len == 0);
            bytes += len;
        }
        checked.fragments += self.descriptors.len() - empty;
        checked.longest = checked.longest.max(longest);
        checked.bytes = checked.bytes.saturating_add(bytes);
        if furthest_src > self.bounce_bytes || furthest_dst > self.dst_bytes {
            return Err(self.out_of_bounds(index));
        }
        Ok(())
    }

    /// Finds the first descriptor that leaves its memory. The caller knows that there is such a
    /// descriptor.
    #[cold]
    fn out_of_bounds(&self, job: usize) -> UnpackError {
        let mut error = UnpackError::BadRange {
            job,
            side: Side::Destination,
            address: self.dst,
            bytes: self.dst_bytes,
        };
        for (entry, descriptor) in self.descriptors.iter().enumerate().rev() {
            let len = u64::from(descriptor.len);
            let sides = [
                (Side::Destination, descriptor.dst_off, self.dst_bytes),
                (Side::Bounce, u64::from(descriptor.src_off), self.bounce_bytes),
            ];
            for (side, offset, bytes) in sides {
                if len > bytes || offset > bytes - len {
                    error = UnpackError::OutOfBounds { job, entry, side, offset, len, bytes };
                }
            }
        }
        error
    }
}

/// Returns the first address after a memory, or an error when there can be no such memory.
fn range_end(job: usize, side: Side, address: u64, bytes: u64) -> Result<u64, UnpackError> {
    let end = address.checked_add(bytes).filter(|_| address != 0);
    end.ok_or(UnpackError::BadRange { job, side, address, bytes })
}

/// Checks all jobs of a submit, so that a bad job stops the submit before a byte has moved.
pub(crate) fn check_all(jobs: &[UnpackJob<'_>]) -> Result<FragmentStats, UnpackError> {
    let mut checked = FragmentStats::default();
    for (index, job) in jobs.iter().enumerate() {
        job.check(index, &mut checked)?;
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(src_off: u32, len: u32, dst_off: u64) -> UnpackDescriptor {
        UnpackDescriptor { src_off, len, dst_off }
    }

    fn job(descriptors: &[UnpackDescriptor]) -> UnpackJob<'_> {
        UnpackJob {
            bounce: 0x10000,
            bounce_bytes: 4096,
            dst: 0x20000,
            dst_bytes: 1000,
            descriptors,
        }
    }

    #[test]
    fn fragments_may_touch_both_ends() {
        let descriptors =
            [descriptor(0, 1000, 0), descriptor(4096, 0, 1000), descriptor(3096, 1000, 0)];
        let checked = FragmentStats { fragments: 2, longest: 1000, bytes: 2000 };
        assert_eq!(check_all(&[job(&descriptors)]), Ok(checked));
    }

    #[test]
    fn the_error_names_job_descriptor_and_side() {
        let good = [descriptor(0, 8, 0)];
        let source = [descriptor(0, 8, 0), descriptor(4089, 8, 8)];
        assert_eq!(
            check_all(&[job(&good), job(&source)]),
            Err(UnpackError::OutOfBounds {
                job: 1,
                entry: 1,
                side: Side::Bounce,
                offset: 4089,
                len: 8,
                bytes: 4096
            })
        );
        let destination = [descriptor(0, 8, u64::MAX - 3)];
        assert_eq!(
            check_all(&[job(&destination)]),
            Err(UnpackError::OutOfBounds {
                job: 0,
                entry: 0,
                side: Side::Destination,
                offset: u64::MAX - 3,
                len: 8,
                bytes: 1000
            })
        );
    }

    #[test]
    fn the_first_of_several_errors_is_named() {
        let descriptors = [descriptor(0, 8, 0), descriptor(4090, 8, 999), descriptor(0, 8, 2000)];
        assert!(matches!(
            check_all(&[job(&descriptors)]),
            Err(UnpackError::OutOfBounds { entry: 1, side: Side::Bounce, .. })
        ));
    }

    #[test]
    fn lengths_larger_than_the_memory_are_refused() {
        let long = [descriptor(0, 1001, 0)];
        assert!(matches!(
            check_all(&[job(&long)]),
            Err(UnpackError::OutOfBounds { side: Side::Destination, len: 1001, .. })
        ));
    }

    #[test]
    fn null_wrapping_and_overlapping_memory_is_refused() {
        let descriptors = [descriptor(0, 8, 0)];
        let null = UnpackJob { dst: 0, ..job(&descriptors) };
        assert!(matches!(
            check_all(&[null]),
            Err(UnpackError::BadRange { job: 0, side: Side::Destination, .. })
        ));
        let wrapping = UnpackJob { bounce: u64::MAX - 4, ..job(&descriptors) };
        assert!(matches!(
            check_all(&[wrapping]),
            Err(UnpackError::BadRange { job: 0, side: Side::Bounce, .. })
        ));
        let overlapping = UnpackJob { dst: 0x10fff, ..job(&descriptors) };
        assert_eq!(
            check_all(&[overlapping]),
            Err(UnpackError::Overlap { job: 0, bounce: 0x10000, dst: 0x10fff })
        );
        assert!(check_all(&[UnpackJob { dst: 0x11000, ..job(&descriptors) }]).is_ok());
    }

    #[test]
    fn a_job_without_descriptors_needs_no_memory() {
        let empty =
            UnpackJob { bounce: 0, bounce_bytes: 0, dst: 0, dst_bytes: 0, descriptors: &[] };
        assert_eq!(check_all(&[empty]), Ok(FragmentStats::default()));
    }
}
