//! Which CPUs a gateway gets on machines of many shapes.

use ringgate_tuning::cpus::{Choice, choose};
use ringgate_tuning::topology::{Card, Topology};
use ringgate_tuning::{CpuSet, Host, Profile};

use Profile::{Latency, Shared, Throughput};

/// Nodes of cores of one or two threads, numbered as Linux does it: first all first threads, then all second ones.
fn machine(nodes: usize, cores_per_node: usize, threads: usize) -> Topology {
    let cores = nodes * cores_per_node;
    let all: CpuSet = (0..cores * threads).collect();
    Topology {
        allowed: all.clone(),
        siblings: all.iter().map(|cpu| (cpu, (0..threads).map(|nth| cpu % cores + nth * cores).collect())).collect(),
        nodes: (0..nodes)
            .map(|node| (node, all.iter().filter(|cpu| cpu % cores / cores_per_node == node).collect()))
            .collect(),
        online: all,
        ..Topology::default()
    }
}

fn with_card(mut topology: Topology, node: usize, interrupts: &[usize]) -> Topology {
    let interrupts = interrupts.iter().map(|cpu| (*cpu, 1)).collect();
    topology.card = Some(Card { name: "eth0".into(), node: Some(node), interrupts });
    topology
}

fn chosen(topology: &Topology, profile: Profile, shards: Option<usize>) -> String {
    choose(topology, profile, shards).unwrap().to_string()
}

fn says(choice: &Choice, part: &str) -> bool {
    choice.reasons.iter().any(|reason| reason.contains(part))
}

#[test]
fn a_small_machine_gives_all_it_has() {
    assert_eq!(chosen(&machine(1, 1, 1), Latency, None), "0");
    assert_eq!(chosen(&machine(1, 2, 1), Latency, None), "0,1");
    assert_eq!(chosen(&machine(1, 4, 1), Throughput, None), "0,1,2,3");
    assert_eq!(chosen(&machine(1, 2, 2), Throughput, None), "0,1,2,3");
}

#[test]
fn latency_takes_one_thread_of_a_core_and_throughput_all() {
    let choice = choose(&machine(1, 4, 2), Latency, None).unwrap();
    assert_eq!(choice.to_string(), "0,1,2,3");
    assert_eq!(choice.interrupts.to_string(), "4-7");
    assert!(says(&choice, "physical core"), "{choice:?}");
    let choice = choose(&machine(1, 4, 2), Throughput, None).unwrap();
    assert_eq!(choice.to_string(), "0,1,2,3,4,5,6", "one thread is for interrupts");
    assert_eq!(choice.interrupts.to_string(), "7");
}

#[test]
fn from_five_cores_on_one_of_each_sixteen_is_for_interrupts() {
    let choice = choose(&machine(1, 8, 2), Latency, None).unwrap();
    assert_eq!((choice.to_string().as_str(), choice.interrupts.to_string().as_str()), ("1,2,3,4,5,6,7", "0,8"));
    assert_eq!(choose(&machine(1, 16, 1), Latency, None).unwrap().cpus.unwrap().len(), 15);
    assert_eq!(choose(&machine(1, 17, 1), Latency, None).unwrap().cpus.unwrap().len(), 15);
    assert_eq!(choose(&machine(2, 32, 2), Latency, None).unwrap().interrupts.len(), 8);
    assert_eq!(choose(&machine(2, 32, 2), Throughput, None).unwrap().cpus.unwrap().len(), 120);
}

#[test]
fn the_node_of_the_card_comes_first_and_its_interrupts_stay_there() {
    let topology = with_card(machine(2, 4, 2), 1, &[]);
    let choice = choose(&topology, Latency, None).unwrap();
    assert_eq!(choice.to_string(), "5,6,7,0,1,2,3");
    assert_eq!(choice.interrupts.to_string(), "4,12");
    assert!(says(&choice, "the first 3 on NUMA node 1, where eth0"), "{choice:?}");
    let choice = choose(&topology, Latency, Some(3)).unwrap();
    assert_eq!(choice.to_string(), "5,6,7");
    assert!(says(&choice, "all on NUMA node 1"), "{choice:?}");
}

#[test]
fn nothing_is_kept_for_interrupts_where_the_gateway_may_not_run_near_the_card() {
    let mut topology = with_card(machine(2, 8, 2), 0, &[0, 1]);
    topology.allowed = topology.nodes[&1].clone();
    let choice = choose(&topology, Latency, None).unwrap();
    assert_eq!(choice.to_string(), "8,9,10,11,12,13,14,15");
    assert!(choice.interrupts.is_empty(), "{choice:?}");
    assert!(!says(&choice, "interrupts of eth0"), "{choice:?}");
    assert!(says(&choice, "CPUs 0-7,16-23 are near it") && !says(&choice, "--shards 0"), "{choice:?}");
}

