//! Certificates of tests, as `scripts/make-test-certificates.sh` made them. Their keys are public.

/// A certificate and its private key, in PEM's form.
#[derive(Clone, Copy, Debug)]
pub struct Certificate {
    /// The certificate.
    pub chain: &'static str,
    /// Its key.
    pub key: &'static str,
}

macro_rules! certificate {
    ($name:literal) => {
        Certificate {
            chain: include_str!(concat!("certificates/", $name, ".pem")),
            key: include_str!(concat!("certificates/", $name, "-key.pem")),
        }
    };
}

/// The authority that signs all others but [`STRANGER`].
pub const AUTHORITY: &str = include_str!("certificates/ca.pem");
/// The certificate of `localhost`.
pub const SERVER: Certificate = certificate!("server");
/// Another of the same name.
pub const SERVER_NEXT: Certificate = certificate!("server-next");
/// One that is valid no more.
pub const SERVER_EXPIRED: Certificate = certificate!("server-expired");
/// The certificate of a client: `one`, and `one.example`.
pub const CLIENT: Certificate = certificate!("client");
/// The certificate of another client: `other`, and `other.example`.
pub const CLIENT_OTHER: Certificate = certificate!("client-other");
/// The first client's, of a time that is over.
pub const CLIENT_EXPIRED: Certificate = certificate!("client-expired");
/// The first client's names, taken back by the authority.
pub const CLIENT_REVOKED: Certificate = certificate!("client-revoked");
/// The authority's list of revoked certificates.
pub const REVOKED: &str = include_str!("certificates/revoked.pem");
/// A list of revoked certificates that has expired.
pub const REVOKED_EXPIRED: &str = include_str!("certificates/revoked-expired.pem");
/// The first client's names, by an authority that is not trusted.
pub const STRANGER: Certificate = certificate!("stranger");
