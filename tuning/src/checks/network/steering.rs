//! Which CPU a packet is taken in on.

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::cpu_set::CpuSet;
use crate::cpus;
use crate::fix::{Fix, Knob};
use crate::plan::Profile;
use crate::topology::Topology;

use super::interrupts::{self, QueueInterrupt};
use super::settings::{number, set, settled};
use super::{cards, ethtool, gateway};

/// See the [module](self).
pub const CHECKS: &[Check] = &[
    Check {
        id: "nic_queues",
        area: Area::Network,
        why: "a queue is taken in by one CPU: with fewer than shards one CPU works for several, with more they interrupt \
              CPUs that have other work",
        run: |look| cards::each(look, "", nic_queues),
    },
    Check {
        id: "nic_irq",
        area: Area::Network,
        why: "two queues on one CPU are half as fast, and a CPU of another NUMA node reaches for each packet across the \
              machine",
        run: |look| cards::each(look, "", nic_irq),
    },
    Check {
        id: "irqbalance",
        area: Area::Network,
        why: "moves interrupts away from where they were put",
        run: |look| settled(super::irqbalance::check(look)),
    },
    Check {
        id: "rps",
        area: Area::Network,
        why: "spreads a queue's packets over CPUs by interrupting them: worth it where a card has too few queues",
        run: |look| cards::each(look, "", rps),
    },
    Check {
        id: "rfs",
        area: Area::Network,
        why: "takes a connection's packets in on the CPU of the shard that reads them, whatever the card's hash says",
        run: |look| cards::each(look, "", rfs),
    },
    Check {
        id: "xps",
        area: Area::Network,
        why: "with a transmit queue of its own a CPU waits for no other's lock",
        run: |look| cards::each(look, "", xps),
    },
];

/// Where what is to run.
pub(super) struct Places {
    /// The shards' CPUs, in the order of shards.
    pub(super) shards: Vec<usize>,
    /// Those of them that are on the card's node.
    shards_near: Vec<usize>,
    /// Those on the card's node that are left to its interrupts; none where the shards need all.
    interrupts: CpuSet,
}

impl Places {
    /// Where a gateway that runs has pinned its shards, or else where `doctor cpus` would have them.
    pub(super) fn of(look: Look<'_>, card: &str) -> Places {
        let allowed = allowed(look);
        let pinned: Vec<usize> = gateway::shards(look).iter().filter_map(only).collect();
        let planned = gateway::shard_count(look);
        let chosen = look.topology().and_then(|topology| cpus::choose(&topology, look.plan.profile, planned));
        let (shards, interrupts) = match chosen.ok().and_then(|choice| Some((choice.cpus?, choice.interrupts))) {
            _ if !pinned.is_empty() => {
                let left = allowed.iter().filter(|cpu| !pinned.contains(cpu)).collect();
                (pinned, left)
            }
            Some(chosen) => chosen,
            None => (allowed.iter().take(planned.unwrap_or(allowed.len())).collect(), CpuSet::default()),
        };
        let topology = look.topology().unwrap_or_default();
        let near = cards::node(look, card).map_or_else(|| topology.online.clone(), |(_, cpus)| cpus);
        let kept: Vec<usize> = interrupts.iter().filter(|cpu| near.contains(*cpu)).collect();
        // As `doctor cpus` has it: a core that no shard runs on, rather than the other thread of one that a shard does.
        let free = |cpu: &usize| !topology.core_of(*cpu).iter().any(|thread| shards.contains(&thread));
        let whole: CpuSet = kept.iter().copied().filter(free).collect();
        let interrupts = match (whole.is_empty(), kept.is_empty()) {
            (false, _) => whole,
            (true, false) => kept.into_iter().collect(),
            (true, true) => beside(&topology, &near, &shards),
        };
        Places { shards_near: shards.iter().copied().filter(|cpu| near.contains(*cpu)).collect(), shards, interrupts }
    }

    /// A CPU near the card for each of `queues`, of which some are on CPUs near it and stay: `taken`.
    fn of_interrupts(&self, queues: usize, taken: &[usize]) -> Vec<usize> {
        let apart = taken.iter().all(|cpu| !self.shards.contains(cpu));
        let mut targets: Vec<usize> = self.interrupts.iter().collect();
        if targets.is_empty() || !apart {
            targets.extend(&self.shards_near);
        }
        let mut queues_of: Vec<usize> =
            targets.iter().map(|target| taken.iter().filter(|cpu| *cpu == target).count()).collect();
        let next = |_| {
            let at = (0..targets.len()).min_by_key(|at| queues_of[*at])?;
            queues_of[at] += 1;
            Some(targets[at])
        };
        (0..queues).map_while(next).collect()
    }
}

