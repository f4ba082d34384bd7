//! How a card takes packets in.

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::fix::Fix;
use crate::plan::Profile;

use super::cards;
use super::counters::Counts;
use super::ethtool;

/// See the [module](self).
pub const CHECKS: &[Check] = &[
    Check {
        id: "nic_ring",
        area: Area::Network,
        why: "a ring that is too small loses bursts; one that is too large falls out of the CPU's caches",
        run: |look| cards::each(look, "rings of 1024 to 4096", nic_ring),
    },
    Check {
        id: "nic_drops",
        area: Area::Network,
        why: "packets that the card, or the cloud before it, lost: each is sent again, 200 ms later at worst",
        run: |look| cards::each(look, "none, and none more while it runs", nic_drops),
    },
    Check {
        id: "coalesce",
        area: Area::Network,
        why: "how long the card waits for more packets before it interrupts: added to every round trip",
        run: |look| cards::each(look, "", coalesce),
    },
    Check {
        id: "offloads",
        area: Area::Network,
        why: "what the card does not do, the CPU does for each packet; but LRO merges packets in ways that forwarding breaks",
        run: |look| cards::each(look, "", offloads),
    },
];

const RING_MIN: u64 = 1024;
const RING_MAX: u64 = 4096;

fn nic_ring(look: Look<'_>, card: &str) -> Result<Found, Found> {
    let want = format!("rings of {RING_MIN} to {RING_MAX}, or the most that the card has");
    let lines = ethtool::ask(look, "-g", card, &want)?;
    let (Some(rx), Some(rx_most)) = (lines.now("RX"), lines.number("RX")) else {
        return Err(Found::unread(format!("ethtool -g {card} tells no RX"), want));
    };
    let (tx, tx_most) = (lines.now("TX").unwrap_or(rx), lines.number("TX").unwrap_or(rx_most));
    let read = format!("{card}: rx {rx} of {rx_most}, tx {tx} of {tx_most}");
    let wanted = |now: u64, most: u64| {
        if now < RING_MIN.min(most) {
            Some(RING_MIN.min(most))
        } else if now > RING_MAX && look.plan.profile == Profile::Latency {
            Some(RING_MAX)
        } else {
            None
        }
    };
    let changes: Vec<String> = [("rx", wanted(rx, rx_most)), ("tx", wanted(tx, tx_most))]
        .into_iter()
        .filter_map(|(name, wanted)| Some(format!("{name} {}", wanted?)))
        .collect();
    if changes.is_empty() {
        return Ok(Found::fine(read, want));
    }
    let fix = format!("ethtool -G {card} {}", changes.join(" "));
    Ok(Found::wrong(Verdict::Advice, read, want, vec![Fix::Nic(fix)]))
}

/// Counts that every driver has.
const DROPS: [&str; 3] = ["rx_missed_errors", "rx_fifo_errors", "rx_dropped"];

fn nic_drops(look: Look<'_>, card: &str) -> Result<Found, Found> {
    let want = "none, and none more while it runs";
    let counts = Counts::of(look, &|look| {
        let mut counted = Vec::new();
        for name in DROPS {
            let reading = look.host.read(format!("/sys/class/net/{card}/statistics/{name}"));
            match reading.text().and_then(|text| text.parse().ok()) {
                Some(count) => counted.push((name.to_owned(), count)),
                None => return Err(Found::without(&reading, &format!("{card} counts no {name}"), want)),
            }
        }
        if let Ok(lines) = ethtool::ask(look, "-S", card, want) {
            counted.extend(lines.iter().filter(|(name, _)| is_drop(name)).filter_map(|(name, value)| {
                let count = value.parse().ok().filter(|count| *count > 0)?;
                Some((name.to_owned(), count))
            }));
        }
        Ok(counted)
    })?;
    let mut fixes = Vec::new();
    if counts.counted.iter().any(|(name, _)| name.ends_with(ALLOWANCE)) {
        fixes
            .push(Fix::Advice("the cloud's limit of this instance was exceeded: a larger one, or less traffic".into()));
    }
    let own = |(name, count): &(String, u64)| *count > 0 && !name.ends_with(ALLOWANCE);
    if counts.counted.iter().any(own) {
        fixes.push(Fix::Advice("see nic_ring and nic_irq: larger rings, queues on more CPUs".into()));
    }
    let mut found = counts.found(want, Verdict::Advice, fixes);
    found.read = format!("{card}: {}", found.read);
    Ok(found)
}

/// Of AWS' cards: packets that were held back or lost since the instance's limits were exceeded.
const ALLOWANCE: &str = "_allowance_exceeded";

/// Drivers' own names of packets for which there was no room, of the whole card.
fn is_drop(name: &str) -> bool {
    [
        "rx_out_of_buffer",
        "rx_no_buffer_count",
        "rx_no_dma_resources",
        "rx_discards_phy",
        "rx_buf_alloc_err",
        "no_rx_bufs",
    ]
    .contains(&name)
        || name.ends_with(ALLOWANCE)
}

/// Microseconds that may be added to a round trip.
const LATENCY_US_MAX: u64 = 8;

