//! Which network cards the gateway's packets go over.
//!
//! Those of the default route, and of the address that the gateway listens on where that is one of the host's. What is
//! stacked on a card (a VLAN, a bond, a bridge) is followed down to it. A container's interface has no card below it
//! that can be seen from inside.

use std::collections::BTreeSet;

use crate::check::{Found, Look};
use crate::cpu_set::CpuSet;
use crate::host::Reading;
use crate::interfaces;
use crate::report::Severity;

use super::sockets;

/// The cards.
///
/// # Errors
/// What a check of cards says where there is none.
pub(super) fn cards(look: Look<'_>, want: &str) -> Result<Vec<String>, Found> {
    let mut interfaces: BTreeSet<String> =
        interfaces::by_route(look.host, &look.process_path("net")).into_iter().collect();
    interfaces.extend(by_address(look));
    let mut cards: BTreeSet<String> =
        interfaces.iter().flat_map(|interface| interfaces::cards_of(look.host, interface)).collect();
    if interfaces.is_empty() {
        cards.extend(interfaces::cards_up(look.host).map_err(|why| Found::unread(why, want))?);
    }
    if cards.is_empty() {
        let why = match interfaces.into_iter().next() {
            Some(name) => format!("{name} is no card but a virtual interface, as of a container: look at its host"),
            None => "no network card is up here".to_owned(),
        };
        return Err(Found::not_applicable(why));
    }
    Ok(cards.into_iter().collect())
}

/// What a check says of all cards together: the worst.
pub(super) fn each(look: Look<'_>, want: &str, check: fn(Look<'_>, &str) -> Result<Found, Found>) -> Found {
    match cards(look, want) {
        Ok(cards) => {
            let found = cards.iter().map(|card| super::settings::settled(check(look, card)));
            found.reduce(worse).unwrap_or_else(|| Found::not_applicable("no network card is up here"))
        }
        Err(found) => found,
    }
}

/// Both, as bad as the worse one; what could not be looked at does not hide what could.
fn worse(one: Found, other: Found) -> Found {
    let rank = |found: &Found| Severity::of(&found.verdict);
    let (mut worst, other) = if rank(&one) >= rank(&other) { (one, other) } else { (other, one) };
    if !other.read.is_empty() {
        let gap = if worst.read.is_empty() { "" } else { "; " };
        worst.read = format!("{}{gap}{}", worst.read, other.read);
    }
    worst.fixes.extend(other.fixes);
    worst
}

/// The interfaces whose addresses the gateway listens on, when it does not listen on all.
fn by_address(look: Look<'_>) -> BTreeSet<String> {
    let listeners = sockets::listeners(look, look.plan.port).unwrap_or_default();
    let wanted: BTreeSet<&str> = listeners
        .iter()
        .map(|one| one.address.trim_matches(['[', ']']))
        .filter(|one| is_of_one_interface(one))
        .collect();
    if wanted.is_empty() {
        return BTreeSet::new();
    }
    let addresses = look.host.command_once(&["ip", "-o", "addr", "show"]);
    let lines = addresses.text().unwrap_or("").lines();
    lines.filter_map(address).filter(|(_, address)| wanted.contains(address)).map(|(name, _)| name.to_owned()).collect()
}

/// Neither all addresses nor loopback.
fn is_of_one_interface(address: &str) -> bool {
    let ip = address.split('%').next().unwrap_or("").parse::<std::net::IpAddr>();
    ip.is_ok_and(|ip| !ip.is_unspecified() && !ip.is_loopback())
}

/// A line of `ip -o addr show`: `2: eth0    inet 192.0.2.1/24 brd ...`.
fn address(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split_whitespace().skip(1);
    let name = words.next()?;
    let address = words.nth(1)?.split('/').next()?;
    Some((name.split('@').next()?, address))
}

/// The numbers of a card's receive (`rx`) or transmit (`tx`) queues.
pub(super) fn queues(look: Look<'_>, card: &str, direction: &str) -> Vec<usize> {
    let names = look.host.list(format!("/sys/class/net/{card}/queues")).unwrap_or_default();
    let number = |name: &String| name.strip_prefix(direction)?.strip_prefix('-')?.parse().ok();
    names.iter().filter_map(number).collect()
}

/// A file of the device behind the interface.
pub(super) fn device_file(look: Look<'_>, card: &str, name: &str) -> Reading {
    interfaces::device_file(look.host, card, name)
}

/// The NUMA node that a card is at, and its CPUs; none on a host that has one node, does not say, or has no CPUs there.
pub(super) fn node(look: Look<'_>, card: &str) -> Option<(usize, CpuSet)> {
    let node: usize = device_file(look, card, "numa_node").text()?.parse().ok()?;
    let nodes = look.host.read("/sys/devices/system/node/online");
    if CpuSet::list(nodes.text()?)?.len() < 2 {
        return None;
    }
    let cpus = look.host.read(format!("/sys/devices/system/node/node{node}/cpulist"));
    Some((node, CpuSet::list(cpus.text()?).filter(|cpus| !cpus.is_empty())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Verdict;

    #[test]
    fn a_line_of_ip_tells_interface_and_address() {
        assert_eq!(
            address("2: eth0    inet 192.0.2.7/24 brd 192.0.2.255 scope global eth0"),
            Some(("eth0", "192.0.2.7"))
        );
        assert_eq!(address("4: eth0.5@eth0    inet6 fe80::1/64 scope link"), Some(("eth0.5", "fe80::1")));
        assert!(is_of_one_interface("192.0.2.7") && is_of_one_interface("fe80::1%eth0"));
        for all in ["0.0.0.0", "*", "::", "127.0.0.1", "::1"] {
            assert!(!is_of_one_interface(all), "{all}");
        }
    }

    #[test]
    fn of_two_cards_the_worse_one_counts_and_both_are_told() {
        let fine = Found::fine("eth0: 8", "8");
        let wrong = Found::wrong(Verdict::Warning, "eth1: 1", "8", Vec::new());
        let both = worse(fine.clone(), wrong);
        assert_eq!((both.verdict, both.read.as_str()), (Verdict::Warning, "eth1: 1; eth0: 8"));
        let both = worse(Found::not_applicable("no such thing"), fine);
        assert_eq!((both.verdict, both.read.as_str()), (Verdict::Fine, "eth0: 8"));
    }
}
