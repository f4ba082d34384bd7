//! Where metrics are served.

use std::fmt;
use std::str::FromStr;

/// `http://HOST[:PORT][/PATH]`; without a path it is `/metrics`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// With its query.
    pub(super) path: String,
}

/// What a URL looks like.
const ALLOWED: &str =
    "http://HOST:PORT/PATH, where PATH is metrics unless it is given; TLS and passwords are not spoken";

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Url, String> {
        read(text).ok_or_else(|| ALLOWED.to_owned())
    }
}

fn read(text: &str) -> Option<Url> {
    let rest = text.strip_prefix("http://")?;
    if !rest.chars().all(|c| c.is_ascii_graphic()) || rest.contains(['#', '@']) {
        return None;
    }
    let (authority, path) = match rest.find(['/', '?']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let (host, port) = match authority.strip_prefix('[') {
        Some(address) => {
            let (address, port) = address.split_once(']')?;
            address.parse::<std::net::Ipv6Addr>().ok()?;
            (address, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
        }
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    let port = match port {
        Some(port) => port.parse().ok().filter(|port| *port > 0)?,
        None => 80,
    };
    let path = match path {
        "" => "/metrics".to_owned(),
        query if query.starts_with('?') => format!("/metrics{query}"),
        path => path.to_owned(),
    };
    (!host.is_empty()).then(|| Url { host: host.to_owned(), port, path })
}

impl Url {
    /// Host and port, as in `Host:`.
    pub(super) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_as_people_write_it() {
        for (text, whole) in [
            ("http://127.0.0.1:9644/metrics", "http://127.0.0.1:9644/metrics"),
            ("http://localhost:9644", "http://localhost:9644/metrics"),
            ("http://kafka-0.kafka/", "http://kafka-0.kafka:80/"),
            ("http://[::1]:7071/public_metrics?name=a", "http://[::1]:7071/public_metrics?name=a"),
            ("http://h:1?name=a", "http://h:1/metrics?name=a"),
        ] {
            assert_eq!(text.parse::<Url>().map(|url| url.to_string()), Ok(whole.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_none_is_refused_with_what_would_be() {
        for text in [
            "",
            "127.0.0.1:9644/metrics",
            "https://h/metrics",
            "http://",
            "http://h:0/",
            "http://h:x",
            "http://h:65536",
            "http://u:p@h/",
            "http://h/a b",
            "http://h/\r\nX: y",
            "http://[::1/",
            "http://[h]:1/",
        ] {
            assert!(text.parse::<Url>().unwrap_err().contains("http://HOST:PORT/PATH"), "{text}");
        }
    }
}
