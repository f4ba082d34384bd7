//! The daemon that moves interrupts.

use std::collections::BTreeSet;

use crate::check::{Found, Look, Verdict};
use crate::cpu_set::CpuSet;
use crate::fix::Fix;
use crate::host::Reading;
use crate::plan::Profile;

use super::interrupts::{self, QueueInterrupt};
use super::{cards, steering::Places};

/// Where distributions keep its settings.
const SETTINGS: [&str; 2] = ["/etc/default/irqbalance", "/etc/sysconfig/irqbalance"];

/// Those that say with which arguments it is started.
const ARGUMENTS: [&str; 2] = ["IRQBALANCE_ARGS", "OPTIONS"];

pub(super) fn check(look: Look<'_>) -> Result<Found, Found> {
    let want = "does not run, or leaves alone the cards' interrupts (--banirq) and the shards' CPUs \
                (IRQBALANCE_BANNED_CPULIST)";
    let cards = cards::cards(look, want)?;
    let processes = look.host.list("/proc").map_err(|why| Found::unread(why, want))?;
    let named = |pid: &String| look.host.read(format!("/proc/{pid}/comm")).text() == Some("irqbalance");
    let Some(pid) =
        processes.iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).find(|pid| named(pid))
    else {
        return Ok(Found::fine("does not run", want));
    };
    let kept = Kept::of(look, pid);
    if kept.once {
        return Ok(Found::fine(format!("runs as process {pid}, once"), want));
    }
    if let Some(script) = kept.script {
        return Err(Found::unread(format!("irqbalance asks {script} about each interrupt"), want));
    }
    let moved: Vec<Moved> = cards.iter().filter_map(|card| kept.moves(look, card)).collect();
    if moved.is_empty() {
        return Ok(Found::fine(format!("runs as process {pid}, {}", kept.told()), want));
    }
    let verdict = match look.plan.profile {
        Profile::Latency => Verdict::Warning,
        Profile::Throughput => Verdict::Advice,
        Profile::Shared => Verdict::Fine,
    };
    let told: Vec<String> = moved.iter().map(|one| one.told.clone()).collect();
    let fixes = match verdict {
        Verdict::Fine => Vec::new(),
        _ => vec![Fix::Advice(fix(look, &moved))],
    };
    Ok(Found::wrong(verdict, format!("runs as process {pid}; {}", told.join("; ")), want, fixes))
}

/// What mends it.
fn fix(look: Look<'_>, moved: &[Moved]) -> String {
    let irqs: BTreeSet<u32> = moved.iter().flat_map(|one| &one.irqs).copied().collect();
    let bans: Vec<String> = irqs.iter().map(|irq| format!("--banirq={irq}")).collect();
    let there = |path: &&&str| matches!(look.host.read(path), Reading::Text(_));
    let file = SETTINGS.iter().find(there).unwrap_or(&SETTINGS[0]);
    let off = "systemctl disable --now irqbalance";
    match bans.is_empty() {
        true => off.into(),
        false => {
            format!("{off}; or IRQBALANCE_ARGS=\"{}\" in {file}, and systemctl restart irqbalance", bans.join(" "))
        }
    }
}

/// What it does to a card.
struct Moved {
    /// Those of the card's interrupts that it moves.
    irqs: Vec<u32>,
    told: String,
}

/// What it was told to leave alone.
#[derive(Debug, Default, PartialEq, Eq)]
struct Kept {
    irqs: BTreeSet<u32>,
    modules: BTreeSet<String>,
    cpus: CpuSet,
    /// Which it asks.
    script: Option<String>,
    /// Whether it ends after its first look.
    once: bool,
}

impl Kept {
    /// What the process goes by, or else what its settings say, which it may not have read yet.
    fn of(look: Look<'_>, pid: &str) -> Kept {
        let settings: Vec<String> =
            SETTINGS.iter().filter_map(|path| look.host.read(path).text().map(str::to_owned)).collect();
        let mut kept = Kept::default();
        let command_line = look.host.read(format!("/proc/{pid}/cmdline"));
        match command_line.text().filter(|text| !text.is_empty()) {
            Some(text) => kept.take_arguments(&text.split('\0').skip(1).collect::<Vec<_>>()),
            None => {
                let arguments = ARGUMENTS.iter().filter_map(|name| setting(&settings, name));
                arguments.for_each(|text| kept.take_arguments(&text.split_whitespace().collect::<Vec<_>>()));
            }
        }
        let environment = look.host.read(format!("/proc/{pid}/environ"));
        let variables = match environment.text() {
            Some(text) => vec![text.replace('\0', "\n")],
            None => settings,
        };
        kept.once |= setting(&variables, "IRQBALANCE_ONESHOT").is_some_and(|value| value != "no" && value != "0");
        let list = setting(&variables, "IRQBALANCE_BANNED_CPULIST").and_then(|text| CpuSet::list(&text));
        let mask = setting(&variables, "IRQBALANCE_BANNED_CPUS").and_then(|text| CpuSet::mask(&text));
        // Told nothing, it leaves those alone that the kernel keeps for others.
        kept.cpus = list.or(mask).unwrap_or_else(|| {
            let files = ["isolated", "nohz_full"].map(|name| look.host.read(format!("/sys/devices/system/cpu/{name}")));
            files.iter().filter_map(|file| CpuSet::list(file.text()?)).flat_map(|cpus| cpus.0).collect()
        });
        kept
    }

