//! What a session remembers of earlier looks; each peer has its own memory besides.

use crate::stats::alarm::{Alarms, Troubles};
use crate::stats::watch::Rounds;

#[derive(Debug, Default)]
pub(super) struct SessionWatch {
    pub(super) rounds: Rounds,
    pub(super) troubles: Troubles,
    pub(super) alarms: Alarms,
}
