//! Time that the kernel may take to answer.

use std::time::Duration;

/// Deadline of one question over netlink.
pub(crate) const KERNEL_DEADLINE: Duration = Duration::from_secs(5);
