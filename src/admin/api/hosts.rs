//! By which names the page and the API may be asked.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use serde_json::json;

/// The names beside IP addresses and `localhost`; `*` for any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts(Vec<String>);

impl Hosts {
    /// From `admin_hosts`: names with commas between them.
    pub fn new(names: &str) -> Hosts {
        Hosts(names.split(',').map(|name| name.trim().to_ascii_lowercase()).filter(|name| !name.is_empty()).collect())
    }

    /// Whether a request with this `Host` is answered.
    pub fn knows(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split_once(']').map_or("", |(address, _)| address),
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        };
        let name = name.to_ascii_lowercase();
        let own = name == "localhost" || name.parse::<IpAddr>().is_ok();
        own || self.0.iter().any(|known| *known == name || known == "*")
    }
}

/// Lets a request through that was asked by a known name.
pub async fn known_host(State(hosts): State<Arc<Hosts>>, request: Request, next: Next) -> Response {
    let mut named = request.headers().get_all(header::HOST).iter();
    let host = named.next().and_then(|host| host.to_str().ok());
    if named.next().is_none() && host.is_some_and(|host| hosts.knows(host)) {
        return next.run(request).await;
    }
    let why = "this name is not known: use the address, localhost, or add the name to --admin-hosts";
    super::answered(StatusCode::MISDIRECTED_REQUEST, json!({"error": why}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_localhost_and_names_that_are_set_are_known_and_no_other() {
        let hosts = Hosts::new("gw.example.com, Other");
        for known in [
            "127.0.0.1:9644",
            "10.0.0.1",
            "[::1]:9644",
            "[fe80::1]",
            "localhost",
            "LOCALHOST:1",
            "gw.example.com:9644",
            "other",
        ] {
            assert!(hosts.knows(known), "{known}");
        }
        for unknown in [
            "",
            "evil.example.com",
            "evil.example.com:9644",
            "127.0.0.1.evil.com",
            "[evil]",
            "[::1",
            ":9644",
            "gw.example.com.evil",
        ] {
            assert!(!hosts.knows(unknown), "{unknown}");
        }
        assert!(!Hosts::default().knows("gw.example.com"));
        assert!(Hosts::new("*").knows("anything:1"));
    }
}
