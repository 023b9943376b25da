//! Where arrays are served.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use brindle_export::nbd;
use brindle_host::Any;
use brindle_host::opening::{Exports, Listen};
use brindle_io::SocketId;
use brindle_io::uring::{ListenError, SocketRights, Uring};
use rustix::io::Errno;

use super::tls::{Certificates, Gives};
use crate::base::failure::Failure;
use crate::base::path::absolute;
use crate::base::uri;

/// Where to listen.
#[derive(Debug)]
pub(super) enum ListenPlace {
    /// A Unix socket.
    Unix(PathBuf),
    /// Host and port: every address that the name stands for, each once.
    Tcp(Vec<SocketAddr>),
}

/// Where a server listens.
#[derive(Clone, Debug)]
pub(super) enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
    /// Where clients have to speak TLS.
    Tls(SocketAddr),
}

impl Address {
    /// The URI for NBD clients. `export` is the name that has to be chosen, where there are several.
    pub(super) fn uri(&self, export: Option<&str>) -> String {
        let export = export.map(uri::name);
        match (self, export) {
            (Self::Unix(path), export) => {
                format!("nbd+unix:///{}?socket={}", export.unwrap_or_default(), uri::path(path))
            }
            (Self::Tcp(address), None) => format!("nbd://{address}"),
            (Self::Tcp(address), Some(export)) => format!("nbd://{address}/{export}"),
            (Self::Tls(address), None) => format!("nbds://{address}"),
            (Self::Tls(address), Some(export)) => format!("nbds://{address}/{export}"),
        }
    }
}

impl ListenPlace {
    /// The addresses that are meant.
    pub(super) fn find(listen: &Listen) -> Result<Self, Failure> {
        let text = match listen {
            Listen::Unix(path) => return Ok(Self::Unix(path.clone())),
            Listen::Tcp(text) => text,
        };
        let found = text
            .to_socket_addrs()
            .map_err(|source| Failure::system(format!("{text} can't be resolved to an address"), source))?;
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for address in found {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            return Err(Failure::Usage(format!("{text} names no address: give one that this machine has")));
        }
        Ok(Self::Tcp(addresses))
    }

    /// Refuses an address that other machines can reach where clients prove nothing, unless that is asked for; for
    /// one that is not refused, the access that it gives is reported. `flag` is how it was said, `way_out` how
    /// clients would have to prove themselves.
    pub(super) fn check(
        &self,
        flag: &str,
        gives: Gives,
        insecure: bool,
        way_out: &str,
    ) -> Result<(), Failure> {
        if self.is_of_this_machine() {
            return Ok(());
        }
        if !gives.proof && !insecure {
            return Err(Failure::Usage(format!(
                "{flag} can be reached from other machines, and its clients would not have to authenticate: {way_out}, or say --insecure"
            )));
        }
        let not = |given: bool| if given { "" } else { "not " };
        eprintln!("brindle: {flag}: {}authenticated, {}encrypted", not(gives.proof), not(gives.secrecy));
        Ok(())
    }

    /// Whether it can be reached from this machine alone.
    pub(super) fn is_of_this_machine(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp(addresses) => addresses.iter().all(|address| address.ip().to_canonical().is_loopback()),
        }
    }

    /// Listens, and tells the addresses. Clients wait until a server takes the sockets.
    pub(super) fn listen(
        &self,
        uring: &Uring,
        rights: SocketRights,
        is_secure: bool,
    ) -> Result<Vec<(SocketId, Address)>, Failure> {
        match self {
            Self::Unix(path) => {
                Ok(vec![(uring.listen_unix_as(path, rights)?, Address::Unix(absolute(path)))])
            }
            Self::Tcp(addresses) => {
                let address = if is_secure { Address::Tls } else { Address::Tcp };
                let bound = listen_tcp(uring, addresses)?;
                Ok(bound.into_iter().map(|(socket, bound)| (socket, address(bound))).collect())
            }
        }
    }
}

/// Listens on addresses, see [`bind`].
pub(super) fn listen_tcp(
    uring: &Uring,
    addresses: &[SocketAddr],
) -> Result<Vec<(SocketId, SocketAddr)>, ListenError> {
    bind(addresses, |address| {
        let socket = uring.listen_tcp(address)?;
        Ok((socket, uring.local_addr(socket).unwrap_or(address)))
    })
}

/// The places of NBD servers.
pub(super) fn find(
    exports: &Exports,
    certificates: Option<&Certificates>,
) -> Result<Vec<ListenPlace>, Failure> {
    let gives = certificates.map_or_else(Gives::default, Certificates::gives);
    let way_out = if gives.secrecy {
        "give --tls-clients, listen on 127.0.0.1"
    } else {
        "give --tls-cert, --tls-key and --tls-clients, listen on 127.0.0.1 or a Unix socket and let ssh forward it"
    };
    let find = |listen: &Listen| {
        let place = ListenPlace::find(listen)?;
        place.check(&format!("--nbd {listen}"), gives, exports.insecure, way_out)?;
        Ok(place)
    };
    exports.nbd.iter().map(find).collect()
}

