//! Check of one rule: the section of docs/plugin-contract.md that states the rule, and the function
//! that tries it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::harness::check_result::CheckResult;
use crate::harness::fixture::Fixture;

/// Path of the page whose sections checks cite, from the root of tcpx's source tree: `§2.7` is the
/// heading `§2.7` there.
pub const CONTRACT: &str = "docs/plugin-contract.md";

/// Subject of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Group {
    /// Symbol, table, properties.
    Abi,
    /// `init` to `closeListen`.
    Lifecycle,
    /// `regMr`, `deregMr`, `getDeviceMr`.
    Registration,
    /// Arguments of `isend` and `irecv`, and how many requests a comm holds.
    Requests,
    /// Order of `test` and `irecvConsumed`.
    Fifo,
    /// Message sizes.
    Sizes,
    /// Entries of the unpack queue.
    Entries,
    /// Slots of the unpack queue.
    Queue,
    /// Progress: the calls that move bytes, and recycling of pages.
    Progress,
    /// Host memory, alone and mixed with device memory.
    Host,
    /// A peer that closes or dies.
    Peer,
    /// Several comms at once.
    Comms,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Abi => "abi",
            Self::Lifecycle => "lifecycle",
            Self::Registration => "registration",
            Self::Requests => "requests",
            Self::Fifo => "fifo",
            Self::Sizes => "sizes",
            Self::Entries => "entries",
            Self::Queue => "queue",
            Self::Progress => "progress",
            Self::Host => "host",
            Self::Peer => "peer",
            Self::Comms => "comms",
        })
    }
}

/// One rule and the function that tries it.
#[derive(Clone, Copy)]
pub struct Check {
    /// `group.rule`, unique.
    pub name: &'static str,
    /// Section of the plugin contract ([`CONTRACT`]), such as `§2.7`.
    pub section: &'static str,
    /// Subject of the check; the name begins with it.
    pub group: Group,
    /// Whether it crashes version 3.1.9.
    pub destructive: bool,
    /// The rule in one sentence.
    pub what: &'static str,
    pub(crate) body: fn(&Fixture<'_>) -> CheckResult,
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.name, self.section, self.what)
    }
}

/// Defines `CHECKS` of one file: name, section and function of each check, then its rule.
/// `#[destructive]` stands before those that crash version 3.1.9.
macro_rules! checks {
    ($group:ident: $(
        $(#[$mark:ident])? $name:literal, $section:literal, $body:expr => $what:literal;
    )*) => {
        pub(super) const CHECKS: &[$crate::check::Check] = &[$($crate::check::Check {
            name: $name,
            section: $section,
            group: $crate::check::Group::$group,
            destructive: $crate::check::checks!(@marked $($mark)?),
            what: $what,
            body: $body,
        }),*];
    };
    (@marked) => { false };
    (@marked destructive) => { true };
}
pub(crate) use checks;