    fn take_arguments(&mut self, arguments: &[&str]) {
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value)),
                _ if argument.starts_with("--") => (*argument, None),
                _ => argument.split_at_checked(2).map_or((*argument, None), |(name, value)| (name, Some(value))),
            };
            let mut value = || value.filter(|value| !value.is_empty()).or_else(|| arguments.next().copied());
            match name {
                "--banirq" | "-i" => self.irqs.extend(value().and_then(|irq| irq.parse::<u32>().ok())),
                "--banmod" | "-m" => self.modules.extend(value().map(str::to_owned)),
                "--policyscript" | "-l" => self.script = value().map(str::to_owned),
                "--oneshot" | "-o" => self.once = true,
                _ => {}
            }
        }
    }

    /// What it does to a card's interrupts; none where it leaves them alone, or keeps to CPUs that no shard has.
    fn moves(&self, look: Look<'_>, card: &str) -> Option<Moved> {
        let module = look.host.link(format!("/sys/class/net/{card}/device/driver/module"));
        let module = module.text().and_then(|target| target.rsplit('/').next());
        if module.is_some_and(|module| self.modules.contains(module)) {
            return None;
        }
        let queues = interrupts::of_card(look, card);
        let free: Vec<&QueueInterrupt> = queues.iter().filter(|queue| !self.irqs.contains(&queue.irq)).collect();
        if free.is_empty() && !queues.is_empty() {
            return None;
        }
        let shards: CpuSet = Places::of(look, card).shards.into_iter().collect();
        let open: CpuSet = shards.iter().filter(|cpu| !self.cpus.contains(*cpu)).collect();
        // From a CPU that is forbidden to it, it takes what is there.
        let taken =
            |queue: &&&QueueInterrupt| queue.cpus.len() == 1 && queue.cpus.iter().any(|cpu| self.cpus.contains(cpu));
        let away: Vec<u32> = free.iter().filter(taken).map(|queue| queue.irq).collect();
        if open.is_empty() && away.is_empty() {
            return None;
        }
        let irqs: Vec<u32> = if open.is_empty() { away } else { free.iter().map(|queue| queue.irq).collect() };
        let numbers: CpuSet = irqs.iter().map(|irq| *irq as usize).collect();
        let what = match irqs.len() {
            0 => format!("the interrupts of {card}"),
            1 => format!("interrupt {numbers} of {card}"),
            _ => format!("interrupts {numbers} of {card}"),
        };
        let told = match open.is_empty() {
            true => format!("it takes {what} away from CPUs that are forbidden to it"),
            false => format!("it may move {what}, also to the shards' CPUs {open}"),
        };
        Some(Moved { irqs, told })
    }

    fn told(&self) -> String {
        let mut parts = Vec::new();
        if !self.irqs.is_empty() {
            let irqs: CpuSet = self.irqs.iter().map(|irq| *irq as usize).collect();
            parts.push(format!("not on interrupts {irqs}"));
        }
        if !self.modules.is_empty() {
            parts.push(format!("not on those of {}", self.modules.iter().cloned().collect::<Vec<_>>().join(", ")));
        }
        if !self.cpus.is_empty() {
            parts.push(format!("not on CPUs {}", self.cpus));
        }
        parts.join(", ")
    }
}

