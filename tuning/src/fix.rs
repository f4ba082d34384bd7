//! What to do about a finding.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// One way of mending one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fix {
    /// A value of the running kernel, which `doctor --apply` writes and `--revert` gives back.
    Knob(Knob),
    /// A kernel parameter, which takes a reboot: printed, never done.
    Boot(String),
    /// A line of the service's unit file, with its section: `[Service] LimitMEMLOCK=infinity`.
    Unit(String),
    /// A command that may take a network link down for a moment: printed, never done.
    Nic(String),
    /// A command or setting that is the reader's to decide on.
    Advice(String),
}

/// A file of `/proc/sys` or `/sys` that takes a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knob {
    /// Absolute, of the host.
    pub path: PathBuf,
    /// What it is to hold, as it is written.
    pub value: String,
}

impl Fix {
    /// Which kind it is, as JSON has it.
    pub fn kind(&self) -> &'static str {
        match self {
            Fix::Knob(_) => "knob",
            Fix::Boot(_) => "boot",
            Fix::Unit(_) => "unit",
            Fix::Nic(_) => "nic",
            Fix::Advice(_) => "advice",
        }
    }

    /// The same in the words of the manual: [`Severity`](crate::Severity) has an "advice" of its own.
    pub fn kind_in_words(&self) -> &'static str {
        match self {
            Fix::Knob(_) => "running kernel",
            Fix::Boot(_) => "boot",
            Fix::Unit(_) => "unit",
            Fix::Nic(_) => "link",
            Fix::Advice(_) => "decision",
        }
    }

    /// A shell's command, or what to write where.
    pub fn text(&self) -> String {
        match self {
            Fix::Knob(knob) => knob.command(),
            Fix::Boot(text) | Fix::Unit(text) | Fix::Nic(text) | Fix::Advice(text) => text.clone(),
        }
    }
}

impl Knob {
    /// `net.core.somaxconn` and what it is to be.
    pub fn sysctl(name: &str, value: impl ToString) -> Knob {
        Knob { path: format!("/proc/sys/{}", name.replace('.', "/")).into(), value: value.to_string() }
    }

    /// A file below `/sys` and what it is to hold.
    pub fn file(path: impl Into<PathBuf>, value: impl ToString) -> Knob {
        Knob { path: path.into(), value: value.to_string() }
    }

    /// The command of a shell, run as root, that does it.
    pub fn command(&self) -> String {
        match self.sysctl_name() {
            Some(name) => format!("sysctl -w {}", quoted(&format!("{name}={}", self.value))),
            None => format!("echo {} > {}", quoted(&self.value), quoted(&self.path.to_string_lossy())),
        }
    }

    /// Its name as sysctl has it, of a file below `/proc/sys`.
    pub fn sysctl_name(&self) -> Option<String> {
        let path = self.path.to_string_lossy();
        let name = path.strip_prefix("/proc/sys/")?;
        // A dot in a name, as that of a VLAN's interface has, is a slash to sysctl.
        Some(name.replace('.', "\n").replace('/', ".").replace('\n', "/"))
    }
}

/// The commands and lines that do all of it, with one command for files of the same value whose paths differ in one
/// number: `echo performance | tee /sys/devices/system/cpu/cpufreq/policy{0..15}/scaling_governor`.
pub fn texts(fixes: &[Fix]) -> Vec<String> {
    let knobs: Vec<&Knob> =
        fixes.iter().filter_map(|fix| if let Fix::Knob(knob) = fix { Some(knob) } else { None }).collect();
    let mut texts = folded(&knobs);
    texts.extend(fixes.iter().filter(|fix| !matches!(fix, Fix::Knob(_))).map(Fix::text));
    texts
}

/// A path with one of its numbers taken out, and a value.
type Pattern<'a> = (String, String, &'a str);

fn folded(knobs: &[&Knob]) -> Vec<String> {
    let most_numbers = knobs.iter().map(|knob| numbers(&knob.path.to_string_lossy()).len()).max().unwrap_or(0);
    let patterns = (0..most_numbers).map(|nth| by_pattern(knobs, nth)).min_by_key(BTreeMap::len);
    let Some(patterns) = patterns.filter(|patterns| patterns.len() < knobs.len()) else {
        return knobs.iter().map(|knob| knob.command()).collect();
    };
    let single = knobs.iter().filter(|knob| !patterns.values().flatten().any(|(_, one)| one == *knob));
    let singles = single.map(|knob| knob.command());
    let groups = patterns.iter().map(|((before, after, value), group)| match group.as_slice() {
        [(_, only)] => only.command(),
        group => {
            let numbers: Vec<u64> = group.iter().map(|(number, _)| *number).collect();
            format!("echo {} | tee {before}{{{}}}{after}", quoted(value), braces(&numbers))
        }
    });
    groups.chain(singles).collect()
}

