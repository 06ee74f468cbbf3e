//! Script of what a process does wrong, or the hard way, on purpose.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use tcpx_softnet::hooks::Side;

use crate::accept_behaviour::AcceptBehaviour;
use crate::fault::Fault;
use crate::parse_error::ScriptError;
use crate::quirk::Quirk;
use crate::quirks::Quirks;
use crate::shape::Shape;

/// What a process does wrong, or the hard way, so that its consumers are tested.
///
/// ```
/// let mut script = tcpx_softnet_faults::FaultScript::default();
/// script.shape = "fragments,short".parse()?;
/// script.faults = vec!["cut:send.data0@65536".parse()?];
/// # Ok::<(), tcpx_softnet_faults::ScriptError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct FaultScript {
    /// Legal but inconvenient behaviour.
    pub shape: Shape,
    /// What the shape is drawn from: the same seed gives the same run.
    pub seed: u64,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// What is done as the original does it.
    pub original: Quirks,
    /// Payload of a packet: no fragment is longer. `None`: whole pages.
    pub packet_bytes: Option<u32>,
    /// With [`Quirk::Slow`]: how long accept waits for flow steering. `None`: the original's 5 s.
    pub steering_wait: Option<Duration>,
    /// With [`Quirk::Rules`]: the folder of RxDM's sockets. `None`: there is none, and accept asks
    /// for no rule.
    pub rxdm: Option<PathBuf>,
}

/// What a packet may carry.
pub(crate) const PACKET_BYTES: RangeInclusive<u32> = 1..=65_535;
/// The original's wait for flow steering.
const STEERING_WAIT: Duration = Duration::from_secs(5);
/// Where RxDM takes steering rules.
const RULE_SOCKET: &str = "rx_rule_manager";
/// What the original sleeps for each socket of a comm.
const SOCKET_WAIT: Duration = Duration::from_millis(100);

impl FaultScript {
    /// Whether the original's behaviour is wanted.
    pub(crate) fn has(&self, quirk: Quirk) -> bool {
        self.original.has(quirk)
    }

    /// Time that connect or accept sleeps for a comm of this many data sockets.
    pub(crate) fn setup_delay(&self, side: Side, sockets: u16) -> Duration {
        if !self.has(Quirk::Slow) {
            return Duration::ZERO;
        }
        let steering = match side {
            Side::Send => Duration::ZERO,
            Side::Recv => self.steering_wait.unwrap_or(STEERING_WAIT),
        };
        SOCKET_WAIT * (u32::from(sockets) + 1) + steering
    }

    /// What accept does for a comm.
    pub(crate) fn accept_behaviour(&self) -> AcceptBehaviour {
        let rules = self.rxdm.as_ref().filter(|_| self.has(Quirk::Rules));
        let rules = rules.map(|rxdm| rxdm.join(RULE_SOCKET));
        AcceptBehaviour { rules, trusts: self.has(Quirk::Strangers) }
    }

    /// Checks what a program may have filled in. The error names the first fault that makes no
    /// sense.
    pub(crate) fn check(&self) -> Result<(), (String, ScriptError)> {
        if let Some(bytes) = self.packet_bytes.filter(|bytes| !PACKET_BYTES.contains(bytes)) {
            return Err((format!("packet_bytes: {bytes}"), ScriptError::new("1..=65535")));
        }
        match self.faults.iter().find(|fault| !fault.is_valid()) {
            None => Ok(()),
            Some(fault) => Err((format!("{fault:?}"), ScriptError::new(Fault::ALLOWED))),
        }
    }
}
