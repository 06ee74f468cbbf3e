//! Bindings of memory that a NIC receives into or sends from. The kernel ends a binding with the
//! netlink socket that made it, so no binding outlives its process.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use crate::error::{DevmemError, Direction};
use crate::netlink::{Netlink, Refusal, generic_attributes, nested};
use crate::nic::{Nic, NicFacts, QueueUser, choose_queues, netdev_family, rx_queues};

const BIND_RX: u8 = 13;
const BIND_TX: u8 = 15;
const IFINDEX: u16 = 1;
const QUEUES: u16 = 2;
const FD: u16 = 3;
const ID: u16 = 4;
const QUEUE_ID: u16 = 1;
const QUEUE_TYPE: u16 = 3;
const RX: u32 = 0;
/// Descriptor that is never a file. The kernel looks at the device first and stops at the dma-buf.
const NO_FILE: RawFd = -1;

/// Dma-buf into which receive queues of a NIC put the payload of steered packets.
#[derive(Debug)]
pub struct RxBinding {
    netlink: Netlink,
    nic: Nic,
    queues: Vec<u32>,
    id: u32,
}

impl RxBinding {
    /// Binds the queues, which resets them. Requires CAP_NET_ADMIN.
    ///
    /// # Errors
    /// Returns each refusal of the kernel as the error that it means.
    pub fn new(
        nic: &Nic,
        queues: &[u32],
        dma_buf: BorrowedFd<'_>,
        deadline: Duration,
    ) -> Result<Self, DevmemError> {
        let netlink = netdev_family(deadline)?;
        match bind(&netlink, nic, Direction::Receive, queues, dma_buf.as_raw_fd()) {
            Ok(id) => Ok(Self { netlink, nic: nic.clone(), queues: queues.to_vec(), id }),
            Err(DevmemError::MemoryRefused { nic: name, words }) => {
                // The kernel gives the same error for a missing queue as for bad memory.
                let there = rx_queues(&netlink, nic.ifindex()).unwrap_or_default();
                let is_there = |id: &u32| there.iter().any(|queue| queue.id == *id);
                Err(match queues.iter().find(|id| !is_there(id)) {
                    Some(absent) => DevmemError::QueueTaken {
                        nic: name,
                        queues: queues.to_vec(),
                        words: format!("there is no queue {absent}"),
                    },
                    None => DevmemError::MemoryRefused { nic: name, words },
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Binds `count` free queues. Chooses other queues where another process takes one first.
    ///
    /// # Errors
    /// Returns the errors of [`choose_queues`] and [`new`](Self::new).
    pub fn on_free_queues(
        nic: &Nic,
        count: usize,
        dma_buf: BorrowedFd<'_>,
        deadline: Duration,
    ) -> Result<Self, DevmemError> {
        let choose = || {
            let chosen = choose_queues(&NicFacts::ask(nic, deadline)?, count);
            // No setting helps a NIC that lacks support.
            chosen.map_err(|error| incapable(nic, deadline).unwrap_or(error))
        };
        take_free(choose, |queues| Self::new(nic, queues, dma_buf, deadline))
    }

    /// Returns the number of the binding, by which fragments name it.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns the bound queues.
    #[must_use]
    pub fn queues(&self) -> &[u32] {
        &self.queues
    }

    /// Checks that the NIC still has the binding. A NIC that is down has it: the binding works
    /// again with the NIC.
    ///
    /// # Errors
    /// Returns [`DevmemError::BindingLost`] and [`DevmemError::NoNic`].
    pub fn check(&self) -> Result<(), DevmemError> {
        self.is_up().map(drop)
    }

    /// Checks as [`check`](Self::check) does, and returns whether the NIC is up.
    ///
    /// # Errors
    /// Returns the errors of [`check`](Self::check).
    pub fn is_up(&self) -> Result<bool, DevmemError> {
        has_queues(&self.netlink, &self.nic, &self.queues, QueueUser::DeviceMemory(self.id))
    }
}

/// Checks that `user` still has these queues of a NIC. Returns whether the NIC is up.
pub(crate) fn has_queues(
    netlink: &Netlink,
    nic: &Nic,
    queues: &[u32],
    user: QueueUser,
) -> Result<bool, DevmemError> {
    let found = rx_queues(netlink, nic.ifindex())
        .map_err(|refusal| bind_error(nic, Direction::Receive, queues, refusal))?;
    // A NIC that is down shows no queues.
    if found.is_empty() {
        return Nic::named(nic.name()).map(|_| false);
    }
    let is_there = |id: u32| found.iter().any(|queue| queue.id == id && queue.user == Some(user));
    match queues.iter().find(|&&id| !is_there(id)) {
        Some(&queue) => Err(DevmemError::BindingLost { nic: nic.name().to_owned(), queue }),
        None => Ok(true),
    }
}

/// Dma-buf from which a NIC sends.
#[derive(Debug)]
pub struct TxBinding {
    _netlink: Netlink,
    id: u32,
}

impl TxBinding {
    /// Binds the dma-buf. Requires no privilege.
    ///
    /// # Errors
    /// Returns the errors of [`RxBinding::new`].
    pub fn new(
        nic: &Nic,
        dma_buf: BorrowedFd<'_>,
        deadline: Duration,
    ) -> Result<Self, DevmemError> {
        let netlink = netdev_family(deadline)?;
        let id = bind(&netlink, nic, Direction::Send, &[], dma_buf.as_raw_fd())?;
        Ok(Self { _netlink: netlink, id })
    }

    /// Checks whether the NIC can send from device memory. Binds nothing.
    ///
    /// # Errors
    /// Returns [`DevmemError::SendUnsupported`], and any error that keeps the kernel from an
    /// answer.
    pub fn check(nic: &Nic, deadline: Duration) -> Result<(), DevmemError> {
        let netlink = netdev_family(deadline)?;
        match bind(&netlink, nic, Direction::Send, &[], NO_FILE) {
            Err(DevmemError::MemoryRefused { .. }) | Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the number of the binding, by which each send names it.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }
}

/// Checks whether the NIC, as it is set up, can receive into device memory and send from it for
/// this process. Binds nothing.
///
/// # Errors
/// Returns what is missing: a queue, a setting, a privilege, or a capability of the driver.
pub fn check_nic(nic: &Nic, deadline: Duration) -> Result<(), DevmemError> {
    let queues = choose_queues(&NicFacts::ask(nic, deadline)?, 1)?;
    let netlink = netdev_family(deadline)?;
    for (direction, queues) in [(Direction::Receive, queues.as_slice()), (Direction::Send, &[])] {
        // As in `incapable`: a request that reaches the check of the dma-buf comes from a capable
        // NIC.
        match bind(&netlink, nic, direction, queues, -1) {
            Ok(_) | Err(DevmemError::MemoryRefused { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns the reason why no queue of the NIC can ever be bound, if there is such a reason.
fn incapable(nic: &Nic, deadline: Duration) -> Option<DevmemError> {
    let netlink = netdev_family(deadline).ok()?;
    let refusal = bind(&netlink, nic, Direction::Receive, &[0], NO_FILE).err()?;
    matches!(refusal, DevmemError::ReceiveUnsupported { .. }).then_some(refusal)
}

/// Chooses queues and binds them. Repeats both while a refusal means a lost race.
pub(crate) fn take_free<T>(
    mut choose: impl FnMut() -> Result<Vec<u32>, DevmemError>,
    mut bind: impl FnMut(&[u32]) -> Result<T, DevmemError>,
) -> Result<T, DevmemError> {
    let mut queues = choose()?;
    loop {
        let error = match bind(&queues) {
            Err(error @ DevmemError::QueueTaken { .. }) => error,
            answer => return answer,
        };
        let others = choose()?;
        // The same queues are still free: the NIC refuses for another reason.
        if others == queues {
            return Err(error);
        }
        queues = others;
    }
}

fn bind(
    netlink: &Netlink,
    nic: &Nic,
    direction: Direction,
    queues: &[u32],
    file: RawFd,
) -> Result<u32, DevmemError> {
    let command = if direction == Direction::Receive { BIND_RX } else { BIND_TX };
    let mut request = netlink.request(command);
    request.push_u32(IFINDEX, nic.ifindex());
    for queue in queues {
        let (id, kind) = (queue.to_ne_bytes(), RX.to_ne_bytes());
        request.push_nest(QUEUES, &nested(&[(QUEUE_ID, &id), (QUEUE_TYPE, &kind)]));
    }
    request.push_u32(FD, file.cast_unsigned());
    let answer =
        netlink.ask(&request).map_err(|refusal| bind_error(nic, direction, queues, refusal))?;
    let attributes = answer.iter().flat_map(|payload| generic_attributes(payload));
    let id = attributes.filter(|attribute| attribute.kind == ID).find_map(|id| id.u32());
    id.ok_or(DevmemError::NoKernelSupport { what: "a binding without a number" })
}

/// Returns the meaning of a refusal to bind.
fn bind_error(nic: &Nic, direction: Direction, queues: &[u32], refusal: Refusal) -> DevmemError {
    let nic = nic.name().to_owned();
    let queues = queues.to_vec();
    let words =
        if refusal.message.is_empty() { refusal.error.to_string() } else { refusal.message };
    let is_about = |what| words.contains(what);
    match (refusal.error.raw_os_error(), direction) {
        (Some(libc::EPERM | libc::EACCES), _) => {
            DevmemError::NotPermitted { nic, what: "to bind a receive queue" }
        }
        (Some(libc::EOPNOTSUPP), Direction::Receive) => {
            DevmemError::ReceiveUnsupported { nic, words }
        }
        (Some(libc::EOPNOTSUPP), Direction::Send) => DevmemError::SendUnsupported { nic, words },
        (Some(libc::ENODEV), _) => DevmemError::NoNic { nic },
        (Some(libc::EINVAL), _) if is_about("tcp-data-split") => {
            DevmemError::HeaderSplitOff { nic }
        }
        (Some(libc::EINVAL), _) if is_about("hds-thresh") => {
            DevmemError::HeaderSplitThreshold { nic }
        }
        (Some(libc::ERANGE | libc::EEXIST | libc::EBUSY), _) => {
            DevmemError::QueueTaken { nic, queues, words }
        }
        (Some(libc::EINVAL | libc::EBADF | libc::E2BIG), _) | (_, Direction::Send) => {
            DevmemError::MemoryRefused { nic, words }
        }
        _ => DevmemError::ResetFailed { nic, queues, words },
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::os::fd::AsFd;

    use super::*;

    fn id_of(errno: i32, words: &str, direction: Direction) -> u16 {
        let nic = Nic::named("lo").expect("every namespace has one");
        let error = io::Error::from_raw_os_error(errno);
        let refusal = Refusal { error, message: words.to_owned() };
        let error = bind_error(&nic, direction, &[1], refusal);
        assert!(error.to_string().contains("lo"), "{error}");
        error.diagnosis().expect("each has one").code.number()
    }

    #[test]
    fn refusals_mean_something() {
        use Direction::{Receive, Send};
        for (errno, words, direction, id) in [
            (libc::EPERM, "", Receive, 421),
            (libc::EOPNOTSUPP, "", Receive, 403),
            (libc::EOPNOTSUPP, "Driver does not support netmem TX", Send, 404),
            (libc::EINVAL, "tcp-data-split is disabled", Receive, 405),
            (libc::EINVAL, "hds-thresh is not zero", Receive, 406),
            (libc::EINVAL, "", Receive, 424),
            (libc::EBADF, "", Send, 424),
            (libc::ENOMEM, "", Send, 424),
            (libc::ENOMEM, "", Receive, 423),
            (libc::EEXIST, "designated queue already memory provider bound", Receive, 412),
            (libc::ERANGE, "", Receive, 412),
            (libc::ENODEV, "", Receive, 428),
        ] {
            assert_eq!(id_of(errno, words, direction), id, "{errno} {words}");
        }
    }

    #[test]
    fn a_caller_that_loses_a_race_takes_other_queues() {
        let taken = |queues: &[u32]| DevmemError::QueueTaken {
            nic: "eth1".to_owned(),
            queues: queues.to_vec(),
            words: String::new(),
        };
        let mut free = vec![vec![1], vec![2], vec![3]];
        let bind = |queues: &[u32]| if queues == [2] { Ok(2) } else { Err(taken(queues)) };
        let choose = || Ok(free.pop().expect("some are left"));
        assert_eq!(take_free(choose, bind).expect("the second was free"), 2);
        let refused = take_free(|| Ok(vec![3]), bind).expect_err("the queue does not exist");
        assert!(matches!(refused, DevmemError::QueueTaken { .. }), "{refused}");
        let none = || Err(DevmemError::NoNic { nic: String::new() });
        assert!(matches!(take_free(none, bind), Err(DevmemError::NoNic { .. })));
    }

    #[test]
    fn the_loopback_cannot_be_bound() {
        let nic = Nic::named("lo").expect("every namespace has one");
        let file = std::fs::File::open("/dev/null").expect("there is one");
        let deadline = Duration::from_secs(2);
        let receive = RxBinding::new(&nic, &[0], file.as_fd(), deadline).map(drop);
        let send = TxBinding::new(&nic, file.as_fd(), deadline).map(drop);
        for (refusal, ids) in [(receive, [403, 420, 421]), (send, [404, 420, 420])] {
            let error = refusal.expect_err("it has no queues");
            // A kernel that does not know the command also says EOPNOTSUPP.
            let id = error.diagnosis().map(|diagnosis| diagnosis.code.number());
            assert!(id.is_some_and(|id| ids.contains(&id)), "{error}");
        }
        let checked = check_nic(&nic, deadline).expect_err("it has no queues");
        let id = checked.diagnosis().map(|diagnosis| diagnosis.code.number());
        assert!(id.is_some_and(|id| [407, 420].contains(&id)), "{checked}");
        let error = RxBinding::on_free_queues(&nic, 1, file.as_fd(), deadline);
        let id = error.expect_err("it has none").diagnosis().map(|it| it.code.number());
        // A process without the privilege sees an error about the settings.
        assert!(id.is_some_and(|id| [403, 407, 420].contains(&id)), "{id:?}");
    }
}
