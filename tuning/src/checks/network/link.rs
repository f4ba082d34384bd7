//! The link and the bus that a card is at.

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::checks::settings::chosen;
use crate::fix::{Fix, Knob};
use crate::host::Reading;
use crate::plan::Profile;

use super::cards;
use super::ethtool;

/// See the [module](self).
pub const CHECKS: &[Check] = &[
    Check {
        id: "pause",
        area: Area::Network,
        why: "with pause frames one slow receiver stops everything on the link",
        run: |look| cards::each(look, "no pause frames", pause),
    },
    Check {
        id: "eee",
        area: Area::Network,
        why: "a link that sleeps between packets takes microseconds to wake for the next",
        run: |look| cards::each(look, "Energy-Efficient Ethernet off", eee),
    },
    Check {
        id: "pcie",
        area: Area::Network,
        why: "a bus that sleeps between packets takes microseconds to wake, and a narrow one holds packets up",
        run: |look| cards::each(look, "no ASPM, and the width and speed that the card can do", pcie),
    },
    Check {
        id: "mtu",
        area: Area::Network,
        why: "small frames cost CPU for each byte; large ones help only when every hop to the clients carries them",
        run: |look| cards::each(look, "1500, or 9000 where every hop has it", mtu),
    },
];

fn pause(look: Look<'_>, card: &str) -> Result<Found, Found> {
    let want = "no pause frames, but in a network that is built to lose none";
    let lines = ethtool::ask(look, "-a", card, want)?;
    let (Some(rx), Some(tx)) = (lines.get("RX"), lines.get("TX")) else {
        return Err(Found::unread(format!("ethtool -a {card} does not tell RX and TX"), want));
    };
    let read = format!("{card}: pause frames rx {rx}, tx {tx}");
    if rx != "on" && tx != "on" {
        return Ok(Found::fine(read, want));
    }
    let fix = format!("ethtool -A {card} autoneg off rx off tx off");
    Ok(Found::wrong(Verdict::Advice, read, want, vec![Fix::Nic(fix)]))
}

fn eee(look: Look<'_>, card: &str) -> Result<Found, Found> {
    let want = "Energy-Efficient Ethernet off";
    let lines = ethtool::ask(look, "--show-eee", card, want)?;
    let Some(status) = lines.get("EEE status") else {
        return Err(Found::unread(format!("ethtool --show-eee {card} tells no status"), want));
    };
    let read = format!("{card}: EEE {status}");
    match status {
        "not supported" => Err(Found::not_applicable(format!("{card} cannot do it"))),
        _ if !status.starts_with("enabled") => Ok(Found::fine(read, want)),
        _ => {
            let latency = look.plan.profile == Profile::Latency;
            let verdict = if latency && status.ends_with("- active") { Verdict::Warning } else { Verdict::Advice };
            Ok(Found::wrong(verdict, read, want, vec![Fix::Nic(format!("ethtool --set-eee {card} eee off"))]))
        }
    }
}

const ASPM_POLICY: &str = "/sys/module/pcie_aspm/parameters/policy";

fn pcie(look: Look<'_>, card: &str) -> Result<Found, Found> {
    let want = "no ASPM in use, and the width and speed that the card can do";
    let file = |name: &str| cards::device_file(look, card, name);
    let width = (file("current_link_width"), file("max_link_width"));
    let speed = (file("current_link_speed"), file("max_link_speed"));
    let policy = look.host.read(ASPM_POLICY);
    let (Some(width_now), Some(speed_now)) = (width.0.text(), speed.0.text()) else {
        return Err(Found::without(&width.0, &format!("{card} is at no PCI Express link of this machine's own"), want));
    };
    if width_now == "0" {
        return Err(Found::not_applicable(format!("the PCI Express link of {card} is not a real one")));
    }
    let mut read = format!("{card}: x{width_now} at {speed_now}");
    let mut verdict = Verdict::Fine;
    let mut fixes = Vec::new();
    let less = |(now, most): &(Reading, Reading)| match (now.text(), most.text()) {
        (Some(now), Some(most)) => first_number(now) < first_number(most),
        _ => false,
    };
    if less(&width) || less(&speed) {
        read.push_str(&format!(" of x{} at {}", width.1.text().unwrap_or("?"), speed.1.text().unwrap_or("?")));
        verdict = Verdict::Advice;
        fixes.push(Fix::Advice(
            "see whether the card's slot, riser or BIOS setting gives it less than it can do".into(),
        ));
    }
    // By link since 5.5; before, the policy of all is what is known.
    let states: Vec<&str> = ["l0s_aspm", "l1_aspm", "l1_1_aspm", "l1_2_aspm"]
        .into_iter()
        .filter(|state| file(&format!("link/{state}")).text() == Some("1"))
        .collect();
    if let Some(policy) = policy.text() {
        read.push_str(&format!(", ASPM policy {}", chosen(policy).unwrap_or(policy)));
    }
    let saves = policy.text().is_some_and(|policy| policy.contains("[powersave") || policy.contains("[powersupersave"));
    let tells = file("link/l1_aspm") != Reading::Absent;
    if !states.is_empty() || saves && !tells {
        if !states.is_empty() {
            read.push_str(&format!(", in use: {}", states.join(", ")));
        }
        verdict = if look.plan.profile == Profile::Latency { Verdict::Warning } else { Verdict::Advice };
        // Links that sleep under that policy, too, are those that the firmware keeps from the kernel.
        if policy.text().is_some_and(|policy| policy != "performance" && !policy.contains("[performance]")) {
            fixes.push(Fix::Knob(Knob::file(ASPM_POLICY, "performance")));
        }
        fixes.push(Fix::Boot("pcie_aspm.policy=performance".into()));
    }
    Ok(Found::wrong(verdict, read, want, fixes))
}

/// `16.0` of `16.0 GT/s PCIe`; 0 where it begins with no number.
fn first_number(text: &str) -> f64 {
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// What clouds and tunnels leave of Ethernet's 1500.
const MTU_MIN: u64 = 1400;

/// Ethernet's own, and from which on frames are large ones.
const MTU_PLAIN: u64 = 1500;
const MTU_LARGE: u64 = 8800;

fn mtu(look: Look<'_>, card: &str) -> Result<Found, Found> {
    let want = "1500, or 9000 where every hop has it (a few less in clouds and tunnels)";
    let reading = look.host.read(format!("/sys/class/net/{card}/mtu"));
    let Some(mtu) = reading.text().and_then(|text| text.parse::<u64>().ok()) else {
        return Err(Found::without(&reading, &format!("{card} has no mtu"), want));
    };
    let read = format!("{card}: mtu {mtu}");
    if (MTU_MIN..=MTU_PLAIN).contains(&mtu) || mtu >= MTU_LARGE {
        return Ok(Found::fine(read, want));
    }
    let fix = "tracepath -n CLIENT tells what the way carries; ip link set dev ".to_owned() + card + " mtu 1500";
    Ok(Found::wrong(Verdict::Advice, read, want, vec![Fix::Nic(fix)]))
}