/// The value of a shell's line `NAME="value"`; none where it is empty.
fn setting(texts: &[String], name: &str) -> Option<String> {
    let lines = texts.iter().flat_map(|text| text.lines()).map(str::trim);
    let values = lines.filter_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix('='));
    values.map(|value| value.trim().trim_matches(['"', '\'']).to_owned()).rfind(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::host;
    use crate::plan::Plan;
    use crate::report::Severity;

    /// Two queues on CPUs 2 and 3 of four; shards on what `doctor cpus` chooses, CPUs 0 to 3 with two shards: 0 and 1.
    const HOST: [(&str, &str); 11] = [
        ("/proc/self/status", "Cpus_allowed_list:\t0-3\n"),
        ("/sys/devices/system/cpu/online", "0-3\n"),
        ("/proc/net/route", ""),
        ("/proc/self/net/route", "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"),
        ("/sys/class/net/eth0/device/msi_irqs/40", ""),
        ("/sys/class/net/eth0/device/msi_irqs/41", ""),
        ("/sys/class/net/eth0/device/driver/module", "../../../../module/mlx5_core"),
        ("/proc/interrupts", " 40: 1 PCI eth0-TxRx-0\n 41: 1 PCI eth0-TxRx-1\n"),
        ("/proc/irq/40/smp_affinity_list", "2\n"),
        ("/proc/irq/41/smp_affinity_list", "3\n"),
        ("/proc/812/comm", "irqbalance\n"),
    ];

    fn found(more: &[(&str, &str)]) -> (Severity, String) {
        let (_kept, host) = host(&[&HOST[..], more].concat());
        let plan = Plan { shards: Some(2), ..Plan::default() };
        let found = super::super::settings::settled(check(Look { host: &host, plan: &plan }));
        let fixes: Vec<String> = found.fixes.iter().map(Fix::text).collect();
        (Severity::of(&found.verdict), if fixes.is_empty() { found.read } else { fixes.concat() })
    }

    #[test]
    fn it_is_to_be_off_or_to_leave_our_interrupts_alone() {
        let fix = "systemctl disable --now irqbalance; or IRQBALANCE_ARGS=\"--banirq=40 --banirq=41\" in \
                   /etc/default/irqbalance, and systemctl restart irqbalance";
        assert_eq!(found(&[]), (Severity::Warning, fix.into()));
        for arguments in [
            "irqbalance\0--foreground\0--banirq=40\0--banirq=41\0",
            "irqbalance\0-i\x0041\0--banirq\x0040\0",
            "irqbalance\0--banmod=mlx5_core\0",
            "irqbalance\0-o\0",
        ] {
            assert_eq!(found(&[("/proc/812/cmdline", arguments)]).0, Severity::Ok, "{arguments:?}");
        }
        for arguments in [
            "irqbalance\0--banirq=7\0",
            "irqbalance\0--banirq=40\0",
            "irqbalance\0--banmod=nvme\0",
            "irqbalance\0--foreground\0",
        ] {
            let (severity, fix) = found(&[("/proc/812/cmdline", arguments)]);
            assert!(severity == Severity::Warning && fix.contains("--banirq=41"), "{arguments:?}: {fix}");
        }
        assert_eq!(found(&[("/proc/812/cmdline", "irqbalance\0--policyscript=/x\0")]).0, Severity::Unread);
    }

    #[test]
    fn cpus_that_are_forbidden_to_it_must_be_all_of_the_shards_and_not_where_our_interrupts_are() {
        let with = |list: &str| found(&[("/proc/812/environ", &format!("A=b\0IRQBALANCE_BANNED_CPULIST={list}\0"))]);
        assert_eq!(with("0-1").0, Severity::Ok);
        assert_eq!(with("0").0, Severity::Warning, "the second shard's is open to it");
        assert_eq!(with("7").0, Severity::Warning, "no shard's");
        let (severity, fix) = with("0-2");
        assert!(severity == Severity::Warning && fix.contains("\"--banirq=40\""), "it takes one away: {fix}");
        assert_eq!(found(&[("/proc/812/environ", "IRQBALANCE_BANNED_CPUS=00000003\0")]).0, Severity::Ok);
        assert_eq!(found(&[("/sys/devices/system/cpu/isolated", "0-1\n")]).0, Severity::Ok, "by itself");
    }

    #[test]
    fn its_settings_count_where_the_process_does_not_tell() {
        let file = "# IRQBALANCE_BANNED_CPULIST=7\nIRQBALANCE_ARGS=\"--banirq=40 -i 41\"\n";
        assert_eq!(found(&[("/etc/sysconfig/irqbalance", file)]).0, Severity::Ok);
        let not_restarted = [("/etc/sysconfig/irqbalance", file), ("/proc/812/cmdline", "irqbalance\0")];
        assert_eq!(found(&not_restarted).0, Severity::Warning);
        assert_eq!(found(&[("/etc/default/irqbalance", "IRQBALANCE_BANNED_CPULIST=0-1\n")]).0, Severity::Ok);
    }
}
