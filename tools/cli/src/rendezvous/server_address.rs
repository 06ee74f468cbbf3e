//! Address of a server, as the user gives it.

use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// A host name or address, and the port if it is not `--port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerAddress {
    /// Without brackets.
    pub(super) host: String,
    pub(super) port: Option<u16>,
}

impl From<SocketAddr> for ServerAddress {
    fn from(address: SocketAddr) -> Self {
        Self { host: address.ip().to_string(), port: Some(address.port()) }
    }
}

impl FromStr for ServerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (host, port) = if text.parse::<Ipv6Addr>().is_ok() {
            (text, None)
        } else if let Some(bracketed) = text.strip_prefix('[') {
            let (host, rest) = bracketed.split_once(']').ok_or("the ] is missing")?;
            host.parse::<Ipv6Addr>().map_err(|_| format!("{host} is no IPv6 address"))?;
            match rest.strip_prefix(':') {
                None if rest.is_empty() => (host, None),
                port => (host, Some(port.ok_or("after the ] comes :PORT")?)),
            }
        } else {
            match text.split_once(':') {
                Some((_, port)) if port.contains(':') => {
                    return Err("an IPv6 address with a port needs brackets".into());
                }
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        if host.is_empty() {
            return Err("the host is missing".into());
        }
        if host.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err("a host name has no blanks".into());
        }
        let port = match port.map(|port| (port, port.parse())) {
            None => None,
            Some((_, Ok(0))) => return Err("no server listens on port 0".into()),
            Some((_, Ok(port))) => Some(port),
            Some((port, Err(_))) => return Err(format!("\"{port}\" is no port, 1 to 65535")),
        };
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.host.contains(':'), self.port) {
            (false, None) => f.write_str(&self.host),
            (false, Some(port)) => write!(f, "{}:{port}", self.host),
            (true, None) => write!(f, "[{}]", self.host),
            (true, Some(port)) => write!(f, "[{}]:{port}", self.host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_address_parses_to_the_same_address() {
        for (text, host, port) in [
            ("10.0.0.1", "10.0.0.1", None),
            ("10.0.0.1:99", "10.0.0.1", Some(99)),
            ("host.example:65535", "host.example", Some(65_535)),
            ("::1", "::1", None),
            ("[fe80::1]", "fe80::1", None),
            ("[::1]:99", "::1", Some(99)),
        ] {
            let address: ServerAddress = text.parse().unwrap();
            assert_eq!((address.host.as_str(), address.port), (host, port), "{text}");
            assert_eq!(address.to_string().parse(), Ok(address), "{text}");
        }
    }

    #[test]
    fn an_invalid_address_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "host is missing"),
            (" ", "host is missing"),
            (":5", "host is missing"),
            ("a b", "no blanks"),
            ("10.0.0.1:", "\"\" is no port"),
            ("10.0.0.1:0", "port 0"),
            ("10.0.0.1:65536", "is no port"),
            ("10.0.0.1:-1", "is no port"),
            ("[::1", "] is missing"),
            ("[::1]5", "after the ]"),
            ("[::1]:", "\"\" is no port"),
            ("[10.0.0.1]:5", "no IPv6 address"),
            ("::1:x:5", "needs brackets"),
        ] {
            let error = text.parse::<ServerAddress>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
