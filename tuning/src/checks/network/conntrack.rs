//! The firewall's memory of connections.

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::fix::Fix;
use crate::host::Reading;

use super::gateway;
use super::settings::settled;

/// See the [module](self).
pub const CHECKS: &[Check] = &[Check {
    id: "conntrack",
    area: Area::Network,
    why: "each packet is looked up in the firewall's table, and when that is full new connections are dropped without a \
          word",
    run: |look| settled(conntrack(look)),
}];

/// Of the table, in percent, from which it may be full before anybody looks.
const FULL_PERCENT: u64 = 50;

fn conntrack(look: Look<'_>) -> Result<Found, Found> {
    let port = look.plan.port;
    let connections = look.plan.connections;
    let want = format!(
        "no connection tracking of port {port} (notrack), or a table below {FULL_PERCENT} % with room for {connections} \
         connections"
    );
    let number = |name: &str| {
        let reading = look.host.read(format!("/proc/sys/net/netfilter/{name}"));
        match reading.text().map(|text| (text, text.parse::<u64>())) {
            Some((_, Ok(number))) => Ok(number),
            Some((text, Err(_))) => Err(Found::unread(format!("net.netfilter.{name} is {text:?}"), &want)),
            None if reading == Reading::Absent => Err(Found::fine("no connection tracking", &want)),
            None => Err(Found::without(&reading, "", &want)),
        }
    };
    let (count, max) = (number("nf_conntrack_count")?, number("nf_conntrack_max")?);
    let mut read = format!("nf_conntrack_count = {count} of {max}");
    let lost = look.process_file("net/stat/nf_conntrack").text().map(lost).unwrap_or(0);
    if lost > 0 {
        read.push_str(&format!("; {lost} connections found it full since the start"));
    }
    let rules = look.host.command(&["nft", "list", "ruleset"]);
    match &rules {
        Reading::Text(rules) if not_tracked(rules, port) => {
            return Ok(Found::fine(format!("{read}; notrack for port {port}"), want));
        }
        Reading::Text(_) => read.push_str(&format!("; no notrack for port {port}")),
        Reading::Absent => read.push_str("; nft is not installed, so nobody knows what is tracked"),
        Reading::Unread(why) if why.contains("not permitted") => {
            read.push_str(&format!("; only root sees whether port {port} is tracked"));
        }
        Reading::Unread(why) => read.push_str(&format!("; {why}")),
    }
    let full = count.saturating_mul(100) >= max.saturating_mul(FULL_PERCENT);
    let short = max < 2 * connections;
    if !full && !short && lost == 0 && count == 0 {
        // Loaded, but no rule of this namespace asks for it.
        return Ok(Found::fine(read, want));
    }
    let verdict = if full || short || lost > 0 { Verdict::Warning } else { Verdict::Advice };
    let ports = gateway::ports(look);
    let ports = format!("{}-{}", ports.start(), ports.end());
    let commands = [
        "nft add table inet raw".to_owned(),
        "nft add chain inet raw in '{ type filter hook prerouting priority raw; }'".to_owned(),
        "nft add chain inet raw out '{ type filter hook output priority raw; }'".to_owned(),
        format!("nft add rule inet raw in tcp dport {ports} notrack"),
        format!("nft add rule inet raw out tcp sport {ports} notrack"),
        format!("with those the firewall must let ports {ports} pass both ways without a state"),
    ];
    let mut fixes: Vec<Fix> = commands.into_iter().map(Fix::Advice).collect();
    if full || short || lost > 0 {
        let larger = max.saturating_mul(2).max(4 * connections);
        fixes.push(Fix::Advice(format!("or a larger table: sysctl -w net.netfilter.nf_conntrack_max={larger}")));
    }
    Ok(Found::wrong(verdict, read, want, fixes))
}

/// `drop` and `early_drop` of `/proc/net/stat/nf_conntrack`: hexadecimal, a line for each CPU below the names.
fn lost(text: &str) -> u64 {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or("").split_whitespace().collect();
    let columns: Vec<usize> =
        ["drop", "early_drop"].iter().filter_map(|name| names.iter().position(|one| one == name)).collect();
    lines
        .flat_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            columns.iter().filter_map(move |at| u64::from_str_radix(words.get(*at)?, 16).ok()).collect::<Vec<_>>()
        })
        .fold(0, u64::saturating_add)
}

/// Whether a rule takes packets to the port out of the tracking.
fn not_tracked(rules: &str, port: u16) -> bool {
    rules.lines().any(|line| {
        let words: Vec<&str> = line.split(|c: char| c.is_whitespace() || "{},".contains(c)).collect();
        let at = words.iter().position(|word| *word == "dport");
        words.contains(&"notrack") && at.is_some_and(|at| words[at..].iter().any(|word| names_port(word, port)))
    })
}

/// `9092`, or `9092-9099`.
fn names_port(word: &str, port: u16) -> bool {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    matches!((first.parse::<u16>(), last.parse::<u16>()), (Ok(first), Ok(last)) if (first..=last).contains(&port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_does_not_track_the_port_is_seen() {
        assert!(not_tracked("table ip raw {\n\ttcp dport 9092 notrack\n}", 9092));
        assert!(not_tracked("tcp dport { 80, 9090-9099 } notrack", 9092));
        assert!(!not_tracked("tcp dport 9093 notrack\ntcp dport 9092 accept", 9092));
        assert!(!not_tracked("tcp sport 9092 notrack", 9092));
    }

    #[test]
    fn connections_that_found_the_table_full_are_added_up_over_cpus() {
        let text = "entries  searched found new invalid ignore delete delete_list insert insert_failed drop early_drop icmp_error\n\
                    0000000a 0 0 0 0 0 0 0 0 0 0000000f 00000001 0\n0000000a 0 0 0 0 0 0 0 0 0 00000010 00000000 0";
        assert_eq!(lost(text), 32);
        assert_eq!(lost("nothing\n1 2 3"), 0);
    }
}
