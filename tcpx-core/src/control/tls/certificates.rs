//! Certificates of a session, from files that a fleet replaces while the session runs.
//!
//! The files are looked at whenever a link is made. Changed ones are read, and serve the links that
//! are made from then on; links under way go on. Files that cannot be used leave the last good ones
//! in place. They are small and local, so a look is a few system calls.

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::OFlags;
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, InconsistentKeys, RootCertStore, ServerConfig};
use tcpx_protocol::types::encryption::Encryption;
use tcpx_protocol::types::memory::Device;
use zeroize::Zeroizing;

use super::certificate_dates::{self, CertificateDates};
use super::provider;
use crate::error::{
    CertificateFileProblem as Problem, CertificateProblem, EncryptionProblem, Error, Result,
    SettingProblem,
};
use crate::settings::SessionOptions;

/// Most bytes of a file of certificates.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Certificate, key and authorities of a session.
pub(crate) struct Certificates {
    files: Files,
    current: Mutex<Current>,
}

/// What the files held when they were last good.
struct Current {
    /// State of the files at the last attempt to read them.
    tried: Option<[Stamp; 3]>,
    configs: Configs,
}

/// Settings of TLS for both roles.
#[derive(Clone, Debug)]
pub(super) struct Configs {
    pub(super) listener: Arc<ServerConfig>,
    pub(super) connector: Arc<ClientConfig>,
}

#[derive(Clone, Debug)]
struct Files {
    cert: PathBuf,
    key: PathBuf,
    ca: PathBuf,
}

/// Mark that changes when a file is replaced or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    written: (i64, i64),
    bytes: u64,
}

impl SessionOptions {
    /// Returns when the certificate of these options is valid. `None`: they name none, or it cannot
    /// be said. It reads the files, as a session with these options would.
    ///
    /// # Errors
    /// [`Error::Setting`]: a session could not use the files.
    pub fn certificate_dates(&self) -> Result<Option<CertificateDates>> {
        Ok(self.own_certificate()?.as_ref().and_then(certificate_dates::of))
    }

    /// Returns whether the certificate of these options is for this name, which a peer looks for
    /// in it. `None`: they name none, or it cannot be said. It reads the files likewise.
    ///
    /// # Errors
    /// [`Error::Setting`]: a session could not use the files.
    pub fn certificate_is_for(&self, name: &str) -> Result<Option<bool>> {
        Ok(self.own_certificate()?.and_then(|certificate| is_for(&certificate, name)))
    }

    fn own_certificate(&self) -> Result<Option<CertificateDer<'static>>> {
        let Some(Certificates { files, .. }) = Certificates::load(self)? else { return Ok(None) };
        Ok(certificates("tls_cert", &files.cert)?.into_iter().next())
    }
}

impl Certificates {
    /// Reads the files that these options name. `None`: they name none.
    ///
    /// # Errors
    /// [`Error::Setting`]: some are missing, cannot be used, or do not belong together, or the
    /// session does not encrypt.
    pub(crate) fn load(options: &SessionOptions) -> Result<Option<Self>> {
        let named = [&options.tls_cert, &options.tls_key, &options.tls_ca];
        let files = match named {
            [None, None, None] => return Ok(None),
            [Some(cert), Some(key), Some(ca)] => {
                Files { cert: cert.clone(), key: key.clone(), ca: ca.clone() }
            }
            _ => return Err(unusable("tls_cert", Path::new(""), Problem::Incomplete)),
        };
        if options.encryption == Encryption::Off {
            return Err(unusable("tls_cert", &files.cert, Problem::NotEncrypted));
        }
        let tried = files.stamps();
        let configs = files.read()?;
        Ok(Some(Self { files, current: Mutex::new(Current { tried, configs }) }))
    }

