//! The CPUs: what they are, how many may be used, and what makes them slower or uneven.

use std::collections::BTreeMap;
use std::io;

use serde_json::{Map, Value};

use super::facts::Facts;
use crate::host::root::{Root, unexpected};

const CPUS: &str = "sys/devices/system/cpu";

pub(super) fn tell(facts: &mut Facts) {
    let info = facts.root.text("proc/cpuinfo");
    for (fact, name) in [("cpu_model", "model name"), ("cpu_microcode", "microcode")] {
        let value = match &info {
            Ok(info) => info_line(info, name).ok_or_else(|| unexpected("proc/cpuinfo", name)),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        };
        facts.read(fact, value);
    }
    if let Ok(info) = &info {
        let flags = info_line(info, "flags").unwrap_or_default();
        facts.set("cpu_is_virtual", flags.split(' ').any(|flag| flag == "hypervisor"));
        if let Some(mhz) = info_line(info, "cpu MHz").and_then(|mhz| mhz.parse::<f64>().ok()) {
            facts.set("cpu_mhz_at_start", mhz);
        }
    }
    facts.file("cpus_online", format!("{CPUS}/online"));
    facts.file("cpus_isolated", format!("{CPUS}/isolated"));
    let allowed = status_line(&facts.root, "Cpus_allowed_list");
    facts.read("cpus_allowed", allowed);
    facts.file("smt_active", format!("{CPUS}/smt/active"));
    let nodes = facts.root.names("sys/devices/system/node").map(|names| {
        names.iter().filter(|name| name.strip_prefix("node").is_some_and(|id| id.parse::<u32>().is_ok())).count()
    });
    facts.read("numa_nodes", nodes);
    let governors = governors(&facts.root);
    facts.read("cpu_governors", governors);
    let turbo = turbo(&facts.root);
    facts.read("cpu_turbo", turbo);
    facts.file("cpu_idle_driver", format!("{CPUS}/cpuidle/current_driver"));
    let states = idle_states(&facts.root);
    facts.read("cpu_idle_states", states);
    let mitigations = all_of(&facts.root, &format!("{CPUS}/vulnerabilities"));
    facts.read("mitigations", mitigations);
    facts.file("clock_source", "sys/devices/system/clocksource/clocksource0/current_clocksource");
}

/// The first CPU's `name : value`.
fn info_line(info: &str, name: &str) -> Option<String> {
    info.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim().to_owned())
    })
}

pub(super) fn status_line(root: &Root, name: &str) -> io::Result<String> {
    let status = root.text("proc/self/status")?;
    info_line(&status, name).ok_or_else(|| unexpected("proc/self/status", &status))
}

/// How many frequency policies have which governor: one that differs is what to look for.
fn governors(root: &Root) -> io::Result<Value> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for policy in root.names(format!("{CPUS}/cpufreq"))? {
        if policy.starts_with("policy") {
            *counts.entry(root.text(format!("{CPUS}/cpufreq/{policy}/scaling_governor"))?).or_default() += 1;
        }
    }
    if counts.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "no frequency policies: the host or hypervisor decides"));
    }
    Ok(counts.into_iter().map(|(name, count)| (name, Value::from(count))).collect::<Map<_, _>>().into())
}

/// Whether CPUs may run above their nominal frequency.
fn turbo(root: &Root) -> io::Result<bool> {
    match root.text(format!("{CPUS}/cpufreq/boost")) {
        Ok(boost) => Ok(boost != "0"),
        Err(_) => Ok(root.text(format!("{CPUS}/intel_pstate/no_turbo"))? == "0"),
    }
}

/// The first CPU's idle states, by name: the time to wake from it, and whether it is switched off.
fn idle_states(root: &Root) -> io::Result<Value> {
    let directory = format!("{CPUS}/cpu0/cpuidle");
    let mut states = Map::new();
    for state in root.names(&directory)? {
        let read = |file| root.text(format!("{directory}/{state}/{file}"));
        let latency = read("latency")?;
        let latency = latency.parse::<u64>().map_err(|_| unexpected("cpuidle latency", &latency))?;
        let state = serde_json::json!({ "exit_latency_us": latency, "disabled": read("disable")? != "0" });
        states.insert(read("name")?, state);
    }
    Ok(states.into())
}

/// Every file of a directory by its name.
fn all_of(root: &Root, directory: &str) -> io::Result<Value> {
    let mut all = Map::new();
    for name in root.names(directory)? {
        let text = root.text(format!("{directory}/{name}"))?;
        all.insert(name, text.into());
    }
    Ok(all.into())
}