/// CPUs near the card without a shard, where the gateway may run on none of them: an interrupt is handled wherever it is put,
/// whatever the gateway's own processes may use. One for each shard, on other cores than theirs as far as there are any.
fn beside(topology: &Topology, near: &CpuSet, shards: &[usize]) -> CpuSet {
    let is_free = |cpu: &usize| near.contains(*cpu) && !shards.contains(cpu) && !topology.isolated.contains(*cpu);
    let mut cpus: Vec<usize> = topology.online.iter().filter(is_free).collect();
    cpus.sort_by_key(|cpu| {
        let core = topology.core_of(*cpu);
        (core.iter().any(|thread| shards.contains(&thread)), core.iter().next() != Some(*cpu), *cpu)
    });
    cpus.into_iter().take(shards.len().max(1)).collect()
}

/// Where this process, or the gateway, may run.
fn allowed(look: Look<'_>) -> CpuSet {
    look.topology().map(|topology| topology.allowed).unwrap_or_default()
}

/// The CPU that a shard is pinned to.
fn only(cpus: &CpuSet) -> Option<usize> {
    cpus.iter().next().filter(|_| cpus.len() == 1)
}

fn nic_queues(look: Look<'_>, card: &str) -> Result<Found, Found> {
    let places = Places::of(look, card);
    let (shards, kept) = (places.shards.len().max(1), places.interrupts.len());
    let want = match kept {
        0 => format!("as many queues as shards: {shards}"),
        _ => format!("as many queues as CPUs that are left to interrupts, {kept}, or as shards, {shards}"),
    };
    let (now, most) = counts(look, card, &want);
    let Some(now) = now else {
        return Err(Found::unread(format!("/sys/class/net/{card}/queues names no queue"), want));
    };
    let read = match most {
        Some(most) => format!("{card}: {now} of {most} receive queues"),
        None => format!("{card}: receive queues: {now}"),
    };
    let wanted = if kept > 0 { kept } else { shards };
    let fits = now == shards || now == kept || now == most.unwrap_or(usize::MAX) && now < wanted;
    // More than needed do no harm but to the last percentiles.
    let spare = now > wanted && look.plan.profile != Profile::Latency;
    if fits || spare || look.plan.profile == Profile::Shared {
        return Ok(Found::fine(read, want));
    }
    let fix = match most {
        Some(most) => format!("ethtool -L {card} combined {}", wanted.min(most)),
        None => format!("ethtool -L {card} combined {wanted}, when ethtool -l {card} says that the card has as many"),
    };
    let verdict = if now <= wanted / 2 && most.is_some() { Verdict::Warning } else { Verdict::Advice };
    Ok(Found::wrong(verdict, read, want, vec![Fix::Nic(fix)]))
}

/// Receive queues in use, and the most that the card has where its driver tells.
fn counts(look: Look<'_>, card: &str, want: &str) -> (Option<usize>, Option<usize>) {
    // The kernel has a directory for each, also where the tool is missing.
    let own = Some(cards::queues(look, card, "rx").len()).filter(|count| *count > 0);
    let Ok(lines) = ethtool::ask(look, "-l", card, want) else { return (own, None) };
    // Drivers with queues that only receive tell those.
    let key = if lines.now("Combined").is_some_and(|combined| combined > 0) { "Combined" } else { "RX" };
    let count = |number: Option<u64>| number.and_then(|number| usize::try_from(number).ok());
    (count(lines.now(key)).or(own), count(lines.number(key)))
}

