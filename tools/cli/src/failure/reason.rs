//! Reasons why a command failed, each as the one line that its user reads.

use std::process::ExitCode;

use tcpx_core::{Departure, Error};

use super::connection::ConnectionError;
use crate::deadline::Deadline;

/// Event that ends a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line or the environment asks for something impossible.
    #[error("{0}")]
    Usage(String),
    /// An error of the library.
    #[error(transparent)]
    Library(#[from] Error),
    /// The connection between the two ends.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The other end aborted and sent the reason.
    #[error("the other end failed: {0}")]
    OtherEnd(String),
    /// The other end refused the request of this end.
    #[error("the other end refused: {0}")]
    Refused(String),
    /// The server has another client.
    #[error("the other end refused: the server is busy with {0}; try again later")]
    Busy(String),
    /// This end refused the request of the other end, which has the reason.
    #[error("{0}")]
    RefusedHere(String),
    /// A system call.
    #[error("{what}: {error}")]
    Io {
        /// Action that was attempted.
        what: String,
        /// Error of the system.
        error: std::io::Error,
    },
    /// The command's time is over.
    #[error("no time was left: {waited} passed while this end was {doing}")]
    OutOfTime {
        /// Step that was under way.
        doing: String,
        /// Time limit that has passed.
        waited: Deadline,
    },
    /// A plugin ended or blocked the process in which `--isolate` opened it.
    #[error("{0}")]
    PluginProcess(String),
    /// The requested name is unknown.
    #[error("{0}")]
    Unknown(String),
    /// The measurement with another client of the same server failed.
    #[error("{0}")]
    OtherClient(String),
    /// The user interrupted the command.
    #[error("interrupted; the results until then were printed")]
    Interrupted,
    /// Bytes did not arrive as they were sent.
    #[error("NOT VERIFIED: {0}")]
    NotVerified(String),
}

impl Failure {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |error| Self::Io { what, error }
    }

    /// Returns whether the other end has the failure already.
    pub(crate) fn is_known_to_other_end(&self) -> bool {
        matches!(
            self,
            Self::OtherEnd(_)
                | Self::Refused(_)
                | Self::Busy(_)
                | Self::RefusedHere(_)
                | Self::NotVerified(_)
        )
    }

    /// Returns whether the other end may have the cause: it does not answer, or has closed the
    /// connection.
    pub(crate) fn may_be_a_symptom(&self) -> bool {
        match self {
            Self::Connection(error) => error.is_lost(),
            Self::Library(Error::PeerGone { how, .. }) => !matches!(how, Departure::Abort(_)),
            Self::Library(Error::Deadline { .. }) | Self::OutOfTime { .. } | Self::Io { .. } => {
                true
            }
            _ => false,
        }
    }

    /// Returns 2 for a mistake of the user, 1 for other failures, 130 after an interrupt.
    pub(crate) fn exit_status(&self) -> u8 {
        match self {
            Self::Usage(_)
            | Self::Library(Error::Setting { .. })
            | Self::Connection(ConnectionError::BadAddress { .. }) => 2,
            // As a shell does for a command that an interrupt ended.
            Self::Interrupted => 130,
            _ => 1,
        }
    }

    /// Returns the exit status as `main` returns it.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.exit_status())
    }

    /// Returns the message without line breaks or other control characters, which a peer's text
    /// could contain.
    pub(crate) fn one_line(&self) -> String {
        one_line(&self.to_string())
    }
}

/// Returns words joined by single blanks, without control characters.
pub(crate) fn one_line(text: &str) -> String {
    let words: Vec<String> = text
        .split_whitespace()
        .map(|word| word.chars().filter(|c| !c.is_control()).collect())
        .collect();
    words.join(" ")
}

/// Returns the message of clap, without its usage text, as one line.
pub(crate) fn usage_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let paragraphs: Vec<String> = text
        .split("\n\n")
        .map(one_line)
        .filter(|part| {
            let boilerplate = ["Usage:", "For more", "tip: to pass"];
            !part.is_empty() && !boilerplate.iter().any(|start| part.starts_with(start))
        })
        .collect();
    let message = paragraphs.join("; ");
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    format!("{message}; --help explains every flag")
}

#[cfg(test)]
mod tests {
    use tcpx_core::SettingProblem;

    use super::*;

    #[test]
    fn a_peers_text_cannot_break_the_line_or_the_terminal() {
        let failure = Failure::OtherEnd("one\ntwo \u{1b}[31mred\r\n".into());
        assert_eq!(failure.one_line(), "the other end failed: one two [31mred");
    }

    #[test]
    fn only_what_the_other_end_may_explain_is_a_symptom() {
        let gone = |how| {
            Failure::from(Error::PeerGone {
                peer: "server".into(),
                phase: tcpx_core::Phase::Send,
                how,
            })
        };
        assert!(gone(Departure::LinkClosed).may_be_a_symptom());
        assert!(!gone(Departure::Abort("its reason is here already".into())).may_be_a_symptom());
        assert!(!Failure::from(Error::Cancelled).may_be_a_symptom());
        assert!(!Failure::Usage("no".into()).may_be_a_symptom());
    }

    #[test]
    fn mistakes_of_the_user_have_an_exit_status_of_their_own() {
        let usage = Failure::Usage("no".into());
        let setting = Error::Setting {
            name: "channels",
            value: "0".into(),
            problem: SettingProblem::OutOfRange { low: 1, high: 64 },
        };
        assert_eq!((usage.exit_status(), Failure::from(setting).exit_status()), (2, 2));
        assert_eq!(Failure::OtherEnd("gone".into()).exit_status(), 1);
    }
}
