//! Failure of an exported function: a status and its text.

use tcpx_core::{Code, Error};

use crate::status::tcpx_status;

/// Outcome of the body of an exported function that cannot do its work.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: tcpx_status,
    pub(crate) text: FailureText,
}

/// Text of a failure, or the error that it is made from. An error becomes text only on demand: a
/// program that polls with a time limit of zero fails again and again, and reads few of the texts.
#[derive(Debug)]
pub(crate) enum FailureText {
    Text(String),
    Error(Box<Error>),
}

impl FailureText {
    pub(crate) fn to_text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Error(error) => error.to_string(),
        }
    }

    /// Returns the id of the diagnosis, if the error has one.
    pub(crate) fn id(&self) -> Option<Code> {
        match self {
            Self::Text(_) => None,
            Self::Error(error) => error.id(),
        }
    }
}

impl Failure {
    pub(crate) fn new(status: tcpx_status, text: impl Into<String>) -> Self {
        Self { status, text: FailureText::Text(text.into()) }
    }

    pub(crate) fn null(argument: &str) -> Self {
        Self::new(tcpx_status::TCPX_ERR_NULL, format!("{argument} is NULL"))
    }

    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self::new(tcpx_status::TCPX_ERR_ARGUMENT, text)
    }

    /// Returns the same failure as that of an item of an array.
    pub(crate) fn of_item(self, array: &str, index: usize) -> Self {
        Self::new(self.status, format!("{array}[{index}]: {}", self.text.to_text()))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { status: tcpx_status::from(&error), text: FailureText::Error(Box::new(error)) }
    }
}