fn nic_irq(look: Look<'_>, card: &str) -> Result<Found, Found> {
    let node = cards::node(look, card);
    let want = match &node {
        Some((node, cpus)) => {
            format!(
                "each queue on a CPU of its own, on the card's node {node} (CPUs {cpus}), or all on CPUs without a shard"
            )
        }
        None => "each queue on a CPU of its own, or all on CPUs without a shard".to_owned(),
    };
    let queues = interrupts::of_card(look, card);
    let placed: Vec<(&QueueInterrupt, usize)> =
        queues.iter().filter_map(|queue| Some((queue, queue.cpus.iter().next()?))).collect();
    if placed.is_empty() {
        return Err(Found::unread(
            format!("no interrupt of {card} is known from /proc/interrupts and /proc/irq"),
            want,
        ));
    }
    let mut read = told(card, &placed);
    let places = Places::of(look, card);
    let used: CpuSet = placed.iter().map(|(_, cpu)| *cpu).collect();
    let apart = used.iter().all(|cpu| !places.shards.contains(&cpu));
    // More queues than CPUs must share.
    let room = places.shards_near.len().max(places.interrupts.len()) >= placed.len();
    let crowded = used.len() < placed.len() && room && !apart;
    let far: Vec<String> = match &node {
        Some((_, cpus)) => {
            placed.iter().filter(|(_, cpu)| !cpus.contains(*cpu)).map(|(queue, _)| queue.irq.to_string()).collect()
        }
        None => Vec::new(),
    };
    if far.is_empty() && !crowded {
        return Ok(Found::fine(read, want));
    }
    if !far.is_empty() {
        read.push_str(&format!("; of another node: {}", far.join(", ")));
    }
    let verdict = if look.plan.profile == Profile::Shared { Verdict::Advice } else { Verdict::Warning };
    // One that is where it should be stays there, unless all are to be spread anew.
    let is_near = |cpu: usize| node.as_ref().is_none_or(|(_, cpus)| cpus.contains(cpu));
    let (stay, moved): (Vec<_>, Vec<_>) = placed.iter().partition(|(_, cpu)| !crowded && is_near(*cpu));
    let taken: Vec<usize> = stay.iter().map(|(_, cpu)| *cpu).collect();
    let mut fixes: Vec<Fix> = moved
        .iter()
        .zip(places.of_interrupts(moved.len(), &taken))
        .filter(|((_, cpu), target)| cpu != target)
        .map(|((queue, _), target)| {
            let path = format!("/proc/irq/{}/smp_affinity_list", queue.irq);
            Fix::Knob(Knob::file(path, target))
        })
        .collect();
    if fixes.is_empty() {
        fixes.push(Fix::Advice(format!("put the interrupts of {card} on CPUs of their own: ringgate doctor cpus")));
    }
    Ok(Found::wrong(verdict, read, want, fixes))
}

/// `eth0: interrupts 131-138 on CPUs 0, 0, 2`.
fn told(card: &str, placed: &[(&QueueInterrupt, usize)]) -> String {
    let irqs: CpuSet = placed.iter().map(|(queue, _)| queue.irq as usize).collect();
    let cpus: Vec<String> = placed.iter().map(|(_, cpu)| cpu.to_string()).collect();
    match placed {
        [(queue, cpu)] => format!("{card}: interrupt {} on CPU {cpu}", queue.irq),
        _ => format!("{card}: interrupts {irqs} on CPUs {}", cpus.join(", ")),
    }
}

/// Whether there is anything to spread packets over, and somebody who is to do it.
fn worth_spreading(look: Look<'_>) -> Result<(), Found> {
    if allowed(look).len() < 2 {
        return Err(Found::not_applicable("one CPU takes everything in"));
    }
    if look.plan.profile == Profile::Shared {
        return Err(Found::not_applicable("where a host is shared, packets are left where the card puts them"));
    }
    Ok(())
}

fn rps(look: Look<'_>, card: &str) -> Result<Found, Found> {
    worth_spreading(look)?;
    let queues = cards::queues(look, card, "rx");
    let cpus: CpuSet = Places::of(look, card).shards.into_iter().collect();
    let shards = cpus.len();
    let enough = queues.len() >= shards;
    let mask = if enough { "0".to_owned() } else { cpus.to_mask() };
    let want = match enough {
        true => format!("rps_cpus = 0, with a receive queue for each shard ({} for {shards})", queues.len()),
        false => format!("rps_cpus = {mask}, with fewer receive queues than shards ({} for {shards})", queues.len()),
    };
    let path = |queue: usize| format!("/sys/class/net/{card}/queues/rx-{queue}/rps_cpus");
    let mut masks = Vec::new();
    for queue in &queues {
        let reading = look.host.read(path(*queue));
        match reading.text().map(|text| (text, CpuSet::mask(text))) {
            Some((_, Some(cpus))) => masks.push((*queue, cpus)),
            Some((text, None)) => return Err(Found::unread(format!("{} holds {text:?}", path(*queue)), want)),
            None => return Err(Found::without(&reading, "this kernel spreads no packets (no rps_cpus)", want)),
        }
    }
    if masks.is_empty() {
        return Err(Found::unread(format!("/sys/class/net/{card}/queues names no queue"), want));
    }
    let wrong: Vec<usize> =
        masks.iter().filter(|(_, cpus)| cpus.is_empty() != enough).map(|(queue, _)| *queue).collect();
    let spread = masks.iter().filter(|(_, cpus)| !cpus.is_empty()).count();
    let read = format!("{card}: rps_cpus set on {spread} of {} queues", masks.len());
    if wrong.is_empty() {
        return Ok(Found::fine(read, want));
    }
    let knob = |queue: usize| Fix::Knob(Knob::file(path(queue), &mask));
    Ok(Found::wrong(Verdict::Advice, read, want, wrong.into_iter().map(knob).collect()))
}

