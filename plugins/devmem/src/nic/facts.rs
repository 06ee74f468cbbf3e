//! Facts that decide whether a NIC can receive into device memory.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use super::identity::Nic;
use super::queues::{RxQueue, rx_queues};
use super::settings::{Rings, has_flow_steering, rings, rss_queues};
use crate::error::DevmemError;
use crate::netlink::Netlink;

/// Settings and queues of a NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicFacts {
    /// Name of the NIC.
    pub nic: String,
    /// Header split, or `None` when the driver does not say, and the kernel decides.
    pub rings: Option<Rings>,
    /// Whether flow rules can be made.
    pub has_flow_steering: bool,
    /// Receive queues, none while the NIC is down.
    pub queues: Vec<RxQueue>,
    /// Queues that a packet without a rule may reach. `None` when the driver does not say: it may
    /// be any queue.
    pub shared: Option<BTreeSet<u32>>,
}

impl NicFacts {
    /// Asks the kernel, for at most `deadline` a request. Changes nothing.
    ///
    /// # Errors
    /// Returns [`DevmemError::NoKernelSupport`], or the system's error.
    pub fn ask(nic: &Nic, deadline: Duration) -> Result<Self, DevmemError> {
        let netlink = netdev_family(deadline)?;
        let queues = rx_queues(&netlink, nic.ifindex()).map_err(|refusal| {
            let source = io::Error::from(refusal);
            DevmemError::System { what: "the receive queues cannot be asked for", source }
        })?;
        Ok(Self {
            nic: nic.name().to_owned(),
            rings: rings(deadline, nic.name()).ok(),
            has_flow_steering: has_flow_steering(deadline, nic.name()).unwrap_or(false),
            queues,
            shared: rss_queues(deadline, nic.name()).ok().filter(|queues| !queues.is_empty()),
        })
    }
}

/// Opens a socket for the netlink family that has bindings.
pub(crate) fn netdev_family(deadline: Duration) -> Result<Netlink, DevmemError> {
    Netlink::open("netdev", deadline).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => {
            DevmemError::NoKernelSupport { what: "no netlink family netdev" }
        }
        _ => DevmemError::System { what: "the kernel cannot be asked over netlink", source },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nic::settings::HeaderSplit;

    #[test]
    fn the_loopback_has_nothing_of_it() {
        let nic = Nic::named("lo").expect("every namespace has one");
        match NicFacts::ask(&nic, Duration::from_secs(2)) {
            Ok(facts) => {
                assert_eq!((facts.nic.as_str(), facts.shared), ("lo", None));
                assert!(!facts.has_flow_steering);
                assert!(facts.rings.is_none_or(|rings| rings.header_split != HeaderSplit::On));
            }
            Err(error) => assert!(matches!(error, DevmemError::NoKernelSupport { .. }), "{error}"),
        }
    }
}