/// Has a server answer those who come to these sockets.
pub(super) fn serve(
    server: &nbd::Server<Any>,
    listening: Vec<(SocketId, Address)>,
    certificates: Option<&Certificates>,
) {
    for (socket, address) in listening {
        let demanded = !matches!(address, Address::Unix(_));
        server.serve_securely(socket, certificates.map(|certificates| certificates.security(demanded)));
    }
}

/// Listens on all addresses of a name, on one port: where the kernel is to choose it, that of the first. Addresses that
/// this machine does not have (names stand for `::1` where IPv6 is off) are done without if it has another.
pub(super) fn bind<T>(
    addresses: &[SocketAddr],
    mut listen: impl FnMut(SocketAddr) -> Result<(T, SocketAddr), ListenError>,
) -> Result<Vec<(T, SocketAddr)>, ListenError> {
    let (mut bound, mut absent) = (Vec::new(), None);
    for mut address in addresses.iter().copied() {
        if address.port() == 0 {
            address.set_port(bound.first().map_or(0, |(_, first): &(T, SocketAddr)| first.port()));
        }
        match listen(address) {
            Ok(listening) => bound.push(listening),
            Err(error) if is_absent(&error) => absent = absent.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    match absent {
        Some(error) if bound.is_empty() => Err(error),
        _ => Ok(bound),
    }
}

fn is_absent(error: &ListenError) -> bool {
    let ListenError::Address { source, .. } = error else { return false };
    let absent = [Errno::ADDRNOTAVAIL, Errno::AFNOSUPPORT];
    Errno::from_io_error(source).is_some_and(|errno| absent.contains(&errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_the_export_where_it_has_to_be_chosen() {
        let (unix, tcp) = (Address::Unix("/run/a.nbd".into()), Address::Tcp(([127, 0, 0, 1], 7).into()));
        let uris = |export| [unix.uri(export), tcp.uri(export)];
        assert_eq!(uris(None), ["nbd+unix:///?socket=/run/a.nbd", "nbd://127.0.0.1:7"]);
        let escaped = ["nbd+unix:///%C3%A4%20%3F?socket=/run/a.nbd", "nbd://127.0.0.1:7/%C3%A4%20%3F"];
        assert_eq!(uris(Some("ä ?")), escaped);
    }

    #[test]
    fn only_this_machine_is_served_unasked() {
        let check = |text: &str, proof, insecure| {
            let gives = Gives { proof, secrecy: false };
            ListenPlace::find(&text.parse().unwrap()).unwrap().check(text, gives, insecure, "prove something")
        };
        for inside in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "unix:/run/a"] {
            assert!(check(inside, false, false).is_ok(), "{inside}");
        }
        for outside in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "[2001:db8::1]:1", "[::ffff:192.0.2.1]:1"] {
            let why = check(outside, false, false).unwrap_err().to_string();
            assert!(why.contains(outside) && why.contains("prove something, or say --insecure"), "{why}");
            assert!(check(outside, true, false).is_ok() && check(outside, false, true).is_ok(), "{outside}");
        }
    }

    /// A machine that has these addresses, and gives out port 7.
    fn machine(has: &[&str], addresses: &[&str]) -> Result<Vec<String>, ListenError> {
        let has: Vec<std::net::IpAddr> = has.iter().map(|text| text.parse().unwrap()).collect();
        let addresses: Vec<SocketAddr> = addresses.iter().map(|text| text.parse().unwrap()).collect();
        let bound = bind(&addresses, |mut address| {
            if !has.contains(&address.ip()) {
                let source = Errno::ADDRNOTAVAIL.into();
                return Err(ListenError::Address { address, source });
            }
            if address.port() == 9 {
                return Err(ListenError::AddressInUse(address));
            }
            address.set_port(if address.port() == 0 { 7 } else { address.port() });
            Ok(((), address))
        })?;
        Ok(bound.iter().map(|(_, address)| address.to_string()).collect())
    }

    #[test]
    fn all_addresses_of_a_name_are_listened_on() {
        let (four, six) = ("127.0.0.1", "::1");
        assert_eq!(machine(&[four, six], &["[::1]:5", "127.0.0.1:5"]).unwrap(), ["[::1]:5", "127.0.0.1:5"]);
        assert_eq!(machine(&[four, six], &["[::1]:0", "127.0.0.1:0"]).unwrap(), ["[::1]:7", "127.0.0.1:7"]);
        assert_eq!(machine(&[four], &["[::1]:0", "127.0.0.1:0"]).unwrap(), ["127.0.0.1:7"]);
        assert!(matches!(machine(&[], &["[::1]:5"]), Err(ListenError::Address { .. })));
        assert!(matches!(machine(&[four], &["[::1]:9", "127.0.0.1:9"]), Err(ListenError::AddressInUse(_))));
        // The address that this machine resolves the name to.
        let ListenPlace::Tcp(found) = ListenPlace::find(&"localhost:5".parse().unwrap()).unwrap() else {
            panic!("a name and a port")
        };
        assert!("localhost:5".to_socket_addrs().unwrap().all(|address| found.contains(&address)));
    }
}
