//! Faults that a script has for a process, as the plugin asks for them.

use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::time::Duration;
use std::{fmt, io};

use tcpx_softnet::hooks::{CommHooks, Hooks, Side, SocketHooks, SocketRole};

use crate::accept_behaviour::AcceptBehaviour;
use crate::comm::FaultyComm;
use crate::process_end::crash;
use crate::quirk::Quirk;
use crate::script::FaultScript;
use crate::socket_faults::SocketFaults;

/// What a script does to a process.
#[derive(Debug)]
pub(crate) struct FaultyProcess {
    script: FaultScript,
    accept: AcceptBehaviour,
}

impl FaultyProcess {
    pub(crate) fn new(script: FaultScript) -> Self {
        Self { accept: script.accept_behaviour(), script }
    }
}

impl Hooks for FaultyProcess {
    fn misused(&self, rule: fmt::Arguments<'_>) {
        if self.script.has(Quirk::Crash) {
            crash(rule);
        }
    }

    fn accepts_unchecked(&self) -> bool {
        self.script.has(Quirk::Unchecked)
    }

    fn accepts_other_gpu(&self) -> bool {
        self.script.has(Quirk::Gpus)
    }

    fn skips_liveness(&self) -> bool {
        self.script.has(Quirk::Silence)
    }

    fn setup_delay(&self, side: Side, data_sockets: u16) -> Duration {
        self.script.setup_delay(side, data_sockets)
    }

    fn max_pending_hellos(&self) -> usize {
        self.accept.max_pending_hellos()
    }

    fn gives_up_after(&self, strays: u64) -> bool {
        self.accept.gives_up_after(strays)
    }

    fn steer(&self, data: &TcpStream, stop: BorrowedFd<'_>) -> io::Result<()> {
        self.accept.install_rule(data, stop)
    }

    fn lone_inline_bytes(&self, inline_bytes: u32, usual: u32) -> u32 {
        if self.script.has(Quirk::Inline) { inline_bytes } else { usual }
    }

    fn comm(&self, number: u64, side: Side) -> Option<Box<dyn CommHooks>> {
        Some(Box::new(FaultyComm::new(&self.script, number, side)))
    }

    fn socket(&self, number: u64, side: Side, role: SocketRole) -> Option<Box<dyn SocketHooks>> {
        let faults = SocketFaults::new(&self.script, number, side, role)?;
        Some(Box::new(faults))
    }
}
