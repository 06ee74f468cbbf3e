//! Machines of the two ends, which tell each other before they measure: a rate says little without
//! its processors.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::rendezvous::{ConnectedEnd, Message, Role};

/// Most characters of a text of the other end.
const MOST_CHARS: usize = 100;

/// Machine of an end. What its system does not say is empty, or 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Host {
    name: String,
    /// Model of the processor; some architectures name none.
    model: String,
    /// Processors that the system has.
    cpus: u32,
    /// Release of Linux.
    kernel: String,
}

impl Message for Host {
    const KIND: u16 = 13;
    const BODY_LIMIT: usize = 4 << 10;
}

/// Machine of an end of a measurement, as the JSON object has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct HostOfEnd {
    pub(super) end: &'static str,
    #[serde(flatten)]
    pub(super) host: Host,
}

impl Host {
    /// Returns this machine.
    fn own() -> Self {
        let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self::new(crate::output::host(), &cpus, kernel)
    }

    /// Returns a machine by its name, the kernel's list of CPUs, and its release.
    fn new(name: String, cpus: &str, kernel: String) -> Self {
        let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let model = model.map(|(_, model)| model.to_owned()).unwrap_or_default();
        let cpus = cpus.lines().filter(|line| line.starts_with("processor")).count() as u32;
        Self { name, model, cpus, kernel }.cleaned()
    }

    /// Returns it with texts that are short, and that move no terminal's cursor. The other end may
    /// send anything.
    fn cleaned(self) -> Self {
        let clean = |text: String| -> String {
            text.trim().chars().filter(|letter| !letter.is_control()).take(MOST_CHARS).collect()
        };
        let (name, model, kernel) = (clean(self.name), clean(self.model), clean(self.kernel));
        Self { name, model, cpus: self.cpus, kernel }
    }
}

impl std::fmt::Display for Host {
    /// Writes the facts that are known.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.name.is_empty() { "a host without a name" } else { &self.name })?;
        match self.cpus {
            0 => {}
            1 => f.write_str(", 1 CPU")?,
            count => write!(f, ", {count} CPUs")?,
        }
        if !self.model.is_empty() {
            write!(f, ", {}", self.model)?;
        }
        if self.kernel.is_empty() { Ok(()) } else { write!(f, ", Linux {}", self.kernel) }
    }
}

/// Exchanges the machines of both ends. Returns the client's, then the server's.
pub(super) fn exchange(connected: &mut ConnectedEnd<'_>) -> Result<Vec<HostOfEnd>, Failure> {
    let own = Host::own();
    connected.link.send(&own)?;
    let theirs = connected.link.receive::<Host>()?.cleaned();
    let of = |role: Role, host| HostOfEnd { end: role.name(), host };
    let other = of(connected.role.other(), theirs);
    let own = of(connected.role, own);
    Ok(match connected.role {
        Role::Client => vec![own, other],
        Role::Server => vec![other, own],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_says_what_its_system_gives() {
        let cpus = "processor\t: 0\nmodel name\t: Some CPU\n\nprocessor\t: 1\n";
        let host = Host::new("a".into(), cpus, "6.1\n".into());
        assert_eq!(host.to_string(), "a, 2 CPUs, Some CPU, Linux 6.1");
        let host = Host::new(String::new(), "processor : 0\n", String::new());
        assert_eq!(host.to_string(), "a host without a name, 1 CPU");
        assert!(Host::own().cpus > 0, "this machine has some");
    }

    #[test]
    fn texts_of_the_other_end_are_short_and_hold_no_control_characters() {
        let name = format!("\u{1b}[2J<b>\n{}", "é".repeat(1000));
        let host = Host { name, model: String::new(), cpus: 0, kernel: "\r".into() }.cleaned();
        assert!(host.name.starts_with("[2J<b>éé") && host.name.chars().count() == MOST_CHARS);
        assert_eq!(host.kernel, "");
    }
}
