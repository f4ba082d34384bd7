//! Ports and closed connections: what bounds connections from one host, as a load generator's.

use std::collections::BTreeSet;

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::plan::Profile;

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

/// The widest range of ports that needs no privilege.
const FIRST: u64 = 1024;
const LAST: u64 = 65_535;

fn ports(look: Look<'_>) -> Result<Found, Found> {
    let range_name = "net.ipv4.ip_local_port_range";
    let own = own_ports(look);
    let connections = look.plan.connections;
    // On a machine that others use as well, theirs are the ports below: enough is enough there.
    let shared = look.plan.profile == Profile::Shared;
    let wanted = match shared {
        true => format!("with {connections} ports for as many connections from this host"),
        false => format!("= {FIRST} {LAST}, for as many connections from this host as can be"),
    };
    let named = runs(&own).join(",");
    let mut want = format!("{range_name} {wanted}, and {named} not in it or in ip_local_reserved_ports");
    if gateway::pid(look).is_none() && look.plan.other_ports.is_empty() {
        want.push_str(" (--other-ports names more of the gateway's)");
    }
    let [first, last] = numbers(look, range_name, &want)?;
    let reserved = text(look, "net.ipv4.ip_local_reserved_ports", &want).unwrap_or_default();
    let mut read = format!("{range_name} = {first} {last}");
    if !reserved.is_empty() {
        read.push_str(&format!(", ip_local_reserved_ports = {reserved}"));
    }
    let mut verdict = Verdict::Fine;
    let mut fixes = Vec::new();
    let is_widest = first <= FIRST && last >= LAST;
    let few = !is_widest && (!shared || last.saturating_add(1).saturating_sub(first) < connections);
    let (first, last) = if few { (FIRST, LAST) } else { (first, last) };
    if few {
        verdict = Verdict::Advice;
    }
    let kept = port_list(&reserved);
    let open: BTreeSet<u64> = own
        .into_iter()
        .filter(|port| (first..=last).contains(port) && !kept.as_ref().is_some_and(|kept| kept.contains(port)))
        .collect();
    if !open.is_empty() && !few {
        verdict = Verdict::Warning;
        read.push_str(&format!("; {} may be taken by any connection that this host makes", runs(&open).join(",")));
    }
    // Reserved before the range reaches them.
    if let (false, Some(kept)) = (open.is_empty(), kept) {
        let all: Vec<String> = runs(&kept.union(&open).copied().collect());
        fixes.extend(set(look, "net.ipv4.ip_local_reserved_ports", all.join(",")));
    }
    if few {
        fixes.extend(set(look, range_name, format!("{FIRST} {LAST}")));
    }
    Ok(Found::wrong(verdict, read, want, fixes))
}

