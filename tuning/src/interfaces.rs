//! Network interfaces, and the cards below them.

use std::collections::BTreeSet;

use crate::host::{Host, Reading};

/// Layers from an interface to its card: a VLAN on a bond on cards is 2.
const LAYERS_MAX: usize = 4;

/// The interfaces of the default routes, the first one first, which the kernel prefers. `net`: a process's directory of them.
pub(crate) fn by_route(host: &Host, net: &str) -> Vec<String> {
    let (four, six) = (host.read(format!("{net}/route")), host.read(format!("{net}/ipv6_route")));
    let four = four.text().unwrap_or("").lines().filter_map(default_of_route);
    let six = six.text().unwrap_or("").lines().filter_map(default_of_ipv6_route);
    four.chain(six).filter(|name| *name != "lo").map(str::to_owned).collect()
}

/// A line of `/proc/net/route`: the interface, if it is the default route.
fn default_of_route(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, "00000000", _, flags, _, _, _, "00000000", ..] = words[..] else { return None };
    let flags = u32::from_str_radix(flags, 16).ok()?;
    (flags & ROUTE_UP != 0 && flags & ROUTE_REJECT == 0).then_some(name)
}

/// A line of `/proc/net/ipv6_route`.
fn default_of_ipv6_route(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [destination, "00", _, _, _, _, _, _, flags, name] = words[..] else { return None };
    let flags = u32::from_str_radix(flags, 16).ok()?;
    let default = destination.len() == 32 && destination.bytes().all(|byte| byte == b'0');
    (default && flags & ROUTE_UP != 0 && flags & ROUTE_REJECT == 0).then_some(name)
}

const ROUTE_UP: u32 = 0x1;
const ROUTE_REJECT: u32 = 0x200;

/// The cards that an interface is stacked on (a VLAN, a bond, a bridge), or itself where it is one.
pub(crate) fn cards_of(host: &Host, interface: &str) -> BTreeSet<String> {
    let mut cards = BTreeSet::new();
    below(host, interface, LAYERS_MAX, &mut cards);
    cards
}

fn below(host: &Host, interface: &str, layers: usize, cards: &mut BTreeSet<String>) {
    if is_card(host, interface) {
        cards.insert(interface.to_owned());
    } else if layers > 0 {
        let files = host.list(format!("/sys/class/net/{interface}")).unwrap_or_default();
        for lower in files.iter().filter_map(|file| file.strip_prefix("lower_")) {
            below(host, lower, layers - 1, cards);
        }
    }
}

/// All cards that are up.
///
/// # Errors
/// Nobody can tell: says why.
pub(crate) fn cards_up(host: &Host) -> Result<Vec<String>, String> {
    let names = host.list("/sys/class/net")?;
    Ok(names.into_iter().filter(|name| is_card(host, name) && is_up(host, name)).collect())
}

fn is_card(host: &Host, interface: &str) -> bool {
    host.exists(format!("/sys/class/net/{interface}/device"))
}

/// Whether packets can go over it now.
pub(crate) fn is_up(host: &Host, interface: &str) -> bool {
    host.read(format!("/sys/class/net/{interface}/operstate")).text() == Some("up")
}

/// A file of the device behind the interface. A virtio card's is that of the device which carries it.
pub(crate) fn device_file(host: &Host, card: &str, name: &str) -> Reading {
    let own = host.read(format!("/sys/class/net/{card}/device/{name}"));
    if own == Reading::Absent { host.read(format!("/sys/class/net/{card}/device/../{name}")) } else { own }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_route_is_told_from_others() {
        assert_eq!(default_of_route("eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0"), Some("eth0"));
        assert_eq!(default_of_route("eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0"), None);
        assert_eq!(default_of_route("Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\tMTU"), None);
        let zero = "00000000000000000000000000000000";
        let line = |flags: &str| format!("{zero} 00 {zero} 00 {zero} 00000400 00000001 00000000 {flags}     eth1");
        assert_eq!(default_of_ipv6_route(&line("00450003")), Some("eth1"));
        assert_eq!(default_of_ipv6_route(&line("00200200")), None);
    }
}
