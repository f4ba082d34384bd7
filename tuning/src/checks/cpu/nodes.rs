//! NUMA nodes.

use super::{START_ON_CHOSEN, pinned};
use crate::check::{Area, Check, Found, Look, Verdict};
use crate::checks::settings::{only_of_its_own, settled, sysctl};
use crate::fix::{Fix, Knob};
use crate::plan::Profile;

/// See the [module](self).
pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "numa_balancing",
        area: Area::Cpu,
        why: "to find out who uses a page the kernel takes it away for a moment: shards stop on pages that are theirs for good",
        run: |look| settled(balancing(look)),
    },
    Check {
        id: "numa_bind",
        area: Area::Cpu,
        why: "a shard far from the network card reaches every packet over the link between the nodes",
        run: |look| settled(bind(look)),
    },
];

const ONE_NODE: &str = "the machine has one NUMA node";

fn balancing(look: Look<'_>) -> Result<Found, Found> {
    let want = "kernel.numa_balancing = 0";
    only_of_its_own(look)?;
    if look.topology().is_ok_and(|topology| topology.nodes.len() < 2) {
        return Err(Found::not_applicable(ONE_NODE));
    }
    let value = sysctl(look, "kernel.numa_balancing", want)?;
    let read = format!("kernel.numa_balancing = {value}");
    if value == 0 {
        return Ok(Found::fine(read, want));
    }
    let verdict = if look.plan.profile == Profile::Latency { Verdict::Warning } else { Verdict::Advice };
    Ok(Found::wrong(verdict, read, want, vec![Fix::Knob(Knob::sysctl("kernel.numa_balancing", 0))]))
}

fn bind(look: Look<'_>) -> Result<Found, Found> {
    let want = "shards on the network card's node first";
    let topology = look.topology().map_err(|why| Found::unread(why, want))?;
    if topology.nodes.len() < 2 {
        return Err(Found::not_applicable(ONE_NODE));
    }
    let Some(card) = &topology.card else { return Err(Found::not_applicable("there is no network card")) };
    let Some(near) = card.node else {
        return Err(Found::not_applicable(format!(
            "the machine does not tell which node {} is attached to",
            card.name
        )));
    };
    let Some(pinned) = pinned(look) else {
        return Err(Found::not_applicable("shards are not pinned to CPUs"));
    };
    let away = pinned.cpus.iter().filter(|cpu| topology.node_of(**cpu) != Some(near)).count();
    let of_node = topology.allowed.iter().filter(|cpu| topology.node_of(*cpu) == Some(near)).count();
    let count = pinned.cpus.len();
    let read = format!("{}; {} of {count} on node {near}, where {} is attached", pinned.text, count - away, card.name);
    // More shards than the node has CPUs cannot all be on it.
    if away <= pinned.cpus.len().saturating_sub(of_node) {
        return Ok(Found::fine(read, want));
    }
    Ok(Found::wrong(Verdict::Advice, read, want, vec![Fix::Advice(START_ON_CHOSEN.into())]))
}
