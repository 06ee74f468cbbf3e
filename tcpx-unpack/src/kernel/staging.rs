//! Plans for jobs whose bounce buffer the kernel cannot read: the part to copy to where it can
//! read.

use crate::job::UnpackJob;

/// Largest ratio of a hull to its payload. Beyond this ratio, copying the fragments is cheaper.
const LARGEST_EXCESS: u64 = 4;

/// Plan for one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    /// Copy `bounce[start..start + bytes]` to the staging buffer, and let the kernel read there.
    Hull { start: u64, bytes: u64 },
    /// Copy each extent of fragments straight to the destination, without the kernel.
    Direct,
}

/// Returns the plan for a job, given the bytes that are left in the staging buffer.
pub(super) fn plan(job: &UnpackJob<'_>, room: u64) -> Plan {
    let fragments = job.descriptors.iter().filter(|descriptor| descriptor.len > 0);
    let (mut start, mut end, mut payload) = (u64::MAX, 0, 0);
    for descriptor in fragments {
        let (src_off, len) = (u64::from(descriptor.src_off), u64::from(descriptor.len));
        start = start.min(src_off);
        end = end.max(src_off + len);
        payload += len;
    }
    let bytes = end.saturating_sub(start);
    if bytes == 0 || bytes > room || bytes > payload.saturating_mul(LARGEST_EXCESS) {
        return Plan::Direct;
    }
    Plan::Hull { start, bytes }
}

#[cfg(test)]
mod tests {
    use tcpx_rx::UnpackDescriptor;

    use super::*;

    fn plan_of(list: &[(u32, u32)], room: u64) -> Plan {
        let descriptors: Vec<_> = list
            .iter()
            .map(|&(src_off, len)| UnpackDescriptor { src_off, len, dst_off: 0 })
            .collect();
        let job = UnpackJob {
            bounce: 4096,
            bounce_bytes: 1 << 32,
            dst: 1 << 40,
            dst_bytes: 1 << 32,
            descriptors: &descriptors,
        };
        plan(&job, room)
    }

    #[test]
    fn dense_fragments_go_by_their_hull() {
        let hull = Plan::Hull { start: 4096, bytes: 16_384 };
        assert_eq!(plan_of(&[(16_384, 4096), (4096, 4096), (0, 0)], 16_384), hull);
    }

    #[test]
    fn a_full_staging_buffer_and_far_fragments_are_copied_directly() {
        assert_eq!(plan_of(&[(16_384, 4096), (4096, 4096)], 16_383), Plan::Direct);
        assert_eq!(plan_of(&[(1 << 20, 4096), (0, 4096)], 1 << 30), Plan::Direct);
        assert_eq!(plan_of(&[], 1 << 30), Plan::Direct);
        assert_eq!(plan_of(&[(5, 0)], 1 << 30), Plan::Direct);
    }
}
