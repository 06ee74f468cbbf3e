//! Check that a NIC still has the area of a ring. The ring belongs to one thread, and this check to
//! another.

use std::time::Duration;

use crate::binding::has_queues;
use crate::error::DevmemError;
use crate::netlink::Netlink;
use crate::nic::{Nic, QueueUser, netdev_family};

/// Queue that io_uring has, as the kernel reports it.
#[derive(Debug)]
pub struct RingBinding {
    netlink: Netlink,
    nic: Nic,
    queue: u32,
}

impl RingBinding {
    /// Creates the check of a queue that a [`RingQueue`](super::RingQueue) has taken.
    ///
    /// # Errors
    /// Returns an error when the kernel cannot be asked.
    pub fn new(nic: &Nic, queue: u32, deadline: Duration) -> Result<Self, DevmemError> {
        Ok(Self { netlink: netdev_family(deadline)?, nic: nic.clone(), queue })
    }

    /// Checks that io_uring still has the queue, and returns whether the NIC is up. A NIC that is
    /// down keeps the memory.
    ///
    /// # Errors
    /// Returns [`DevmemError::BindingLost`] and [`DevmemError::NoNic`].
    pub fn is_up(&self) -> Result<bool, DevmemError> {
        has_queues(&self.netlink, &self.nic, &[self.queue], QueueUser::IoUring)
    }
}
