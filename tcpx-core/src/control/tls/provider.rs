//! Ciphers and key exchange of encrypted links.
//!
//! The keys are exchanged by X25519 together with ML-KEM-768. So what is recorded today stays
//! secret from a quantum computer of later years. Both ends are of one version of the protocol, so
//! there is one way and nothing to choose.

use std::sync::{Arc, OnceLock};

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group};
use rustls::server::NoServerSessionStorage;
use rustls::{ClientConfig, ServerConfig, SupportedProtocolVersion};
use tcpx_seal::suite::Suite;

/// The one version of TLS.
pub(super) const VERSIONS: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// Returns the ciphers and the key exchange of this process.
pub(super) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(provider_for(Suite::fastest()))))
}

/// Returns those of an end with this fastest cipher. A processor without instructions for AES takes
/// the other cipher alone, so two ends use AES only if both have them.
fn provider_for(fastest: Suite) -> CryptoProvider {
    let cipher_suites = match fastest {
        Suite::Aes256Gcm => vec![
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        Suite::ChaCha20Poly1305 => vec![cipher_suite::TLS13_CHACHA20_POLY1305_SHA256],
    };
    let kx_groups = vec![kx_group::X25519MLKEM768];
    CryptoProvider { cipher_suites, kx_groups, ..default_provider() }
}

/// Returns these settings of a listener, so that each connection exchanges keys.
pub(super) fn listener_without_resumption(mut config: ServerConfig) -> ServerConfig {
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config
}

/// Returns these settings of a connector, so that each connection exchanges keys, and none says the
/// peer's name in clear.
pub(super) fn connector_without_resumption(mut config: ClientConfig) -> ClientConfig {
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_without_instructions_for_aes_never_takes_it() {
        let names = |suite| {
            let suites = provider_for(suite).cipher_suites;
            suites.iter().map(|suite| format!("{:?}", suite.suite())).collect::<Vec<_>>()
        };
        assert_eq!(names(Suite::ChaCha20Poly1305), ["TLS13_CHACHA20_POLY1305_SHA256"]);
        assert_eq!(names(Suite::Aes256Gcm)[0], "TLS13_AES_256_GCM_SHA384");
    }
}