/// The knobs by what their paths are without their nth number. A path that has fewer is not among them.
fn by_pattern<'a>(knobs: &[&'a Knob], nth: usize) -> BTreeMap<Pattern<'a>, Vec<(u64, &'a Knob)>> {
    let mut patterns: BTreeMap<Pattern, Vec<(u64, &Knob)>> = BTreeMap::new();
    for knob in knobs {
        let path = knob.path.to_string_lossy();
        let Some(&(from, to)) = numbers(&path).get(nth) else { continue };
        let Ok(number) = path[from..to].parse() else { continue };
        let plain = path.chars().all(|c| c.is_ascii_alphanumeric() || "/_-.:".contains(c));
        if !plain || path.starts_with("/proc/sys/") {
            continue;
        }
        let pattern = (path[..from].to_owned(), path[to..].to_owned(), knob.value.as_str());
        patterns.entry(pattern).or_default().push((number, knob));
    }
    patterns
}

/// Where in a text the runs of digits are.
fn numbers(text: &str) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (at, c) in text.char_indices().filter(|(_, c)| c.is_ascii_digit()) {
        match runs.last_mut() {
            Some((_, to)) if *to == at => *to = at + c.len_utf8(),
            _ => runs.push((at, at + c.len_utf8())),
        }
    }
    runs
}

/// What stands between a shell's braces for these numbers: `0..15`, or `1,3,5`.
fn braces(numbers: &[u64]) -> String {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    match (sorted.first(), sorted.last()) {
        (Some(first), Some(last)) if sorted.len() > 2 && last - first + 1 == sorted.len() as u64 => {
            format!("{first}..{last}")
        }
        _ => sorted.iter().map(u64::to_string).collect::<Vec<_>>().join(","),
    }
}

/// A word as a shell takes it for one.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/_-.:=+,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knob_has_the_command_that_turns_it() {
        assert_eq!(Knob::sysctl("vm.swappiness", 1).command(), "sysctl -w vm.swappiness=1");
        let memory = Knob::sysctl("net.ipv4.tcp_rmem", "4096 131072 16777216");
        assert_eq!(memory.command(), "sysctl -w 'net.ipv4.tcp_rmem=4096 131072 16777216'");
        let vlan = Knob::file("/proc/sys/net/ipv4/conf/eth0.10/rp_filter", 2);
        assert_eq!(vlan.command(), "sysctl -w net.ipv4.conf.eth0/10.rp_filter=2");
        assert_eq!(Knob::file("/sys/kernel/mm/ksm/run", 0).command(), "echo 0 > /sys/kernel/mm/ksm/run");
    }

    #[test]
    fn files_that_differ_in_one_number_are_written_by_one_command() {
        let governor =
            |cpu| Knob::file(format!("/sys/devices/system/cpu/cpufreq/policy{cpu}/scaling_governor"), "performance");
        let all: Vec<Fix> = (0..16).map(governor).map(Fix::Knob).collect();
        let want = "echo performance | tee /sys/devices/system/cpu/cpufreq/policy{0..15}/scaling_governor";
        assert_eq!(texts(&all), [want]);
        let some: Vec<Fix> = [1, 3, 5].map(governor).map(Fix::Knob).into();
        assert!(texts(&some)[0].contains("policy{1,3,5}/"));
        assert_eq!(texts(&all[..1]), [governor(0).command()]);
    }

    #[test]
    fn files_with_several_numbers_are_folded_by_the_one_that_folds_most() {
        let disable =
            |cpu, state| Knob::file(format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}/disable"), 1);
        let fixes: Vec<Fix> = (0..8).flat_map(|cpu| [disable(cpu, 2), disable(cpu, 3)]).map(Fix::Knob).collect();
        let want = [2, 3]
            .map(|state| format!("echo 1 | tee /sys/devices/system/cpu/cpu{{0..7}}/cpuidle/state{state}/disable"));
        assert_eq!(texts(&fixes), want);
    }

    #[test]
    fn what_is_no_knob_is_told_after_the_knobs() {
        let fixes = [Fix::Boot("nohz_full=1-3".into()), Fix::Knob(Knob::sysctl("vm.stat_interval", 10))];
        assert_eq!(texts(&fixes), ["sysctl -w vm.stat_interval=10", "nohz_full=1-3"]);
    }
}
