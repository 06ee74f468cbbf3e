//! Which connection with which session a peer is.

use tcpx_protocol::frames::conn_info::{ConnInfo, SessionId};
use tcpx_protocol::frames::hello::Nonce;
use tcpx_protocol::frames::introduction::Introduction;

use crate::control::connector::Connector;

/// Where a peer comes from.
#[derive(Debug)]
pub(crate) struct Origin {
    /// The session at the other end.
    pub(crate) session: SessionId,
    /// Which connection of the two sessions this is, in the count of the end that began it.
    pub(crate) connection: u16,
    /// What it said when it came in; `None`: this end has dialled.
    introduction: Option<Box<Introduction>>,
    /// The hello that the other end has given up for this connection.
    pub(crate) given_up: Option<Nonce>,
}

impl Origin {
    /// This end dials.
    pub(crate) fn dialled(connector: &Connector) -> Self {
        let (session, connection) = (connector.info().session, connector.connection());
        Self { session, connection, introduction: None, given_up: None }
    }

    /// It has come in.
    pub(crate) fn came(introduction: Box<Introduction>) -> Self {
        Self {
            session: *introduction.session(),
            connection: introduction.connection(),
            introduction: Some(introduction),
            given_up: None,
        }
    }

    /// What it said when it came in; nothing if it did not.
    pub(crate) fn introduction(&self) -> Option<&Introduction> {
        self.introduction.as_deref()
    }

    /// Whether it has come in from the session that this connection info leads to.
    pub(crate) fn came_from(&self, info: &ConnInfo) -> bool {
        self.introduction.as_ref().is_some_and(|introduction| introduction.is_of(info))
    }
}
