//! Whose interrupts run on which CPUs.

use std::collections::BTreeSet;

use crate::check::Look;
use crate::cpu_set::CpuSet;

/// The interrupt of a card's receive queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueueInterrupt {
    pub(super) irq: u32,
    /// As `/proc/interrupts` calls it: `mlx5_comp0@pci:0000:3b:00.0`.
    pub(super) name: String,
    /// Where it was put, or runs.
    pub(super) cpus: CpuSet,
}

/// Those of a card, in the order of its queues.
pub(super) fn of_card(look: Look<'_>, card: &str) -> Vec<QueueInterrupt> {
    let text = look.host.read("/proc/interrupts");
    let all: Vec<(u32, &str)> = text.text().unwrap_or("").lines().filter_map(interrupt).collect();
    let own = numbers(look, card);
    let belongs = |irq: u32, name: &str| match own.is_empty() {
        true => named_for(name, card),
        false => own.contains(&irq),
    };
    let of_card: Vec<(u32, &str)> = all.into_iter().filter(|(irq, name)| belongs(*irq, name)).collect();
    let alone = of_card.len() == 1;
    let queues = of_card.into_iter().filter(|(_, name)| alone || is_receive_queue(name, card));
    let mut queues: Vec<QueueInterrupt> =
        queues.map(|(irq, name)| QueueInterrupt { irq, name: name.to_owned(), cpus: runs_on(look, irq) }).collect();
    // Numbers are given in the order of queues, but need not be.
    queues.sort_by_key(|one| (queue_number(&one.name), one.irq));
    queues
}

/// The interrupts that the card's device says are its own.
fn numbers(look: Look<'_>, card: &str) -> BTreeSet<u32> {
    let list = |path: &str| look.host.list(format!("/sys/class/net/{card}/{path}")).unwrap_or_default();
    let own = list("device/msi_irqs");
    // A virtio card's are those of the PCI device that carries it. Above a PCI card is a bridge, whose are not.
    let virtio = look.host.exists(format!("/sys/class/net/{card}/device/features"));
    let names = if own.is_empty() && virtio { list("device/../msi_irqs") } else { own };
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

/// A line of `/proc/interrupts`: number and name, whatever the number of CPUs between them.
fn interrupt(line: &str) -> Option<(u32, &str)> {
    let (irq, rest) = line.split_once(':')?;
    Some((irq.trim().parse().ok()?, rest.split_whitespace().last()?))
}

/// `eth0`, `eth0-TxRx-3`, `ice-eth0-TxRx-3`; not `eth01`.
fn named_for(name: &str, card: &str) -> bool {
    name.split(['-', '@', ':', '.']).any(|word| word == card)
}

/// What drivers call interrupts that tell of other things than packets that came.
const OTHERS: [&str; 15] = [
    "config", "async", "misc", "mgmnt", "mgmt", "event", "pages", "cmd", "ctrl", "control", "admin", "output", "aeq",
    "link", "ptp",
];

/// Whether packets that came are what it tells of.
fn is_receive_queue(name: &str, card: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let of_name = lower.split('@').next().unwrap_or("");
    let sends_only = of_name.contains("-tx-") && !of_name.contains("rx");
    of_name != card && !sends_only && !OTHERS.iter().any(|other| of_name.contains(other))
}

/// The queue's number: the last digits before the device's address.
fn queue_number(name: &str) -> u64 {
    let name = name.split('@').next().unwrap_or("");
    let end = name.trim_end_matches(|c: char| !c.is_ascii_digit());
    let start = end.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    end[start..].parse().unwrap_or(0)
}

/// Where it was put, or else where the kernel has it just now.
fn runs_on(look: Look<'_>, irq: u32) -> CpuSet {
    let list = |name: &str| {
        let text = look.host.read(format!("/proc/irq/{irq}/{name}"));
        text.text().and_then(CpuSet::list).filter(|cpus| !cpus.is_empty())
    };
    let may = list("smp_affinity_list");
    match may {
        // Just after it was put there, the kernel may still have it elsewhere.
        Some(cpus) if cpus.len() == 1 => cpus,
        may => list("effective_affinity_list").or(may).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_number_first_and_its_name_last() {
        let counts = " 1234".repeat(256);
        let line = format!(" 131:{counts}  IR-PCI-MSIX-0000:3b:00.0    1-edge      mlx5_comp0@pci:0000:3b:00.0");
        assert_eq!(interrupt(&line), Some((131, "mlx5_comp0@pci:0000:3b:00.0")));
        assert_eq!(interrupt("           CPU0       CPU1"), None);
        assert_eq!(interrupt("NMI:  0  0   Non-maskable interrupts"), None);
        assert_eq!(interrupt("ERR:          0"), None);
    }

    #[test]
    fn drivers_names_of_receive_queues_are_known() {
        for name in [
            "eth0-TxRx-3",
            "ice-eth0-TxRx-0",
            "mlx5_comp7@pci:0000:3b:00.0",
            "virtio2-input.0",
            "eth0-Tx-Rx-1",
            "eth0-rx-0",
            "gve-ntfy-blk0@pci:0000:00:04.0",
            "eth0-fp-2",
            "eth0-rxtx-0",
            "mlx4-3@0000:03:00.0",
        ] {
            assert!(is_receive_queue(name, "eth0"), "{name}");
        }
        for name in [
            "eth0",
            "mlx5_async0@pci:0000:3b:00.0",
            "virtio2-config",
            "virtio2-output.0",
            "ice-0000:3b:00.0:misc",
            "ena-mgmnt@pci:0000:00:05.0",
            "eth0-tx-0",
            "eth0-event-8",
            "mlx5_pages_eq@pci:0000:3b:00.0",
        ] {
            assert!(!is_receive_queue(name, "eth0"), "{name}");
        }
        assert!(named_for("ice-eth0-TxRx-0", "eth0") && !named_for("eth01-TxRx-0", "eth0"));
    }

    #[test]
    fn queues_are_ordered_by_their_own_numbers() {
        assert_eq!(queue_number("mlx5_comp12@pci:0000:3b:00.0"), 12);
        assert_eq!(queue_number("ice-eth0-TxRx-7"), 7);
        assert_eq!(queue_number("virtio2-input.3"), 3);
        assert_eq!(queue_number("none"), 0);
    }
}