#[test]
fn the_core_that_has_most_interrupts_keeps_them() {
    let topology = with_card(machine(1, 8, 1), 0, &[3, 5, 5]);
    let mut busier = topology.clone();
    busier.card.as_mut().unwrap().interrupts.insert(5, 2);
    let choice = choose(&busier, Latency, None).unwrap();
    assert_eq!(choice.interrupts.to_string(), "5");
    assert_eq!(choice.to_string(), "0,1,2,4,6,7,3", "one with an interrupt is taken last");
    assert!(says(&choice, "interrupts of eth0 are handled on the shards' CPUs 3"), "{choice:?}");
    let fewer = choose(&busier, Latency, Some(4)).unwrap();
    assert!(!says(&fewer, "shards' CPUs"), "{fewer:?}");
}

#[test]
fn isolated_cpus_are_taken_alone_when_there_are_any() {
    let mut topology = with_card(machine(2, 4, 2), 0, &[]);
    topology.isolated = CpuSet::list("2-3,6-7,10-11,14-15").unwrap();
    let choice = choose(&topology, Latency, None).unwrap();
    assert_eq!(choice.to_string(), "2,3,6,7");
    assert!(says(&choice, "isolated"), "{choice:?}");
    assert_eq!(chosen(&topology, Throughput, None), "2,3,6,7,10,11,14,15");
    assert_eq!(chosen(&topology, Latency, Some(9)), "2,3,6,7,10,11,14,15,0");
}

#[test]
fn isolated_cpus_that_are_not_allowed_are_told() {
    let mut topology = machine(1, 4, 1);
    topology.isolated = CpuSet::list("2-3").unwrap();
    topology.allowed = CpuSet::list("0-1").unwrap();
    let choice = choose(&topology, Latency, None).unwrap();
    assert_eq!(choice.to_string(), "0,1");
    assert!(says(&choice, "taskset --cpu-list 2-3"), "{choice:?}");
}

#[test]
fn only_allowed_cpus_are_ever_taken() {
    let mut topology = with_card(machine(2, 8, 2), 0, &[0, 1]);
    for list in ["5", "1,3,9-12", "8-15", "16-31", "0-31"] {
        topology.allowed = CpuSet::list(list).unwrap();
        for profile in [Latency, Throughput] {
            for shards in std::iter::once(None).chain((1..=topology.allowed.len()).map(Some)) {
                let choice = choose(&topology, profile, shards).unwrap();
                let cpus = choice.cpus.unwrap();
                assert!(!cpus.is_empty() && shards.is_none_or(|shards| shards == cpus.len()), "{list} {shards:?}");
                assert!(cpus.iter().all(|cpu| topology.allowed.contains(*cpu)), "{list} {cpus:?}");
                assert_eq!(cpus.iter().copied().collect::<CpuSet>().len(), cpus.len(), "{list}: one twice");
                assert!(choice.interrupts.iter().all(|cpu| topology.allowed.contains(cpu) && !cpus.contains(&cpu)));
            }
        }
        assert!(choose(&topology, Latency, Some(topology.allowed.len() + 1)).is_err());
    }
}

#[test]
fn more_shards_than_is_good_take_threads_before_the_interrupts_core() {
    let choice = choose(&machine(1, 8, 2), Latency, Some(15)).unwrap();
    assert_eq!(choice.to_string(), "1,2,3,4,5,6,7,9,10,11,12,13,14,15,0");
    assert_eq!(choice.interrupts.to_string(), "8");
    assert!(says(&choice, "more than the 7"), "{choice:?}");
}

#[test]
fn a_shared_machine_is_left_to_the_scheduler() {
    assert_eq!(chosen(&machine(2, 4, 2), Shared, None), "none");
    assert_eq!(chosen(&machine(1, 1, 1), Shared, Some(8)), "none");
}

#[test]
fn a_quota_that_would_stop_shards_is_told() {
    let mut topology = machine(1, 4, 1);
    topology.quota = Some(1.5);
    assert!(says(&choose(&topology, Latency, None).unwrap(), "grants 1.5 CPUs"));
    assert!(!says(&choose(&topology, Latency, Some(1)).unwrap(), "grants"));
}

fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = root.path().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let host = Host::below(root.path());
    (root, host)
}

/// The first line of `/proc/net/route`.
const ROUTES: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";

