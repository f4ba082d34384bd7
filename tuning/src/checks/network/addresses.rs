//! Ports and closed connections: what bounds connections from one host, as a load generator's.

use std::collections::BTreeSet;

use crate::check::{Area, Check, Found, Look, Verdict};

use super::gateway;
use super::settings::{number, numbers, set, settled, text};

/// See the [module](self).
pub const CHECKS: &[Check] = &[
    Check {
        id: "ports",
        area: Area::Network,
        why: "a connection from this host takes a port of the range, at most as many to one address as it has; and a port \
              of the gateway's that is in the range may be taken while it restarts",
        run: |look| settled(ports(look)),
    },
    Check {
        id: "tw_buckets",
        area: Area::Network,
        why: "closed connections beyond it are forgotten at once, and a late packet of theirs is answered by a reset",
        run: |look| settled(tw_buckets(look)),
    },
    Check {
        id: "tw_reuse",
        area: Area::Network,
        why: "lets a load generator on this host open connections as fast as it closes them",
        run: |look| settled(tw_reuse(look)),
    },
    Check {
        id: "fin_timeout",
        area: Area::Network,
        why: "how long a connection that the gateway closed, and its peer did not, is remembered",
        run: |look| settled(fin_timeout(look)),
    },
];

fn ports(look: Look<'_>) -> Result<Found, Found> {
    let range_name = "net.ipv4.ip_local_port_range";
    let own = gateway::ports(look);
    let connections = look.plan.connections;
    let want = format!(
        "{range_name} with {connections} ports for as many connections from this host (1024 65535 has most), and {}-{} \
         not in it or in ip_local_reserved_ports",
        own.start(),
        own.end()
    );
    let [first, last] = numbers(look, range_name, &want)?;
    let reserved = text(look, "net.ipv4.ip_local_reserved_ports", &want).unwrap_or_default();
    let mut read = format!("{range_name} = {first} {last}");
    if !reserved.is_empty() {
        read.push_str(&format!(", ip_local_reserved_ports = {reserved}"));
    }
    let mut verdict = Verdict::Fine;
    let mut fixes = Vec::new();
    let few = last.saturating_add(1).saturating_sub(first) < connections && (first, last) != (1024, 65_535);
    let (first, last) = if few { (1024, 65_535) } else { (first, last) };
    if few {
        verdict = Verdict::Advice;
    }
    let kept = port_list(&reserved);
    let open: BTreeSet<u64> = own
        .map(u64::from)
        .filter(|port| (first..=last).contains(port) && !kept.as_ref().is_some_and(|kept| kept.contains(port)))
        .collect();
    if let (Some(from), Some(to), false) = (open.first(), open.last(), few) {
        verdict = Verdict::Warning;
        read.push_str(&format!("; {from}-{to} may be taken by any connection that this host makes"));
    }
    // Reserved before the range reaches them.
    if let (false, Some(kept)) = (open.is_empty(), kept) {
        let all: Vec<String> = runs(&kept.union(&open).copied().collect());
        fixes.extend(set(look, "net.ipv4.ip_local_reserved_ports", all.join(",")));
    }
    if few {
        fixes.extend(set(look, range_name, "1024 65535"));
    }
    Ok(Found::wrong(verdict, read, want, fixes))
}

/// `8080,9000-9010`; `None` when it is no such list.
fn port_list(text: &str) -> Option<BTreeSet<u64>> {
    let mut ports = BTreeSet::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        ports.extend(u64::from(first.parse::<u16>().ok()?)..=u64::from(last.parse::<u16>().ok()?));
    }
    Some(ports)
}

/// As the kernel writes them.
fn runs(ports: &BTreeSet<u64>) -> Vec<String> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &port in ports {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == port => *last = port,
            _ => runs.push((port, port)),
        }
    }
    let text = |(first, last): (u64, u64)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    runs.into_iter().map(text).collect()
}

fn tw_buckets(look: Look<'_>) -> Result<Found, Found> {
    let name = "net.ipv4.tcp_max_tw_buckets";
    let wanted = 2 * look.plan.connections;
    let want = format!("{name} >= {wanted}, twice the connections");
    let value = number(look, name, &want)?;
    let read = format!("{name} = {value}");
    if value >= wanted {
        return Ok(Found::fine(read, want));
    }
    let value = wanted.max(262_144);
    Ok(Found::wrong(Verdict::Advice, read, want, set(look, name, value)))
}

fn tw_reuse(look: Look<'_>) -> Result<Found, Found> {
    let name = "net.ipv4.tcp_tw_reuse";
    let want = format!("{name} = 1, or 2 (loopback only), which is the kernel's own choice");
    let value = number(look, name, &want)?;
    let read = format!("{name} = {value}");
    if value > 0 {
        return Ok(Found::fine(read, want));
    }
    Ok(Found::wrong(Verdict::Advice, read, want, set(look, name, 1)))
}

/// The kernel's own choice.
const FIN_TIMEOUT_S: u64 = 60;

fn fin_timeout(look: Look<'_>) -> Result<Found, Found> {
    let name = "net.ipv4.tcp_fin_timeout";
    let want = format!("{name} <= {FIN_TIMEOUT_S} (15 on a load generator's host)");
    let value = number(look, name, &want)?;
    let read = format!("{name} = {value}");
    if value <= FIN_TIMEOUT_S {
        return Ok(Found::fine(read, want));
    }
    Ok(Found::wrong(Verdict::Advice, read, want, set(look, name, 15)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_ports_is_read_and_written_as_the_kernel_has_it() {
        let ports = port_list("9092-9094, 8080,9095").unwrap();
        assert_eq!(runs(&ports), ["8080", "9092-9095"]);
        assert_eq!(port_list(""), Some(BTreeSet::new()));
        for text in ["x", "1-", "70000", "-5"] {
            assert_eq!(port_list(text), None, "{text}");
        }
    }
}