/// Connections that are followed at a time, of the whole host.
const FLOWS: u64 = 32_768;

fn rfs(look: Look<'_>, card: &str) -> Result<Found, Found> {
    worth_spreading(look)?;
    let queues = cards::queues(look, card, "rx");
    let each = FLOWS / queues.len().max(1).next_power_of_two() as u64;
    let want = format!("net.core.rps_sock_flow_entries >= {FLOWS}, rps_flow_cnt >= {each} on each queue");
    let entries = number(look, "net.core.rps_sock_flow_entries", &want)?;
    let path = |queue: usize| format!("/sys/class/net/{card}/queues/rx-{queue}/rps_flow_cnt");
    let mut few = Vec::new();
    for queue in &queues {
        let reading = look.host.read(path(*queue));
        match reading.text().and_then(|text| text.parse::<u64>().ok()) {
            Some(flows) if flows >= each => {}
            Some(_) => few.push(*queue),
            None => return Err(Found::without(&reading, "this kernel follows no connections (no rps_flow_cnt)", want)),
        }
    }
    let read = format!(
        "net.core.rps_sock_flow_entries = {entries}; {card}: rps_flow_cnt >= {each} on {} of {} queues",
        queues.len() - few.len(),
        queues.len()
    );
    let mut fixes = Vec::new();
    if entries < FLOWS {
        fixes.extend(set(look, "net.core.rps_sock_flow_entries", FLOWS));
    }
    fixes.extend(few.iter().map(|queue| Fix::Knob(Knob::file(path(*queue), each))));
    let verdict = if fixes.is_empty() { Verdict::Fine } else { Verdict::Advice };
    Ok(Found::wrong(verdict, read, want, fixes))
}