/// Microseconds that interrupts are worth where bytes count.
const THROUGHPUT_US: std::ops::RangeInclusive<u64> = 20..=50;

fn coalesce(look: Look<'_>, card: &str) -> Result<Found, Found> {
    let want = match look.plan.profile {
        Profile::Latency => format!("adaptive-rx off, rx-usecs <= {LATENCY_US_MAX}"),
        Profile::Throughput => {
            format!("adaptive-rx on, or rx-usecs {} to {}", THROUGHPUT_US.start(), THROUGHPUT_US.end())
        }
        Profile::Shared => "whatever the others on this host want".to_owned(),
    };
    let lines = ethtool::ask(look, "-c", card, &want)?;
    let adaptive = lines.get("Adaptive RX").map(|value| value.split_whitespace().next() == Some("on"));
    let Some(usecs) = lines.number("rx-usecs") else {
        return Err(Found::not_applicable(format!("the driver of {card} does not wait for a time (no rx-usecs)")));
    };
    let on = |on: bool| if on { "on" } else { "off" };
    let read = match adaptive {
        Some(adaptive) => format!("{card}: adaptive-rx {}, rx-usecs {usecs}", on(adaptive)),
        None => format!("{card}: rx-usecs {usecs}"),
    };
    let adaptive = adaptive.unwrap_or(false);
    match look.plan.profile {
        Profile::Latency if adaptive || usecs > LATENCY_US_MAX => {
            let adaptive = if adaptive { "adaptive-rx off " } else { "" };
            let fix = format!("ethtool -C {card} {adaptive}rx-usecs {}", LATENCY_US_MAX / 2);
            Ok(Found::wrong(Verdict::Warning, read, want, vec![Fix::Nic(fix)]))
        }
        Profile::Throughput if !adaptive && usecs < *THROUGHPUT_US.start() => {
            let fix =
                format!("ethtool -C {card} adaptive-rx on, or where it cannot: rx-usecs {}", THROUGHPUT_US.start());
            Ok(Found::wrong(Verdict::Advice, read, want, vec![Fix::Nic(fix)]))
        }
        Profile::Throughput if !adaptive && usecs > *THROUGHPUT_US.end() => {
            let fix = format!("ethtool -C {card} rx-usecs {}", THROUGHPUT_US.end());
            Ok(Found::wrong(Verdict::Advice, read, want, vec![Fix::Nic(fix)]))
        }
        _ => Ok(Found::fine(read, want)),
    }
}

/// What is wanted: the name that is printed, that of `ethtool -K`, and how it is to be.
const OFFLOADS: [(&str, &str, bool); 7] = [
    ("rx-checksumming", "rx", true),
    ("tx-checksumming", "tx", true),
    ("scatter-gather", "sg", true),
    ("tcp-segmentation-offload", "tso", true),
    ("generic-segmentation-offload", "gso", true),
    ("generic-receive-offload", "gro", true),
    ("large-receive-offload", "lro", false),
];

fn offloads(look: Look<'_>, card: &str) -> Result<Found, Found> {
    let want = "checksums, sg, tso, gso and gro on, lro off, as far as the card can";
    let lines = ethtool::ask(look, "-k", card, want)?;
    let mut wrong = Vec::new();
    let mut fixed = Vec::new();
    for (name, short, wanted) in OFFLOADS {
        let mut words = lines.get(name).unwrap_or("").split_whitespace();
        let Some(now) = words.next() else { continue };
        if (now == "on") != wanted {
            let cannot = words.next() == Some("[fixed]");
            let to = if cannot { &mut fixed } else { &mut wrong };
            to.push((short, if wanted { "on" } else { "off" }, now.to_owned()));
        }
    }
    if lines.get("generic-receive-offload").is_none() {
        return Err(Found::unread(format!("ethtool -k {card} does not tell of generic-receive-offload"), want));
    }
    let told = |all: &[(&str, &str, String)], end: &str| {
        all.iter().map(|(short, _, now)| format!("{short} {now}{end}")).collect::<Vec<_>>()
    };
    let all = [told(&wrong, ""), told(&fixed, ", which it cannot change")].concat();
    let read = if all.is_empty() { format!("{card}: as wanted") } else { format!("{card}: {}", all.join("; ")) };
    if wrong.is_empty() {
        return Ok(Found::fine(read, want));
    }
    let changes: Vec<String> = wrong.iter().map(|(short, wanted, _)| format!("{short} {wanted}")).collect();
    let fix = format!("ethtool -K {card} {}", changes.join(" "));
    Ok(Found::wrong(Verdict::Advice, read, want, vec![Fix::Nic(fix)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_the_whole_card_are_drops_and_those_of_a_queue_are_not() {
        for name in ["rx_out_of_buffer", "bw_in_allowance_exceeded", "rx_no_buffer_count"] {
            assert!(is_drop(name), "{name}");
        }
        for name in ["rx0_packets", "rx_queue_0_drops", "tx_timeout", "rx_bytes"] {
            assert!(!is_drop(name), "{name}");
        }
    }
}
