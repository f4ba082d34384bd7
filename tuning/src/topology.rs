//! Which CPUs a host has for a gateway, and what is near what.

use std::collections::BTreeMap;

use crate::cgroup::ControlGroups;
use crate::cpu_set::CpuSet;
use crate::host::{Host, Reading, field};
use crate::interfaces;

/// A host's CPUs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Topology {
    /// Online, and this process (or the one looked at) may run there.
    pub allowed: CpuSet,
    /// Online, whoever may run there.
    pub online: CpuSet,
    /// Kept free of other work by the kernel's command line.
    pub isolated: CpuSet,
    /// By CPU: those of its physical core, itself among them. One that is not in it has a core of its own.
    pub siblings: BTreeMap<usize, CpuSet>,
    /// By NUMA node; empty when the kernel tells none.
    pub nodes: BTreeMap<usize, CpuSet>,
    /// The network card that clients most likely come by.
    pub card: Option<Card>,
    /// CPUs' worth of time that the control group grants; `None`: no bound.
    pub quota: Option<f64>,
}

/// A network card.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Card {
    /// Its interface.
    pub name: String,
    /// The NUMA node it is attached to, where the machine tells.
    pub node: Option<usize>,
    /// How many of its interrupts are handled on which CPU; only of those that have one CPU of their own.
    pub interrupts: BTreeMap<usize, usize>,
}

impl Topology {
    /// As the host tells it.
    ///
    /// # Errors
    /// Not even the CPUs that a process may run on can be read: says why.
    pub fn read(host: &Host, pid: Option<u32>) -> Result<Topology, String> {
        let process = pid.map_or("self".to_owned(), |pid| pid.to_string());
        let status = format!("/proc/{process}/status");
        let may_run_on = match host.read(&status) {
            Reading::Text(text) => field(&text, "Cpus_allowed_list").and_then(CpuSet::list),
            Reading::Absent => return Err(format!("there is no {status}")),
            Reading::Unread(why) => return Err(why),
        };
        let Some(may_run_on) = may_run_on.filter(|cpus| !cpus.is_empty()) else {
            return Err(format!("{status} has no Cpus_allowed_list"));
        };
        let online = list_in(host, "/sys/devices/system/cpu/online").unwrap_or_else(|| may_run_on.clone());
        let siblings = online
            .iter()
            .filter_map(|cpu| {
                let topology = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
                let siblings = list_in(host, &format!("{topology}/thread_siblings_list"))
                    .or_else(|| list_in(host, &format!("{topology}/core_cpus_list")))?;
                Some((cpu, siblings))
            })
            .collect();
        let nodes = host
            .list("/sys/devices/system/node")
            .unwrap_or_default()
            .iter()
            .filter_map(|name| {
                let node = name.strip_prefix("node")?.parse().ok()?;
                Some((node, list_in(host, &format!("/sys/devices/system/node/{name}/cpulist"))?))
            })
            .collect();
        Ok(Topology {
            allowed: may_run_on.iter().filter(|cpu| online.contains(*cpu)).collect(),
            online,
            isolated: list_in(host, "/sys/devices/system/cpu/isolated").unwrap_or_default(),
            siblings,
            nodes,
            card: card(host, &process),
            quota: ControlGroups::of(host, &process).cpu_quota(host).map(|(quota, _)| quota),
        })
    }

    /// The node of a CPU.
    pub fn node_of(&self, cpu: usize) -> Option<usize> {
        self.nodes.iter().find(|(_, cpus)| cpus.contains(cpu)).map(|(node, _)| *node)
    }

    /// The CPUs of a CPU's physical core, itself among them.
    pub fn core_of(&self, cpu: usize) -> CpuSet {
        self.siblings.get(&cpu).cloned().unwrap_or_else(|| [cpu].into_iter().collect())
    }
}

fn list_in(host: &Host, path: &str) -> Option<CpuSet> {
    host.read(path).text().and_then(CpuSet::list)
}

/// The card of the default route, below whatever is stacked on it, or else the first that is up; of several, as of a bond, the
/// first that is up.
fn card(host: &Host, process: &str) -> Option<Card> {
    let routed = interfaces::by_route(host, &format!("/proc/{process}/net"));
    let cards: Vec<String> = routed.iter().flat_map(|interface| interfaces::cards_of(host, interface)).collect();
    let up = cards.iter().find(|card| interfaces::is_up(host, card)).cloned();
    let name =
        up.or_else(|| cards.into_iter().next()).or_else(|| interfaces::cards_up(host).ok()?.into_iter().next())?;
    let node = interfaces::device_file(host, &name, "numa_node").text().and_then(|text| text.parse().ok());
    let interrupts = interrupts(host, &name);
    Some(Card { name, node, interrupts })
}

/// On which CPUs a card's interrupts are handled.
fn interrupts(host: &Host, card: &str) -> BTreeMap<usize, usize> {
    // A virtio card's interrupts are those of the PCI device that it hangs on.
    let device = format!("/sys/class/net/{card}/device");
    let numbers = [format!("{device}/msi_irqs"), format!("{device}/../msi_irqs")]
        .iter()
        .find_map(|directory| host.list(directory).ok().filter(|list| !list.is_empty()))
        .unwrap_or_default();
    let mut interrupts = BTreeMap::new();
    for number in numbers {
        let handled = ["effective_affinity_list", "smp_affinity_list"]
            .iter()
            .find_map(|file| list_in(host, &format!("/proc/irq/{number}/{file}")).filter(|cpus| !cpus.is_empty()));
        // One that may go anywhere says nothing about any CPU.
        if let Some(cpus) = handled.filter(|cpus| cpus.len() == 1) {
            cpus.iter().for_each(|cpu| *interrupts.entry(cpu).or_insert(0) += 1);
        }
    }
    interrupts
}
