//! Which end of a command this process is, and how it reaches the other.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use crate::bootstrap::{self, Link};
use crate::failure::Failure;
use crate::other_end::OtherEnd;
use crate::pair;
use crate::session::SessionArgs;

/// The two ends and how they meet.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct EndArgs {
    /// Which end this process is; without it both ends run here, as two processes over loopback
    #[arg(value_enum, value_name = "END")]
    end: Option<EndName>,

    /// The server's host name or address, with :PORT if it is not --port [client only]
    #[arg(value_name = "ADDR", required_if_eq("end", "client"))]
    address: Option<String>,

    /// TCP port on which the two ends meet; 0 lets the system choose [server, client]
    #[arg(long, default_value_t = 12345, value_name = "PORT", help_heading = "Meeting")]
    port: u16,

    /// Longest time for one step: the other end's coming, one iteration, one answer
    #[arg(long, default_value = "30", value_name = "SECONDS", help_heading = "Meeting")]
    timeout: Seconds,

    /// Connect to this address instead of listening: the started end of a pair.
    #[arg(long, hide = true, requires = "parent")]
    dial: Option<SocketAddr>,

    /// Process that started this one and must not be outlived.
    #[arg(long, hide = true)]
    parent: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum EndName {
    /// Wait for a client and receive
    Server,
    /// Connect to a server and send
    Client,
}

/// A number of seconds, more than 0 and at most a day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seconds(pub(crate) Duration);

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse::<f64>() {
            Ok(seconds) if (0.001..=86_400.0).contains(&seconds) => {
                Ok(Self(Duration::from_secs_f64(seconds)))
            }
            _ => Err("not a number of seconds from 0.001 to 86400".into()),
        }
    }
}

/// What this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

impl EndArgs {
    /// The process that runs both ends is the client.
    pub(crate) fn role(&self) -> Role {
        match self.end {
            Some(EndName::Server) => Role::Server,
            Some(EndName::Client) | None => Role::Client,
        }
    }

    /// Whether another process of this command started this one and speaks for both.
    pub(crate) fn is_started_end(&self) -> bool {
        self.dial.is_some()
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.0
    }

    /// Checks what clap cannot, and ties this process to the one that started it.
    pub(crate) fn begin(&self) -> Result<(), Failure> {
        if let (Some(EndName::Server), Some(address)) = (self.end, &self.address) {
            let text = format!(
                "the server takes no address (got {address}); it listens on every one, see --port"
            );
            return Err(Failure::Usage(text));
        }
        self.parent.map_or(Ok(()), pair::live_with)
    }

    /// As the client: reaches the server, or starts it.
    pub(crate) fn reach_server(
        &self,
        command: &str,
        session: &SessionArgs,
    ) -> Result<OtherEnd, Failure> {
        match &self.address {
            Some(address) => {
                let link = bootstrap::dial(address, self.port, self.timeout())?;
                tracing::debug!(server = %link.peer(), "Bootstrap connection established");
                Ok(OtherEnd::new(link))
            }
            None => pair::start(command, session, self.timeout()),
        }
    }

    /// As the server: the client that comes.
    pub(crate) fn meet_client(&self) -> Result<Link, Failure> {
        if let Some(address) = self.dial {
            return bootstrap::dial(&address.to_string(), self.port, self.timeout());
        }
        let listener = bootstrap::bind((Ipv4Addr::UNSPECIFIED, self.port).into())?;
        let address =
            listener.local_addr().map_err(Failure::io("asking for the listener's address"))?;
        writeln!(std::io::stderr(), "listening on {address}")
            .map_err(Failure::io("writing to stderr"))?;
        bootstrap::accept(&listener, self.timeout())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_whole_or_not_and_never_none() {
        assert_eq!("30".parse(), Ok(Seconds(Duration::from_secs(30))));
        assert_eq!("0.5".parse(), Ok(Seconds(Duration::from_millis(500))));
        for text in ["0", "-1", "inf", "NaN", "1e9", "30s", ""] {
            assert!(text.parse::<Seconds>().is_err(), "{text}");
        }
    }
}
