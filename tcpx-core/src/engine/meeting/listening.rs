//! Listener, connection info, and names that peers may have: the ways in which this session and
//! others reach each other.

use std::net::SocketAddr;

use tcpx_protocol::frames::conn_info::ConnInfo;

use crate::control::listener::ControlListener;
use crate::engine::Engine;
use crate::error::{Error, Result, SettingProblem};
use crate::plugin::nics;
use crate::settings::check_name;

impl Engine {
    /// Opens the control listener, once, and returns its connection info.
    pub(crate) fn listen(&mut self) -> Result<Vec<u8>> {
        self.check_open()?;
        let listener = match &self.meeting.listener {
            Some(listener) => listener,
            None => {
                let session = &self.resources.session;
                let mut listener =
                    ControlListener::listen(session.options.listen, &session.options.advertise)?;
                listener.watch(&session.poller);
                self.meeting.listener.insert(listener)
            }
        };
        let bound = listener.address()?;
        let options = &self.resources.session.options;
        let addresses = match (options.advertise.is_empty(), bound.ip().is_unspecified()) {
            (false, _) => options.advertise.clone(),
            (true, false) => vec![bound.ip()],
            (true, true) => nics::local_addresses(),
        };
        let addresses = addresses.into_iter().map(|ip| SocketAddr::new(ip, bound.port())).collect();
        let info = ConnInfo {
            session: self.resources.session.identity.session,
            secret: self.resources.session.identity.secret.clone(),
            encryption: self.resources.session.identity.encryption,
            credential: self.resources.session.identity.credentials.kind(),
            addresses: ConnInfo::limit_addresses(addresses),
        };
        tracing::debug!(addresses = ?info.addresses, "listening for peers");
        Ok(info.encode())
    }

    pub(crate) fn load_conn_info(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let info = self.check_conn_info(name, bytes)?;
        self.meeting.infos.insert(name.to_owned(), info);
        Ok(())
    }

    /// Checks and returns connection info that may be loaded under this name.
    pub(crate) fn check_conn_info(&self, name: &str, bytes: &[u8]) -> Result<ConnInfo> {
        self.check_open()?;
        check_peer_name(name)?;
        Ok(ConnInfo::decode(bytes)?)
    }

    /// Checks that a name is free: no peer has it, or one that is over, and no accept waits for
    /// one.
    pub(super) fn check_free(&self, name: &str) -> Result<()> {
        if self.meeting.accept_queue.is_accepting(name) {
            return Err(Error::PeerState {
                peer: name.to_owned(),
                state: "being accepted",
                cure: "another thread waits for it",
            });
        }
        match self.peer(name) {
            Err(_) => Ok(()),
            Ok((_, peer)) if peer.is_gone() => Ok(()),
            Ok((_, peer)) => Err(Error::PeerState {
                peer: name.to_owned(),
                state: peer.state(),
                cure: "it is known already; disconnect it first",
            }),
        }
    }
}

pub(super) fn check_peer_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::setting("peer name", "", SettingProblem::Empty));
    }
    check_name("peer name", name)
}
