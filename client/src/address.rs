//! Where a broker is.

use std::fmt;
use std::str::FromStr;

/// Host and port of a broker, as it advertises them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// A name or an IP address, an IPv6 one without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let wrong = || format!("{text:?} is no HOST:PORT");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = bracketed.unwrap_or(host);
        let port = port.parse().map_err(|_| wrong())?;
        if host.is_empty() || (host.contains(':') && bracketed.is_none()) {
            return Err(wrong());
        }
        Ok(Address { host: host.into(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_is_written() {
        for text in ["localhost:9092", "127.0.0.1:1", "[::1]:65535"] {
            assert_eq!(text.parse::<Address>().expect(text).to_string(), text);
        }
        assert_eq!("[::1]:9".parse::<Address>().expect("an address").host, "::1");
        for text in ["localhost", ":9092", "h:0x1", "h:65536", "::1:9092", "h:"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