fn xps(look: Look<'_>, card: &str) -> Result<Found, Found> {
    let queues = cards::queues(look, card, "tx");
    if queues.len() < 2 {
        return Err(Found::not_applicable(format!("{card} has one transmit queue")));
    }
    let shards = Places::of(look, card).shards;
    let want = format!("each of the shards' CPUs with a transmit queue, of its own where {card} has enough");
    let path = |queue: usize| format!("/sys/class/net/{card}/queues/tx-{queue}/xps_cpus");
    let mut masks = Vec::new();
    for queue in &queues {
        let reading = look.host.read(path(*queue));
        match reading.text().map(|text| (text, CpuSet::mask(text))) {
            Some((_, Some(cpus))) => masks.push(cpus),
            Some((text, None)) => return Err(Found::unread(format!("{} holds {text:?}", path(*queue)), want)),
            None => return Err(Found::without(&reading, "this kernel gives CPUs no queues (no xps_cpus)", want)),
        }
    }
    let without: CpuSet = shards.iter().copied().filter(|cpu| !masks.iter().any(|mask| mask.contains(*cpu))).collect();
    let crowded = masks.iter().any(|mask| shards.iter().filter(|cpu| mask.contains(**cpu)).count() > 1);
    let enough = queues.len() >= shards.len();
    let read = match (without.is_empty(), crowded) {
        (false, _) => format!("{card}: CPUs {without} have no transmit queue of their own"),
        (true, true) => format!("{card}: the shards' {} CPUs share {} transmit queues", shards.len(), queues.len()),
        (true, false) => format!("{card}: a transmit queue for each of the shards' CPUs"),
    };
    if without.is_empty() && !(crowded && enough) {
        return Ok(Found::fine(read, want));
    }
    // Other CPUs than the shards' may have any.
    let all: Vec<usize> =
        shards.iter().copied().chain(allowed(look).iter().filter(|cpu| !shards.contains(cpu))).collect();
    let knob = |(nth, queue): (usize, &usize)| {
        let cpus: CpuSet = all.iter().copied().skip(nth).step_by(queues.len()).collect();
        Fix::Knob(Knob::file(path(*queue), cpus.to_mask()))
    };
    Ok(Found::wrong(Verdict::Advice, read, want, queues.iter().enumerate().map(knob).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_go_to_a_core_without_a_shard_as_the_list_of_cpus_has_it() {
        // Four cores of two threads, with shards on all but the first.
        let task = |shard: usize| {
            let at = format!("/proc/7/task/{}", 70 + shard);
            let status = format!("Cpus_allowed_list:\t{shard}\n");
            [(format!("{at}/comm"), format!("shard-{shard}\n")), (format!("{at}/status"), status)]
        };
        let siblings = |cpu: usize| {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
            (path, format!("{},{}\n", cpu % 4, cpu % 4 + 4))
        };
        let files: Vec<(String, String)> = (1..4)
            .flat_map(task)
            .chain((0..8).map(siblings))
            .chain([
                ("/proc/7/status".into(), "Cpus_allowed_list:\t0-7\n".into()),
                ("/sys/devices/system/cpu/online".into(), "0-7\n".into()),
            ])
            .collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let (_kept, host) = crate::host::tests::host(&files);
        let plan = crate::plan::Plan { pid: Some(7), ..crate::plan::Plan::default() };
        let places = Places::of(Look { host: &host, plan: &plan }, "eth0");
        assert_eq!(places.shards, [1, 2, 3]);
        assert_eq!(places.interrupts.to_string(), "0,4", "and not 5-7, the other threads of the shards' cores");
    }

    /// Two nodes of four CPUs, `eth0` on the first with an interrupt on each of `placed`, and a gateway that may run on
    /// `allowed`: which one goes where.
    fn moves(allowed: &str, placed: &[usize]) -> Vec<(usize, usize)> {
        let mut files = vec![
            ("/proc/self/status".to_owned(), format!("Cpus_allowed_list:\t{allowed}\n")),
            ("/sys/devices/system/cpu/online".into(), "0-7\n".into()),
            ("/sys/devices/system/node/online".into(), "0-1\n".into()),
            ("/sys/devices/system/node/node0/cpulist".into(), "0-3\n".into()),
            ("/sys/devices/system/node/node1/cpulist".into(), "4-7\n".into()),
            ("/sys/class/net/eth0/device/numa_node".into(), "0\n".into()),
        ];
        let mut interrupts = String::new();
        for (nth, cpu) in placed.iter().enumerate() {
            let irq = 20 + nth;
            interrupts += &format!(" {irq}: 5 PCI-MSIX eth0-TxRx-{nth}\n");
            files.push((format!("/sys/class/net/eth0/device/msi_irqs/{irq}"), "msix\n".into()));
            files.push((format!("/proc/irq/{irq}/smp_affinity_list"), format!("{cpu}\n")));
        }
        files.push(("/proc/interrupts".into(), interrupts));
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let (_kept, host) = crate::host::tests::host(&files);
        let plan = crate::plan::Plan::default();
        let found = super::super::settings::settled(nic_irq(Look { host: &host, plan: &plan }, "eth0"));
        let knob = |fix| if let Fix::Knob(knob) = fix { knob } else { panic!("{fix:?}") };
        let moved = |Knob { path, value }| {
            let irq = path.parent().unwrap().file_name().unwrap().to_str().unwrap().parse::<usize>().unwrap();
            (irq - 20, value.parse().unwrap())
        };
        found.fixes.into_iter().map(knob).map(moved).collect()
    }

    #[test]
    fn a_gateway_on_the_other_node_takes_no_interrupt_off_the_cards() {
        assert_eq!(moves("4-7", &[0, 1, 2, 3]), []);
        assert_eq!(moves("4-7", &[0, 1, 6, 2]), [(2, 3)], "the others stay");
        assert_eq!(moves("4-7", &[4, 5, 6, 7]), [(0, 0), (1, 1), (2, 2), (3, 3)]);
    }

    #[test]
    fn what_is_moved_once_is_where_it_should_be() {
        for allowed in ["0-7", "0-3", "4-7", "2-5", "1", "6"] {
            for placed in [&[0, 1, 2, 7][..], &[4, 5, 6, 7], &[1, 1, 5, 5], &[1, 2, 4, 4, 5, 6], &[7], &[0, 0, 0, 0]] {
                let mut after = placed.to_vec();
                for (nth, cpu) in moves(allowed, placed) {
                    assert!(cpu < 4, "CPUs {allowed}: {placed:?}: off the card's node");
                    after[nth] = cpu;
                }
                assert_eq!(moves(allowed, &after), [], "CPUs {allowed}: {placed:?}, then {after:?}");
            }
        }
    }
}
