//! Memory that peers may reach: exported, and taken back.

use tcpx_protocol::error::remote_problem::RemoteProblem;
use tcpx_protocol::exports::export_secret::ExportSecret;
use tcpx_protocol::exports::exported_range::ExportedRange;
use tcpx_protocol::exports::joint_uses::ExportKey;
use tcpx_protocol::exports::refusal::Refusal;
use tcpx_protocol::exports::remote_key::RemoteKey;
use tcpx_protocol::types::memory_id::MemoryId;

use super::Engine;
use crate::control::identity::random;
use crate::error::{Error, RegistrationProblem, Result};
use crate::settings::export_options::ExportOptions;

impl Engine {
    /// Exports a range of a registration.
    pub(crate) fn export(
        &mut self,
        memory_id: MemoryId,
        options: ExportOptions,
    ) -> Result<RemoteKey> {
        self.check_open()?;
        let ExportOptions { access, offset, bytes, is_stable } = options;
        let registrations = &self.commons.ledger.registrations;
        let to_end = registrations.info(memory_id)?.bytes.saturating_sub(offset);
        let bytes = bytes.unwrap_or(to_end);
        let span = registrations.span(memory_id, offset, bytes, access.needs())?;
        if bytes == 0 {
            let problem = RegistrationProblem::Empty;
            return Err(Error::Registration { id: Some(memory_id), problem });
        }
        let range = ExportedRange { memory_id, span, bytes, access };
        let exports = &mut self.commons.ledger.exports;
        let export = match is_stable {
            true => exports.add_stable(range),
            false => exports.add(range, ExportSecret::new(random()?)),
        };
        Ok(export.remote_key(self.commons.session.identity.session))
    }

    /// Takes back what a key opens. Peers may still use it, and cannot begin to any more.
    pub(crate) fn revoke(&mut self, key: &RemoteKey) -> Result<ExportKey> {
        let refuse = |problem| Error::Remote { peer: None, memory: key.memory_id, problem };
        if key.session != self.commons.session.identity.session {
            return Err(refuse(RemoteProblem::AnotherSession));
        }
        let exports = &mut self.commons.ledger.exports;
        let export = exports.open(key.export, &key.secret).map_err(|refusal| {
            refuse(match refusal {
                Refusal::Revoked => RemoteProblem::Revoked,
                _ => RemoteProblem::UnknownKey,
            })
        })?;
        exports.revoke(export);
        self.stop_serving_revoked();
        Ok(export)
    }
}