    /// Returns the settings that the files stand for now.
    pub(super) fn configs(&self) -> Configs {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = self.files.stamps();
        if stamps != current.tried {
            current.tried = stamps;
            match self.files.read() {
                Ok(configs) => {
                    current.configs = configs;
                    tracing::info!(cert = ?self.files.cert, "new certificates are in use");
                }
                Err(error) => {
                    tracing::warn!(
                        %error,
                        "the files of certificates have changed and cannot be used: the earlier \
                         ones stay in use"
                    );
                }
            }
        }
        current.configs.clone()
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Files {
    /// Returns the state of the files. `None`: one of them is missing.
    fn stamps(&self) -> Option<[Stamp; 3]> {
        let of = |path: &Path| {
            let found = fs::metadata(path).ok()?;
            Some(Stamp {
                file: (found.dev(), found.ino()),
                written: (found.mtime(), found.mtime_nsec()),
                bytes: found.len(),
            })
        };
        Some([of(&self.cert)?, of(&self.key)?, of(&self.ca)?])
    }

    fn read(&self) -> Result<Configs> {
        let chain = certificates("tls_cert", &self.cert)?;
        let key = self.read_key()?;
        let unusable_key = |problem| unusable("tls_key", &self.key, problem);
        let key = any_supported_type(&key)
            .map_err(|error| unusable_key(Problem::Unusable(error.to_string())))?;
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(rustls::Error::InconsistentKeys(_)) => {
                return Err(unusable_key(Problem::KeyDiffers));
            }
            Err(error) => {
                return Err(unusable("tls_cert", &self.cert, Problem::Unusable(error.to_string())));
            }
        }
        let mut roots = RootCertStore::empty();
        for authority in certificates("tls_ca", &self.ca)? {
            let added = roots.add(authority);
            added.map_err(|error| self.ca_unusable(&error))?;
        }
        configs(Arc::new(certified.into()), Arc::new(roots))
            .map_err(|error| self.ca_unusable(&error))
    }

    /// Reads the private key. Its bytes are overwritten when they are not needed any more.
    fn read_key(&self) -> Result<Zeroizing<PrivateKeyDer<'static>>> {
        let bytes = Zeroizing::new(read("tls_key", &self.key)?);
        PrivateKeyDer::from_pem_slice(&bytes)
            .map(Zeroizing::new)
            .map_err(|_| unusable("tls_key", &self.key, Problem::Holds("no private key in PEM")))
    }

    fn ca_unusable(&self, error: &dyn fmt::Display) -> Error {
        unusable("tls_ca", &self.ca, Problem::Unusable(error.to_string()))
    }
}

/// Returns the settings of TLS with this certificate, and these authorities for the other end's.
fn configs(
    own: Arc<SingleCertAndKey>,
    roots: Arc<RootCertStore>,
) -> std::result::Result<Configs, Box<dyn std::error::Error>> {
    let provider = provider::provider();
    let of_connectors =
        WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
            .build()?;
    let of_listeners =
        WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build()?;
    let listener = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(provider::VERSIONS)?
        .with_client_cert_verifier(of_connectors)
        .with_cert_resolver(Arc::clone(&own) as _);
    let connector = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(provider::VERSIONS)?
        .with_webpki_verifier(of_listeners)
        .with_client_cert_resolver(own);
    Ok(Configs {
        listener: Arc::new(provider::listener_without_resumption(listener)),
        connector: Arc::new(provider::connector_without_resumption(connector)),
    })
}

/// Returns a peer's name as certificates have it: without that of its device.
pub(super) fn name_of(peer: &str) -> std::result::Result<ServerName<'static>, EncryptionProblem> {
    let peer = Device::peer_name(peer).to_owned();
    ServerName::try_from(peer.clone())
        .map_err(|_| EncryptionProblem::Certificate(CertificateProblem::OtherName(peer)))
}

/// Returns whether a certificate is for this name. `None`: it has a form that is not known.
fn is_for(certificate: &CertificateDer<'_>, name: &str) -> Option<bool> {
    let certificate = ParsedCertificate::try_from(certificate).ok()?;
    Some(name_of(name).is_ok_and(|name| verify_server_name(&certificate, &name).is_ok()))
}

fn certificates(setting: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let bytes = read(setting, path)?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(&bytes)
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| unusable(setting, path, Problem::Unusable(error.to_string())))?;
    match found.is_empty() {
        true => Err(unusable(setting, path, Problem::Holds("no certificate in PEM"))),
        false => Ok(found),
    }
}

fn read(setting: &'static str, path: &Path) -> Result<Vec<u8>> {
    let problem = |error: std::io::Error| {
        let problem = match error.kind() {
            std::io::ErrorKind::NotFound => Problem::Missing,
            _ => Problem::Unreadable(error.to_string()),
        };
        unusable(setting, path, problem)
    };
    // A pipe would have this wait for its writer.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path).map_err(problem)?;
    let found = file.metadata().map_err(problem)?;
    if !found.is_file() {
        return Err(unusable(setting, path, Problem::Holds("it is not a file")));
    }
    // With room for all of it, so that no copy of a key stays behind.
    let mut bytes = Vec::with_capacity(found.len().min(MAX_FILE_BYTES) as usize + 1);
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(problem)?;
    match bytes.len() as u64 > MAX_FILE_BYTES {
        true => Err(unusable(setting, path, Problem::Holds("more than 4 MiB"))),
        false => Ok(bytes),
    }
}

fn unusable(setting: &'static str, path: &Path, problem: Problem) -> Error {
    let shown = path.display().to_string();
    Error::setting(setting, shown, SettingProblem::Certificate(problem))
}
