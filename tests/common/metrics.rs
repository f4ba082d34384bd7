//! The metrics of a gateway that was started with `admin-listen`.

use std::net::SocketAddr;

use super::gateway::Gateway;
use super::http::get;

/// Where the gateway says that its metrics are.
pub fn admin(gateway: &Gateway) -> SocketAddr {
    gateway.until_logged(&["http://", "/healthz"]);
    // After a restart there are several.
    let written = gateway.written();
    let is_banner = |line: &&str| line.contains("http://") && line.contains("/healthz");
    let banner = written.lines().rfind(is_banner).expect("it was there");
    let at = banner.find("http://").expect("the banner names the admin address") + "http://".len();
    let end = at + banner[at..].find('/').expect("a path");
    banner[at..end].parse().expect("an address")
}

/// All metrics, as Prometheus reads them.
pub fn exposition(gateway: &Gateway) -> String {
    let (status, text) = get(gateway, "/metrics");
    assert_eq!(status, 200, "{text}");
    text
}

/// A family's sum over all shards and whatever else its lines differ in, of those with `label`
/// (`name="value"`).
pub fn metric(gateway: &Gateway, family: &str, label: &str) -> u64 {
    let text = exposition(gateway);
    let begin = format!("{family}{{");
    let lines = text.lines().filter(|line| line.starts_with(&begin) && line.contains(label));
    lines.map(|line| line.rsplit_once(' ').expect("a value").1.parse::<u64>().expect("a count")).sum()
}
