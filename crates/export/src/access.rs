//! Rights to use a volume, by any of its doors: a list of rules, of which the first that fits a client decides.
//!
//! An address is no proof: whoever is on the way can take one. A name counts only where it was proved, and together with the way
//! in which it was: the name of a certificate is not that of a secret.

use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

/// A client, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// The client's address; `None` where it came by a socket of this machine.
    pub address: Option<IpAddr>,
    /// The name that it has proved.
    pub proved: Option<Proof>,
}

/// Names, and how they were proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The names of a certificate that a trusted authority has signed.
    Certificate(Vec<String>),
    /// The name of a secret.
    Chap(String),
}

/// The rights of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Read.
    Read,
    /// Read and write.
    Write,
}

/// The clients that a rule is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// All.
    Anyone,
    /// Clients that come by a socket of this machine.
    Local,
    /// Clients whose address equals this one in that many leading bits.
    Network(IpAddr, u8),
    /// Clients whose certificate has this name.
    Certificate(String),
    /// Clients that have proved this name by its secret.
    Chap(String),
}

/// A rule for some clients. Without a right they may do nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The clients that it is for.
    pub who: Who,
    /// Their right.
    pub right: Option<Right>,
}

/// The rules of a volume. A client that none of them fits may do nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessList(pub Vec<Rule>);

/// Words that are no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// A rule names no known kind of client.
    #[error(
        "{0:?} names no clients: give anyone, local, an address or a network (10.0.0.0/8), cert:NAME for a name of a certificate, or \
         chap:NAME for one of a secret"
    )]
    Who(String),
    /// A rule names no known right.
    #[error("{0:?} is not a right: give read, write or none")]
    Right(String),
}

impl AccessList {
    /// The right of a client.
    pub fn right(&self, client: &Client) -> Option<Right> {
        self.0.iter().find(|rule| rule.who.is(client))?.right
    }
}

impl Who {
    /// Whether a client is among them.
    pub fn is(&self, client: &Client) -> bool {
        match self {
            Self::Anyone => true,
            Self::Local => client.address.is_none(),
            Self::Network(network, bits) => {
                client.address.is_some_and(|address| begins(address.to_canonical(), *network, *bits))
            }
            Self::Certificate(name) => {
                matches!(&client.proved, Some(Proof::Certificate(names)) if names.contains(name))
            }
            Self::Chap(name) => matches!(&client.proved, Some(Proof::Chap(proved)) if proved == name),
        }
    }
}

/// Whether an address begins with the first bits of another of its family.
fn begins(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let (a, b, all) = match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
        _ => return false,
    };
    (a ^ b).checked_shr(all - u32::from(bits).min(all)).is_none_or(|differs| differs == 0)
}

impl FromStr for Who {
    type Err = RuleError;
    fn from_str(text: &str) -> Result<Self, RuleError> {
        let wrong = || RuleError::Who(text.to_owned());
        let name = |name: &str| if name.is_empty() { Err(wrong()) } else { Ok(name.to_owned()) };
        if let Some(rest) = text.strip_prefix("cert:") {
            return name(rest).map(Self::Certificate);
        }
        if let Some(rest) = text.strip_prefix("chap:") {
            return name(rest).map(Self::Chap);
        }
        match text {
            "anyone" => return Ok(Self::Anyone),
            "local" => return Ok(Self::Local),
            _ => {}
        }
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let all = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(all), str::parse).ok().filter(|bits| *bits <= all).ok_or_else(wrong)?;
        Ok(Self::Network(address, bits))
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anyone => f.write_str("anyone"),
            Self::Local => f.write_str("local"),
            Self::Network(address, bits) => write!(f, "{address}/{bits}"),
            Self::Certificate(name) => write!(f, "cert:{name}"),
            Self::Chap(name) => write!(f, "chap:{name}"),
        }
    }
}

impl FromStr for Rule {
    type Err = RuleError;
    /// Clients, and their right behind a space.
    fn from_str(text: &str) -> Result<Self, RuleError> {
        let (who, right) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let right = match right.trim() {
            "read" => Some(Right::Read),
            "write" => Some(Right::Write),
            "none" => None,
            other => return Err(RuleError::Right(other.to_owned())),
        };
        Ok(Self { who: who.parse()?, right })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: Option<&str>, proved: Option<Proof>) -> Client {
        Client { address: address.map(|address| address.parse().expect("an address")), proved }
    }

    fn list(rules: &[&str]) -> AccessList {
        AccessList(rules.iter().map(|rule| rule.parse().expect("a rule")).collect())
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let list =
            list(&["10.0.0.9 none", "10.0.0.0/8 read", "2001:db8::/32 read", "local write", "chap:a write"]);
        let by = |address| list.right(&client(Some(address), None));
        assert_eq!(by("10.0.0.9"), None);
        assert_eq!(by("10.255.0.9"), Some(Right::Read));
        assert_eq!(by("::ffff:10.0.0.1"), Some(Right::Read));
        assert_eq!(by("11.0.0.1"), None);
        assert_eq!(by("2001:db8:1::1"), Some(Right::Read));
        assert_eq!(by("2001:db9::1"), None);
        assert_eq!(list.right(&client(None, None)), Some(Right::Write));
        assert_eq!(AccessList::default().right(&client(None, None)), None);
        let all = self::list(&["0.0.0.0/0 read"]);
        assert_eq!(all.right(&client(Some("1.2.3.4"), None)), Some(Right::Read));
        assert_eq!(all.right(&client(Some("::1"), None)), None);
    }

    #[test]
    fn a_name_counts_only_as_it_was_proved() {
        let list = list(&["chap:a write", "cert:b read"]);
        let at = Some("10.0.0.1");
        let certificate = |name: &str| Some(Proof::Certificate(vec!["x".into(), name.into()]));
        let chap = |name: &str| Some(Proof::Chap(name.into()));
        assert_eq!(list.right(&client(at, chap("a"))), Some(Right::Write));
        assert_eq!(list.right(&client(at, certificate("b"))), Some(Right::Read));
        assert_eq!(list.right(&client(at, certificate("a"))), None);
        assert_eq!(list.right(&client(at, chap("b"))), None);
        assert_eq!(list.right(&client(at, None)), None);
    }

    #[test]
    fn rules_are_said_in_words() {
        for text in ["anyone", "local", "10.0.0.0/8", "::/0", "cert:a.example", "chap:iqn.x"] {
            assert_eq!(text.parse::<Who>().map(|who| who.to_string()), Ok(text.to_owned()));
        }
        for wrong in ["", "any", "10.0.0.0/33", "10.0.0.0/", "::/129", "cert:", "chap:", "10.0.0.256"] {
            assert!(wrong.parse::<Who>().is_err(), "{wrong}");
        }
        for wrong in ["anyone", "anyone all", "read", "anyone read write", ""] {
            assert!(wrong.parse::<Rule>().is_err(), "{wrong}");
        }
    }
}
