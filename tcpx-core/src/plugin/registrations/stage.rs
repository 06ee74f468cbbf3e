//! Stages of a registration's life.

use crate::error::PluginHang;
use crate::workers::Ticket;

/// Stage of the end of a registration.
#[derive(Clone, Debug)]
pub(super) enum RegistrationStage {
    /// It may be used.
    Open,
    /// It is being deregistered. Nothing begins to use it, and its users are ending.
    Draining,
    /// Nothing uses it, and its comms are being called to forget it.
    Deregistering(PendingDeregistration),
}

/// Calls of the plugin that take a registration back from the comms that know it.
#[derive(Clone, Debug)]
pub(crate) struct PendingDeregistration {
    /// Ticket that ends when the calls have returned.
    pub(crate) returned: Ticket,
    /// Description of the calls if they do not return.
    pub(crate) hang: PluginHang,
}
