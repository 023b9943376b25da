//! Flags of TLS.

use std::path::PathBuf;

use clap::Args;

/// Flags of TLS.
#[derive(Clone, Debug, Args)]
pub(crate) struct TlsFlags {
    /// Certificate of this server, and any between it and its authority (PEM): NBD clients that come over TCP then have to speak TLS 1.3, and
    /// clients of Unix sockets may. SIGHUP reloads it, with the key
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM); only its owner may read FILE
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Let only clients speak TLS that have a certificate of an authority in FILE (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_clients: Option<PathBuf>,
    /// Refuse clients whose certificate a list in FILE (CRL, PEM) has taken back. Each authority that signs on the way to a client has to
    /// have a list there that is not out of date, or the client is refused, too. SIGHUP reloads it
    #[arg(long, value_name = "FILE", requires = "tls_clients")]
    pub(crate) tls_revoked: Option<PathBuf>,
    /// Refused
    #[arg(long, value_name = "FILE", hide = true, value_parser = no_shared_keys)]
    pub(crate) tls_psk: Option<PathBuf>,
}

fn no_shared_keys(_: &str) -> Result<PathBuf, String> {
    Err("TLS with pre-shared keys (TLS-PSK) is not supported, since rustls does not have it: give --tls-cert, --tls-key and \
         --tls-clients"
        .to_owned())
}
