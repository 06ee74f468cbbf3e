//! Choice of the receive queues for device memory. Pure.
//!
//! Only queues without ordinary packets are taken. A flow rule (`steering`) then sends exactly one
//! connection to such a queue.

use super::facts::NicFacts;
use super::settings::HeaderSplit;
use crate::error::DevmemError;

/// Returns the last `count` free queues, or the reason why there are fewer.
///
/// A bound queue hands out memory that ordinary sockets cannot read. A queue that any packet may
/// reach is therefore never chosen.
///
/// # Errors
/// Returns the setting to change first, with the diagnosis that explains how.
pub fn choose_queues(facts: &NicFacts, count: usize) -> Result<Vec<u32>, DevmemError> {
    let nic = || facts.nic.clone();
    if let Some(rings) = facts.rings {
        if rings.header_split == HeaderSplit::Off {
            return Err(DevmemError::HeaderSplitOff { nic: nic() });
        }
        if rings.header_split_threshold_bytes.is_some_and(|bytes| bytes > 0) {
            return Err(DevmemError::HeaderSplitThreshold { nic: nic() });
        }
    }
    if !facts.has_flow_steering {
        return Err(DevmemError::FlowSteeringOff { nic: nic() });
    }
    let is_shared = |id: u32| facts.shared.as_ref().is_none_or(|shared| shared.contains(&id));
    let free = facts.queues.iter().filter(|queue| queue.user.is_none() && !is_shared(queue.id));
    // Queues are taken from the end: administrators who reserve queues leave the first ones to
    // ordinary packets.
    let mut chosen: Vec<u32> = free.map(|queue| queue.id).collect();
    chosen.sort_unstable();
    if count == 0 || chosen.len() < count {
        return Err(DevmemError::NoFreeQueue {
            nic: nic(),
            wanted: count,
            free: chosen.len(),
            queues: facts.queues.len(),
            shared: facts.queues.iter().filter(|queue| is_shared(queue.id)).count(),
            taken: facts.queues.iter().filter(|queue| queue.user.is_some()).count(),
        });
    }
    Ok(chosen.split_off(chosen.len() - count))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::nic::queues::{QueueUser, RxQueue};
    use crate::nic::settings::Rings;

    /// Returns the facts of a NIC with eight queues. The first four have ordinary packets.
    fn facts() -> NicFacts {
        NicFacts {
            nic: "eth1".to_owned(),
            rings: Some(Rings {
                header_split: HeaderSplit::On,
                header_split_threshold_bytes: Some(0),
            }),
            has_flow_steering: true,
            queues: (0..8).map(|id| RxQueue { id, user: None }).collect(),
            shared: Some(BTreeSet::from([0, 1, 2, 3])),
        }
    }

    fn id(facts: &NicFacts, count: usize) -> Option<u16> {
        choose_queues(facts, count).err()?.diagnosis().map(|diagnosis| diagnosis.code.number())
    }

    #[test]
    fn the_last_free_queues_are_taken() {
        let mut facts = facts();
        assert_eq!(choose_queues(&facts, 1).expect("a queue"), [7]);
        assert_eq!(choose_queues(&facts, 4).expect("queues"), [4, 5, 6, 7]);
        facts.queues[7].user = Some(QueueUser::DeviceMemory(3));
        facts.queues[5].user = Some(QueueUser::Xdp);
        assert_eq!(choose_queues(&facts, 2).expect("queues"), [4, 6]);
    }

    #[test]
    fn too_few_queues_are_counted() {
        let mut facts = facts();
        facts.queues[7].user = Some(QueueUser::IoUring);
        let error = choose_queues(&facts, 4).expect_err("three are left");
        assert_eq!(
            error.to_string(),
            "eth1 has 3 of 4 receive queues free: of 8, 4 have ordinary packets, 1 have another \
             user"
        );
        assert_eq!(id(&facts, 4), Some(422));
        assert_eq!(id(&facts, 0), Some(422));
        facts.shared = None;
        assert_eq!(id(&facts, 1), Some(422), "packets may go anywhere");
        facts.queues.clear();
        assert_eq!(id(&facts, 1), Some(422), "the NIC is down");
    }

    #[test]
    fn settings_come_first() {
        let mut facts = facts();
        facts.has_flow_steering = false;
        assert_eq!(id(&facts, 1), Some(407));
        let rings = |header_split, bytes| {
            Some(Rings { header_split, header_split_threshold_bytes: Some(bytes) })
        };
        facts.rings = rings(HeaderSplit::On, 128);
        assert_eq!(id(&facts, 1), Some(406));
        facts.rings = rings(HeaderSplit::Off, 128);
        assert_eq!(id(&facts, 1), Some(405));
        facts.rings = None;
        facts.has_flow_steering = true;
        assert_eq!(choose_queues(&facts, 1).expect("the kernel decides"), [7]);
    }
}
