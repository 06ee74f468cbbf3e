//! How long the kernel may take to answer.

use std::time::Duration;

/// For one question over netlink.
pub(super) const KERNEL_DEADLINE: Duration = Duration::from_secs(5);
