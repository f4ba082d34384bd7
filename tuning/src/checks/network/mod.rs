//! Sockets, queues, cards.
//!
//! The kernel's settings are those of the network namespace that this process is in: a container sees its own, and few
//! of them. What is of a card is looked at on the [cards] that the gateway's packets go over.

mod addresses;
mod backlog;
mod cards;
mod conntrack;
mod counters;
mod ethtool;
pub(super) mod gateway;
mod interrupts;
mod irqbalance;
mod link;
mod nic;
mod packets;
mod polling;
mod queueing;
mod settings;
mod sockets;
mod steering;
mod tcp;

use crate::check::Check;

/// By file, in the order in which they are listed.
pub const CHECKS: [&[Check]; 10] = [
    backlog::CHECKS,
    packets::CHECKS,
    tcp::CHECKS,
    addresses::CHECKS,
    queueing::CHECKS,
    conntrack::CHECKS,
    polling::CHECKS,
    steering::CHECKS,
    nic::CHECKS,
    link::CHECKS,
];
