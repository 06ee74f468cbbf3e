//! Server on the same machine, which the client starts as a child process.
//!
//! The server connects back to an ephemeral port of loopback: no port has to be agreed on, and no
//! time has to be guessed. The kernel kills the server when this process dies, in whatever way; the
//! server also ends when the connection does.

use std::net::Ipv4Addr;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;

use super::acceptor::{AcceptError, Acceptor};
use super::link::RendezvousLink;
use super::socket;
use crate::budget::Budget;
use crate::failure::{ConnectionError, Failure};
use crate::output::logging;
use crate::process::{ChildProcess, Log};
use crate::session::SessionArgs;

/// Longest wait for a server to end after its work, if the command has the time.
const GRACE: Duration = Duration::from_secs(3);

/// Shortest time that a command can be given.
const SHORTEST: Duration = Duration::from_millis(1);

/// The server of a command.
pub(super) struct LocalServer {
    process: ChildProcess,
    budget: Budget,
}

impl LocalServer {
    /// Starts the server of `command` and waits until it has connected.
    pub(super) fn start(
        command: &str,
        session: &SessionArgs,
        budget: Budget,
    ) -> Result<(RendezvousLink, Self), Failure> {
        let listener = socket::bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let address =
            listener.local_addr().map_err(Failure::io("asking for the listener's address"))?;
        let executable = std::env::current_exe().map_err(Failure::io("finding this executable"))?;
        let mut line = Command::new(executable);
        line.args([command, "server", "--dial", &address.to_string()])
            .args(["--parent", &std::process::id().to_string()])
            // It has the rest of the time: both ends come to their end barrier.
            .args(budget.left().into_iter().flat_map(|left| {
                ["--timeout".to_owned(), left.max(SHORTEST).as_secs_f64().to_string()]
            }))
            .args(session.plugin.iter().flat_map(|it| ["--plugin".to_owned(), it.to_string()]))
            // The plugin is opened with it, before the client's request arrives.
            .args(session.chunk.iter().flat_map(|it| ["--chunk".to_owned(), it.0.to_string()]))
            .args(session.nic.iter().flat_map(|nic| ["--nic", nic]))
            .args(session.gpu.iter().flat_map(|gpu| ["--gpu".to_owned(), gpu.to_string()]));
        logging::pass_flags(&mut line);
        let mut process = ChildProcess::start(&mut line, Log::Shown, budget)?;
        let pid = process.id();
        let waited = budget.step();
        let stream = Acceptor::new(&listener, Ok)?.admit(waited, Some(process.ended()));
        let stream = stream.map_err(|error| match error {
            AcceptError::TimedOut(_) => ConnectionError::LocalServerSilent { pid, waited }.into(),
            AcceptError::Stopped => process.cause(),
            AcceptError::Failed(failure) => failure,
        })?;
        Ok((RendezvousLink::new(stream, budget)?, Self { process, budget }))
    }

    /// Waits for the server to end, and kills it if it does not. `outcome`: the result of this end.
    pub(super) fn conclude<T>(self, outcome: Result<T, Failure>) -> Result<T, Failure> {
        let Self { mut process, budget } = self;
        let waited = budget.closing(GRACE);
        let Some(status) = process.wait(waited)? else {
            let pid = process.id();
            let text = format!("process {pid} did not end within {waited} and was killed");
            return outcome.and(Err(Failure::OtherEnd(text)));
        };
        match outcome {
            outcome if status.success() => outcome,
            // A killed process is the cause of every failure; one that failed may have done so
            // because of this end.
            Err(failure) if status.signal().is_none() && !failure.may_be_a_symptom() => {
                Err(failure)
            }
            Err(failure) => match process.cause() {
                // It only repeats the words of this end.
                Failure::OtherEnd(words) if words.contains(&failure.one_line()) => Err(failure),
                cause => Err(cause),
            },
            Ok(_) => Err(process.cause()),
        }
    }
}
