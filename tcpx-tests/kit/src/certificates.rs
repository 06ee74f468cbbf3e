//! Certificates of a fleet that exists for one test: authorities, and files of its members.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, process};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};

/// Folder of its own for the files of a test. Goes with the value.
#[derive(Debug)]
pub struct CertificateFolder(PathBuf);

/// Authority that issues certificates.
#[derive(Debug)]
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// Time in which a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Now.
    Now,
    /// Not any more.
    Over,
    /// Not yet.
    Later,
}

/// Files of a member of the fleet.
#[derive(Clone, Debug)]
pub struct Files {
    /// Its certificate.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities that it trusts.
    pub ca: PathBuf,
}

impl CertificateFolder {
    /// Makes the folder.
    ///
    /// # Panics
    /// The system does not let it.
    pub fn new() -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tcpx-tls-{}-{number}", process::id()));
        fs::create_dir_all(&path).expect("a folder below the temporary one");
        Self(path)
    }

    /// Returns where a file of this name is, or would be.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes the files of the member with this name, which `authority` issues and which trusts
    /// `trusted`. Replaces those that there are, each at once.
    ///
    /// # Panics
    /// The system does not let it.
    pub fn write(
        &self,
        name: &str,
        authority: &Authority,
        trusted: &[&Authority],
        validity: Validity,
    ) -> Files {
        self.write_for(&[name], authority, trusted, validity)
    }

    /// Writes the files of a member that has several names, likewise.
    ///
    /// # Panics
    /// The system does not let it.
    pub fn write_for(
        &self,
        names: &[&str],
        authority: &Authority,
        trusted: &[&Authority],
        validity: Validity,
    ) -> Files {
        let (cert, key) = authority.issue(names, validity);
        let name = names.join("+");
        let [at_cert, at_key, at_ca] =
            ["cert", "key", "ca"].map(|kind| self.file(&format!("{name}.{kind}.pem")));
        replace(&at_cert, &cert);
        replace(&at_key, &key);
        let files = Files { cert: at_cert, key: at_key, ca: at_ca };
        files.trust(trusted);
        files
    }
}

impl Default for CertificateFolder {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for CertificateFolder {
    fn drop(&mut self) {
        // What is left lies in the temporary folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Authority {
    /// Makes an authority.
    ///
    /// # Panics
    /// There are no random bytes.
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("random bytes");
        Self(CertifiedIssuer::self_signed(params, key).expect("sound parameters"))
    }

    /// Issues a certificate for these names. Returns it and its private key in PEM.
    ///
    /// # Panics
    /// A name is no DNS name or address.
    pub fn issue(&self, names: &[&str], validity: Validity) -> (String, String) {
        let mut params =
            CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
                .expect("DNS names");
        (params.not_before, params.not_after) = match validity {
            Validity::Now => (date_time_ymd(2020, 1, 1), date_time_ymd(2090, 1, 1)),
            Validity::Over => (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1)),
            Validity::Later => (date_time_ymd(2089, 1, 1), date_time_ymd(2090, 1, 1)),
        };
        let key = KeyPair::generate().expect("random bytes");
        let certificate = params.signed_by(&key, &self.0).expect("sound parameters");
        (certificate.pem(), key.serialize_pem())
    }

    /// Returns its own certificate in PEM.
    pub fn pem(&self) -> String {
        self.0.pem()
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Files {
    /// Trusts these authorities from now on, and no others.
    ///
    /// # Panics
    /// The system does not let it.
    pub fn trust(&self, authorities: &[&Authority]) {
        let all: String = authorities.iter().map(|authority| authority.pem()).collect();
        replace(&self.ca, &all);
    }

    /// Returns the variables of the environment that name the files.
    pub fn variables(&self) -> [(&'static str, PathBuf); 3] {
        [
            ("TCPX_TLS_CERT", self.cert.clone()),
            ("TCPX_TLS_KEY", self.key.clone()),
            ("TCPX_TLS_CA", self.ca.clone()),
        ]
    }
}

/// Writes a file in one step, as programs that rotate certificates do.
fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    fs::write(&beside, text).expect("room in the temporary folder");
    fs::rename(&beside, path).expect("both are in one folder");
}
