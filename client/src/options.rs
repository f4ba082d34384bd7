//! What a client is told before it reaches anybody.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How a client finds its target and behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// `host:port` of the target's bootstrap servers, at least one.
    pub bootstrap: Vec<String>,
    /// Who requests say they are from, and the name of the software.
    pub client_id: &'static str,
    /// How long an answer may take.
    pub request_timeout: Duration,
    /// Requests outstanding per pipelined connection at most.
    pub in_flight: usize,
    /// TLS and SASL.
    pub security: Security,
    /// Versions that are pinned, by API key; otherwise the highest that both sides have.
    pub api_versions: BTreeMap<i16, i16>,
    /// Local addresses to connect from, in turn: one address pair has 28,000 to 64,000 ports. None: the kernel's choice.
    pub source_ips: Vec<IpAddr>,
}

/// How connections are secured.
#[derive(Debug, Clone, Default)]
pub struct Security {
    /// TLS, when asked for.
    pub tls: Option<Tls>,
    /// SASL, when asked for.
    pub sasl: Option<Sasl>,
}

/// TLS parameters.
#[derive(Debug, Clone)]
pub struct Tls {
    /// PEM file of authorities; the system's when none.
    pub ca: Option<PathBuf>,
    /// Name to expect in the certificate; the host that is connected to when none.
    pub server_name: Option<String>,
    /// Take any certificate: for tests only, and noted in the result.
    pub insecure: bool,
}

/// SASL parameters; the password is shown nowhere.
#[derive(Clone)]
pub struct Sasl {
    /// How.
    pub mechanism: SaslMechanism,
    /// Who.
    pub username: String,
    /// The password.
    pub password: String,
}

impl std::fmt::Debug for Sasl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sasl")
            .field("mechanism", &self.mechanism)
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

/// SASL mechanisms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaslMechanism {
    /// PLAIN, RFC 4616.
    Plain,
    /// SCRAM-SHA-256, RFC 5802 and 7677.
    ScramSha256,
    /// SCRAM-SHA-512.
    ScramSha512,
}

impl SaslMechanism {
    /// Kafka's name of it.
    pub fn name(self) -> &'static str {
        match self {
            SaslMechanism::Plain => "PLAIN",
            SaslMechanism::ScramSha256 => "SCRAM-SHA-256",
            SaslMechanism::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}