/// Kafka's ports, those that the user names, and all that a gateway that runs listens on: the widest range has all of them.
fn own_ports(look: Look<'_>) -> BTreeSet<u64> {
    let others = look.plan.other_ports.iter().copied();
    gateway::ports(look).chain(others).chain(gateway::listening(look)).map(u64::from).collect()
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

/// Closed connections of a host whose connections come and go: a million.
const TW_BUCKETS: u64 = 1 << 20;

fn tw_buckets(look: Look<'_>) -> Result<Found, Found> {
    let name = "net.ipv4.tcp_max_tw_buckets";
    let wanted = TW_BUCKETS.max(2 * look.plan.connections);
    let want = format!("{name} >= {wanted}: a million, and twice the connections");
    let value = number(look, name, &want)?;
    let read = format!("{name} = {value}");
    if value >= wanted {
        return Ok(Found::fine(read, want));
    }
    Ok(Found::wrong(Verdict::Advice, read, want, set(look, name, wanted)))
}

fn tw_reuse(look: Look<'_>) -> Result<Found, Found> {
    let name = "net.ipv4.tcp_tw_reuse";
    let want = format!("{name} = 1");
    let value = number(look, name, &want)?;
    let read = match value {
        2 => format!("{name} = 2: on loopback only"),
        _ => format!("{name} = {value}"),
    };
    if value == 1 {
        return Ok(Found::fine(read, want));
    }
    Ok(Found::wrong(Verdict::Advice, read, want, set(look, name, 1)))
}

/// Long enough for whoever still answers, and a quarter of the kernel's own choice.
const FIN_TIMEOUT_S: u64 = 15;

fn fin_timeout(look: Look<'_>) -> Result<Found, Found> {
    let name = "net.ipv4.tcp_fin_timeout";
    let want = format!("{name} <= {FIN_TIMEOUT_S}");
    let value = number(look, name, &want)?;
    let read = format!("{name} = {value}");
    if value <= FIN_TIMEOUT_S {
        return Ok(Found::fine(read, want));
    }
    Ok(Found::wrong(Verdict::Advice, read, want, set(look, name, FIN_TIMEOUT_S)))
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

    use crate::host::tests::host;
    use crate::plan::Plan;
    use crate::report::Severity;

    fn of(check: fn(Look<'_>) -> Result<Found, Found>, files: &[(&str, &str)], plan: &Plan) -> (Severity, Vec<String>) {
        let (_kept, host) = host(files);
        let found = settled(check(Look { host: &host, plan }));
        (Severity::of(&found.verdict), crate::fix::texts(&found.fixes))
    }

    #[test]
    fn a_range_that_is_not_the_widest_is_widened_and_the_gateways_ports_are_kept_out_of_it() {
        let range = |range| [("/proc/sys/net/ipv4/ip_local_port_range", range), ("/proc/self/status", "")];
        let plan = Plan { shards: Some(2), ..Plan::default() };
        let reserve = "sysctl -w net.ipv4.ip_local_reserved_ports=9092-9094".to_owned();
        let widen = "sysctl -w 'net.ipv4.ip_local_port_range=1024 65535'".to_owned();
        assert_eq!(of(ports, &range("32768 60999"), &plan), (Severity::Advice, vec![reserve.clone(), widen]));
        assert_eq!(of(ports, &range("1024 65535"), &plan), (Severity::Warning, vec![reserve]));
        let shared = Plan { profile: Profile::Shared, ..plan };
        assert_eq!(of(ports, &range("32768 60999"), &shared), (Severity::Ok, vec![]), "enough for 10,000");
    }

    #[test]
    fn all_ports_on_which_the_gateway_listens_are_reserved() {
        let reserved = |files: &[(&str, &str)], plan: &Plan| {
            let range = ("/proc/sys/net/ipv4/ip_local_port_range", "1024 65535");
            of(ports, &[&[range][..], files].concat(), plan).1.concat()
        };
        let two = Plan { shards: Some(2), ..Plan::default() };
        let ss = "LISTEN 0 128 0.0.0.0:9092 0.0.0.0:* users:((\"ringgate\",pid=7,fd=5))\n\
                  LISTEN 0 128 127.0.0.1:9644 0.0.0.0:* users:((\"ringgate\",pid=7,fd=6))\n\
                  LISTEN 0 128 [::]:8090 [::]:* users:((\"ringgate\",pid=7,fd=7))\n\
                  LISTEN 0 128 127.0.0.1:8080 0.0.0.0:* users:((\"other\",pid=8,fd=5))\n";
        let told = reserved(&[("/commands/ss -ltnp", ss)], &two);
        assert_eq!(told, "sysctl -w net.ipv4.ip_local_reserved_ports=8090,9092-9094,9644");

        // 9644, as the kernel has it where there is no `ss`.
        let tcp = "   0: 0100007F:25AC 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 17 1\n";
        let files = [
            ("/proc/7/comm", "ringgate\n"),
            ("/proc/7/net/tcp", tcp),
            ("/proc/7/fd/6", "socket:[17]"),
            ("/proc/7/status", ""),
        ];
        let told = reserved(&files, &Plan { pid: Some(7), ..two.clone() });
        assert_eq!(told, "sysctl -w net.ipv4.ip_local_reserved_ports=9092-9094,9644");

        let named = Plan { other_ports: vec![9644, 9095, 80], ..two };
        let told = reserved(&[("/proc/self/status", "")], &named);
        assert_eq!(told, "sysctl -w net.ipv4.ip_local_reserved_ports=9092-9095,9644", "80 is not in the range");
    }

    #[test]
    fn closed_connections_are_remembered_shortly_and_by_the_million() {
        let one = |check: fn(Look<'_>) -> Result<Found, Found>, name: &str, value: &str, connections| {
            of(check, &[(name, value)], &Plan { connections, ..Plan::default() })
        };
        let buckets = |value, connections| {
            one(tw_buckets, "/proc/sys/net/ipv4/tcp_max_tw_buckets", value, connections).1.concat()
        };
        assert_eq!(buckets("1048576", 10_000), "");
        assert_eq!(buckets("262144", 10_000), "sysctl -w net.ipv4.tcp_max_tw_buckets=1048576");
        assert_eq!(buckets("1048576", 600_000), "sysctl -w net.ipv4.tcp_max_tw_buckets=1200000");
        let reuse = |value| one(tw_reuse, "/proc/sys/net/ipv4/tcp_tw_reuse", value, 1).0;
        assert_eq!([reuse("0"), reuse("1"), reuse("2")], [Severity::Advice, Severity::Ok, Severity::Advice]);
        let fin = |value| one(fin_timeout, "/proc/sys/net/ipv4/tcp_fin_timeout", value, 1).0;
        assert_eq!([fin("15"), fin("16"), fin("60")], [Severity::Ok, Severity::Advice, Severity::Advice]);
    }
}
