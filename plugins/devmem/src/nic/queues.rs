//! Receive queues of a NIC, and their users.

use crate::netlink::{Attribute, Netlink, Refusal, generic_attributes};

/// User of a receive queue besides ordinary sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueUser {
    /// Device memory, by the binding of this number.
    DeviceMemory(u32),
    /// io_uring's zero-copy receive.
    IoUring,
    /// AF_XDP.
    Xdp,
}

/// Receive queue of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxQueue {
    /// Number of the queue.
    pub id: u32,
    /// User of the queue, if it has one.
    pub user: Option<QueueUser>,
}

const QUEUE_GET: u8 = 10;
const ID: u16 = 1;
const IFINDEX: u16 = 2;
const TYPE: u16 = 3;
const DMABUF: u16 = 5;
const IO_URING: u16 = 6;
const XSK: u16 = 7;

/// Returns the queues, over a socket of the family `netdev`. A NIC that is down has none.
pub(crate) fn rx_queues(netlink: &Netlink, ifindex: u32) -> Result<Vec<RxQueue>, Refusal> {
    let mut request = netlink.request(QUEUE_GET).of_all();
    request.push_u32(IFINDEX, ifindex);
    let answer = netlink.ask(&request)?;
    Ok(answer.iter().filter_map(|payload| read_queue(generic_attributes(payload))).collect())
}

fn read_queue<'a>(attributes: impl Iterator<Item = Attribute<'a>>) -> Option<RxQueue> {
    let (mut id, mut is_rx, mut user) = (None, false, None);
    for attribute in attributes {
        match attribute.kind {
            ID => id = attribute.u32(),
            TYPE => is_rx = attribute.u32() == Some(0),
            DMABUF => user = attribute.u32().map(QueueUser::DeviceMemory),
            IO_URING => user = Some(QueueUser::IoUring),
            XSK => user = Some(QueueUser::Xdp),
            _ => {}
        }
    }
    id.filter(|_| is_rx).map(|id| RxQueue { id, user })
}

/// Checks that any payload decodes to no queue, or to a queue that the payload names.
#[cfg(any(test, fuzzing))]
pub(super) fn read_any(payload: &[u8]) {
    if let Some(queue) = read_queue(generic_attributes(payload)) {
        let named = |attribute: Attribute<'_>| attribute.u32() == Some(queue.id);
        assert!(generic_attributes(payload).any(named));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{attributes, nested};

    #[test]
    fn receive_queues_and_their_users_are_read() {
        let read = |rest: &[(u16, &[u8])]| {
            let all = [&[(ID, &[3, 0, 0, 0][..]), (IFINDEX, &[2, 0, 0, 0])], rest].concat();
            read_queue(attributes(&nested(&all)))
        };
        let receive = (TYPE, &[0, 0, 0, 0][..]);
        let queue = |user| Some(RxQueue { id: 3, user });
        assert_eq!(read(&[receive]), queue(None));
        assert_eq!(read(&[(TYPE, &[1, 0, 0, 0])]), None, "a transmit queue");
        assert_eq!(read(&[]), None);
        let bound = 9u32.to_ne_bytes();
        assert_eq!(read(&[receive, (DMABUF, &bound)]), queue(Some(QueueUser::DeviceMemory(9))));
        assert_eq!(read(&[receive, (IO_URING, &[])]), queue(Some(QueueUser::IoUring)));
        assert_eq!(read(&[receive, (XSK, &[])]), queue(Some(QueueUser::Xdp)));
    }
}
