//! What a group does with its sessions.

use tcpx_protocol::frames::conn_info::ConnInfo;

use super::Session;
use crate::control::inbound_handshake::InboundHandshake;
use crate::error::Result;

impl Session {
    /// Takes in somebody who has proven itself to the session that listens for the group.
    pub(crate) fn take_in(&self, handshake: InboundHandshake) -> Result<()> {
        self.shared.engine()?.take_in(handshake);
        Ok(())
    }

    /// Connection info that may be loaded under a name.
    pub(crate) fn check_conn_info(&self, name: &str, conn_info: &[u8]) -> Result<ConnInfo> {
        self.shared.engine()?.check_conn_info(name, conn_info)
    }

    /// Remembers how a session of another group is reached.
    pub(crate) fn know(&self, name: &str, info: ConnInfo) -> Result<()> {
        self.shared.engine()?.know(name, info)
    }

    /// The peers that are sessions of the group with this name.
    pub(crate) fn peers_of_group(&self, name: &str) -> Result<Vec<String>> {
        Ok(self.shared.engine()?.peers_of_group(name))
    }

    /// Begins to say goodbye to everybody, and waits for nobody.
    pub(crate) fn start_close(&self) -> Result<()> {
        self.shared.engine()?.start_close();
        Ok(())
    }
}
