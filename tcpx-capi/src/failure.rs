//! The failure of a function: a status and the words for it.

use tcpx_core::{Code, Error};

use crate::status::tcpx_status;

/// What the body of an exported function returns when it cannot do its work.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: tcpx_status,
    pub(crate) text: String,
    /// The diagnosis, if the error has one.
    pub(crate) id: Option<Code>,
}

impl Failure {
    pub(crate) fn new(status: tcpx_status, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), id: None }
    }

    pub(crate) fn null(argument: &str) -> Self {
        Self::new(tcpx_status::TCPX_ERR_NULL, format!("{argument} is NULL"))
    }

    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self::new(tcpx_status::TCPX_ERR_ARGUMENT, text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { id: error.id(), ..Self::new(tcpx_status::from(&error), error.to_string()) }
    }
}