/// A host with four cards of which all but the first are up, and a default route by `interface`: its card.
fn card_of(interface: &str) -> Option<Card> {
    let route = format!("{ROUTES}{interface}\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n");
    let files = [
        ("/proc/self/status", "Cpus_allowed_list:\t0-3\n"),
        ("/proc/self/net/route", if interface.is_empty() { "" } else { &route }),
        ("/sys/class/net/eno1/device/numa_node", "0\n"),
        ("/sys/class/net/eno1/operstate", "down\n"),
        ("/sys/class/net/eno2/device/numa_node", "0\n"),
        ("/sys/class/net/eno2/operstate", "up\n"),
        ("/sys/class/net/ens1f0/device/numa_node", "1\n"),
        ("/sys/class/net/ens1f0/operstate", "down\n"),
        ("/sys/class/net/ens1f1/device/numa_node", "1\n"),
        ("/sys/class/net/ens1f1/operstate", "up\n"),
        ("/sys/class/net/bond0/lower_ens1f0/mtu", "1500\n"),
        ("/sys/class/net/bond0/lower_ens1f1/mtu", "1500\n"),
        ("/sys/class/net/bond0.7/lower_bond0/mtu", "1500\n"),
        ("/sys/class/net/br0/lower_bond0.7/mtu", "1500\n"),
        ("/sys/class/net/wg0/mtu", "1420\n"),
    ];
    let (_root, host) = tree(&files);
    Topology::read(&host, None).unwrap().card
}

#[test]
fn the_card_is_the_one_below_a_bond_a_vlan_and_a_bridge() {
    for stacked in ["bond0", "bond0.7", "br0"] {
        let card = card_of(stacked).unwrap();
        assert_eq!((card.name.as_str(), card.node), ("ens1f1", Some(1)), "{stacked}");
    }
    assert_eq!(card_of("ens1f0").unwrap().name, "ens1f0", "the route's own");
}

#[test]
fn without_a_card_below_the_default_route_one_that_is_up_is_taken() {
    for routed in ["wg0", ""] {
        assert_eq!(card_of(routed).unwrap().name, "eno2", "{routed}");
    }
}

#[test]
fn a_host_tells_its_cpus_cards_and_quota() {
    let (_root, host) = tree(&[
        ("/proc/self/status", "Name:\tx\nCpus_allowed:\tf\nCpus_allowed_list:\t0-3\n"),
        ("/proc/self/cgroup", "0::/pods/one\n"),
        ("/sys/fs/cgroup/pods/one/cpu.max", "max 100000\n"),
        ("/sys/fs/cgroup/pods/cpu.max", "250000 100000\n"),
        ("/sys/devices/system/cpu/online", "0-2\n"),
        ("/sys/devices/system/cpu/isolated", "\n"),
        ("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,2\n"),
        ("/sys/devices/system/cpu/cpu2/topology/core_cpus_list", "0,2\n"),
        ("/sys/devices/system/node/node0/cpulist", "0,2\n"),
        ("/sys/devices/system/node/node1/cpulist", "1,3\n"),
        ("/proc/self/net/route", &format!("{ROUTES}ens1\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n")),
        ("/sys/class/net/ens1/device/numa_node", "1\n"),
        ("/sys/class/net/ens1/device/msi_irqs/40", "msix\n"),
        ("/sys/class/net/ens1/device/msi_irqs/41", "msix\n"),
        ("/sys/class/net/ens1/device/msi_irqs/42", "msix\n"),
        ("/proc/irq/40/effective_affinity_list", "1\n"),
        ("/proc/irq/41/smp_affinity_list", "1\n"),
        ("/proc/irq/42/smp_affinity_list", "0-3\n"),
    ]);
    let topology = Topology::read(&host, None).unwrap();
    assert_eq!((topology.allowed.to_string().as_str(), topology.online.to_string().as_str()), ("0-2", "0-2"));
    assert_eq!(topology.core_of(2).to_string(), "0,2");
    assert_eq!((topology.node_of(0), topology.node_of(1), topology.node_of(9)), (Some(0), Some(1), None));
    let card = topology.card.as_ref().unwrap();
    assert_eq!((card.name.as_str(), card.node), ("ens1", Some(1)));
    assert_eq!(card.interrupts.iter().collect::<Vec<_>>(), [(&1, &2)]);
    assert_eq!(topology.quota, Some(2.5));
    assert_eq!(chosen(&topology, Latency, None), "1,0");
}

#[test]
fn a_host_that_does_not_tell_where_a_process_may_run_is_an_error() {
    for (files, part) in [
        (&[("/proc/version", "x")][..], "no /proc/self/status"),
        (&[("/proc/self/status", "Name:\tx\n")], "Cpus_allowed_list"),
        (&[("/proc/self/status", "Cpus_allowed_list:\t\n")], "Cpus_allowed_list"),
    ] {
        let (_root, host) = tree(files);
        let error = Topology::read(&host, None).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn this_machine_has_cpus_for_a_gateway() {
    let topology = Topology::read(&Host::live(), None).unwrap();
    let cpus = choose(&topology, Latency, None).unwrap().cpus.unwrap();
    assert!(cpus.iter().all(|cpu| topology.allowed.contains(*cpu)) && !cpus.is_empty());
}
