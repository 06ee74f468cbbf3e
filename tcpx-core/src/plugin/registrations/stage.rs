//! Stages of a registration's life.

use crate::error::PluginHang;
use crate::workers::Ticket;

/// How far the end of a registration is.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// It may be used.
    Open,
    /// It is being deregistered: nothing begins to use it, and what uses it is to end.
    Leaving,
    /// Nothing uses it, and the comms that know it are being told to forget it.
    Forgetting(Forgetting),
}

/// Calls of the plugin that take a registration back from the comms that know it.
#[derive(Clone, Debug)]
pub(crate) struct Forgetting {
    /// Ends when they have returned.
    pub(crate) returned: Ticket,
    /// Describes them if they do not return.
    pub(crate) hang: PluginHang,
}
