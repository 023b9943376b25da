//! TLS for doors whose protocol has a place for it: who this server is, and by which authority clients are known.
//!
//! TLS 1.3 alone, with X.509 certificates on both sides. Keys that both sides share (TLS-PSK) can't be had: rustls has none that
//! come from outside.

use core::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, version};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// The most names of a certificate that count.
const MOST_NAMES: usize = 64;

/// Reasons why a server can't use these certificates. Messages never show a part of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// A text without a certificate.
    #[error("there is no certificate in the {0}: it must hold some in PEM's form")]
    NoCertificate(&'static str),
    /// Part of a text is not a certificate.
    #[error("the {0} holds something that is not a certificate: {1}")]
    NotACertificate(&'static str, String),
    /// A text without a key.
    #[error("there is no private key: it must be in PEM's form, and not encrypted")]
    NoKey,
    /// The key is not that of the certificate, or of a kind that is not known.
    #[error("the private key can't be that of the certificate: {0}")]
    WrongKey(String),
    /// The certificate is out of date.
    #[error("the certificate has expired, {0} days ago: get a new one")]
    Expired(u64),
    /// The certificate is not valid yet.
    #[error("the certificate is not valid yet: look at the clock")]
    NotYet,
    /// The authority can't be used.
    #[error("clients can't be verified with these authorities: {0}")]
    Authority(String),
    /// A text without a list of certificates that were taken back.
    #[error("there is no list of certificates that were taken back (CRL): it must be in PEM's form")]
    NoList,
}

/// Texts in PEM's form.
#[derive(Clone, Copy)]
pub struct Pems<'a> {
    /// The server's certificate, and those between it and its authority.
    pub chain: &'a [u8],
    /// Its private key.
    pub key: &'a [u8],
    /// The authorities that sign certificates of clients; with them clients have to show one.
    pub clients: Option<&'a [u8]>,
    /// Lists of certificates that these authorities have taken back; with them each authority on the way to a client has to have one that is
    /// not out of date.
    pub revoked: Option<&'a [u8]>,
}

/// The TLS side of a server. What it is made of can be replaced while it runs, for connections that come from then on.
pub struct Tls {
    config: Mutex<Arc<ServerConfig>>,
    knows_clients: bool,
}

/// A server's name and key that are good, and are to take the place of others.
pub struct NextTls(Arc<ServerConfig>);

impl NextTls {
    /// Looks at the texts.
    ///
    /// # Errors
    /// As [`Tls::new`].
    pub fn new(pems: Pems<'_>) -> Result<Self, TlsError> {
        config(pems, SystemTime::now()).map(|config| Self(Arc::new(config)))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("knows_clients", &self.knows_clients).finish_non_exhaustive()
    }
}

impl Tls {
    /// A server of this name and key.
    ///
    /// # Errors
    /// They don't fit together, or are out of date.
    pub fn new(pems: Pems<'_>) -> Result<Self, TlsError> {
        let config = Mutex::new(Arc::new(config(pems, SystemTime::now())?));
        Ok(Self { config, knows_clients: pems.clients.is_some() })
    }

    /// Replaces all of it at once.
    ///
    /// # Errors
    /// As [`Tls::new`]: it stays as it was.
    pub fn replace(&self, pems: Pems<'_>) -> Result<(), TlsError> {
        self.become_next(NextTls::new(pems)?);
        Ok(())
    }

    /// Replaces all of it by what has been found to be good.
    pub fn become_next(&self, next: NextTls) {
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = next.0;
    }

    /// Whether clients have to prove who they are.
    pub fn knows_clients(&self) -> bool {
        self.knows_clients
    }

    /// The state of a connection on which nothing has been said; `None` if that is not available.
    pub(crate) fn begin(&self) -> Option<ServerConnection> {
        let config = Arc::clone(&self.config.lock().unwrap_or_else(PoisonError::into_inner));
        ServerConnection::new(config).ok()
    }
}

fn config(pems: Pems<'_>, now: SystemTime) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = certificates(pems.chain, "server's file")?;
    let key = PrivateKeyDer::from_pem_slice(pems.key).map_err(|_| TlsError::NoKey)?;
    check_dates(&chain[0], now)?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&version::TLS13])
        .map_err(|error| TlsError::WrongKey(error.to_string()))?;
    let builder = match pems.clients {
        None => builder.with_no_client_auth(),
        Some(authorities) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(authorities, "file of authorities")? {
                roots.add(authority).map_err(|error| TlsError::Authority(error.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .with_crls(pems.revoked.map_or(Ok(Vec::new()), lists)?)
                .enforce_revocation_expiration();
            let verifier = verifier.build().map_err(|error| TlsError::Authority(error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config =
        builder.with_single_cert(chain, key).map_err(|error| TlsError::WrongKey(error.to_string()))?;
    // Each connection proves itself: none goes on where another was.
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    Ok(config)
}

fn certificates(text: &[u8], of: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let all = all.map_err(|error| TlsError::NotACertificate(of, error.to_string()))?;
    if all.is_empty() { Err(TlsError::NoCertificate(of)) } else { Ok(all) }
}

fn lists(text: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(text).collect();
    all.ok().filter(|all| !all.is_empty()).ok_or(TlsError::NoList)
}

fn check_dates(certificate: &CertificateDer<'_>, now: SystemTime) -> Result<(), TlsError> {
    let parsed = Certificate::from_der(certificate)
        .map_err(|error| TlsError::NotACertificate("server's file", error.to_string()))?;
    let validity = parsed.tbs_certificate().validity();
    let now = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    if validity.not_before.to_unix_duration() > now {
        return Err(TlsError::NotYet);
    }
    match now.checked_sub(validity.not_after.to_unix_duration()) {
        Some(over) => Err(TlsError::Expired(over.as_secs() / (24 * 60 * 60))),
        None => Ok(()),
    }
}

/// The names of a certificate whose signature has been checked: of its subject, and the others by which it is known.
pub(crate) fn names(certificate: &[u8]) -> Vec<String> {
    let Ok(parsed) = Certificate::from_der(certificate) else { return Vec::new() };
    let tbs = parsed.tbs_certificate();
    let common = tbs.subject().common_name().ok().flatten();
    let mut names: Vec<String> = common.into_iter().map(|name| name.value().into_owned()).collect();
    if let Ok(Some((_, others))) = tbs.get_extension::<SubjectAltName>() {
        names.extend(others.0.iter().filter_map(|name| match name {
            GeneralName::DnsName(name)
            | GeneralName::Rfc822Name(name)
            | GeneralName::UniformResourceIdentifier(name) => Some(name.as_str().to_owned()),
            _ => None,
        }));
    }
    names.truncate(MOST_NAMES);
    names
}
