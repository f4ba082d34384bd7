//! What packets wait in before they leave.

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::fix::{Fix, Knob};
use crate::host::Reading;

use super::cards;
use super::settings::{set, text};

/// See the [module](self).
pub const CHECKS: &[Check] = &[Check {
    id: "qdisc",
    area: Area::Network,
    why: "a plain queue lets one consumer's fetch stand before everybody's heartbeats, and a shaper adds delay of its own",
    run: |look| cards::each(look, WANT, qdisc),
}];

const WANT: &str = "fq or fq_codel on every queue of the card, nothing that shapes or delays";

/// Fair to each connection.
const FAIR: [&str; 2] = ["fq", "fq_codel"];

/// What holds packets back.
const SHAPERS: [&str; 6] = ["netem", "tbf", "htb", "hfsc", "cbq", "cake"];

fn qdisc(look: Look<'_>, card: &str) -> Result<Found, Found> {
    let default = text(look, "net.core.default_qdisc", WANT);
    let kinds = match look.host.command(&["tc", "qdisc", "show", "dev", card]) {
        Reading::Text(text) => kinds(&text),
        // What a card gets when it comes up, where nothing tells what it has.
        Reading::Absent => return default.map(|default| by_default(look, card, &default)),
        reading => return Err(Found::without(&reading, "", WANT)),
    };
    if kinds.is_empty() {
        return Err(Found::unread(format!("tc names no queue of {card}"), WANT));
    }
    let read = format!("{card}: {}", kinds.join(", "));
    let is = |known: &[&str]| kinds.iter().any(|kind| known.contains(&kind.as_str()));
    if is(&SHAPERS) {
        let fix = format!("tc qdisc replace dev {card} root fq");
        return Ok(Found::wrong(Verdict::Warning, read, WANT, vec![Fix::Nic(fix)]));
    }
    if kinds.iter().all(|kind| FAIR.contains(&kind.as_str()) || kind == "noqueue") {
        return Ok(Found::fine(read, WANT));
    }
    let mut fixes = Vec::new();
    if default.is_ok_and(|default| !FAIR.contains(&default.as_str())) {
        fixes.extend(set(look, "net.core.default_qdisc", "fq"));
    }
    fixes.push(Fix::Nic(replace(look, card)));
    Ok(Found::wrong(Verdict::Advice, read, WANT, fixes))
}

fn by_default(look: Look<'_>, card: &str, default: &str) -> Found {
    let read = format!("net.core.default_qdisc = {default} (tc, which tells what {card} has, is not installed)");
    if FAIR.contains(&default) {
        return Found::fine(read, WANT);
    }
    let fixes = vec![Fix::Knob(Knob::sysctl("net.core.default_qdisc", "fq")), Fix::Nic(replace(look, card))];
    Found::wrong(Verdict::Advice, read, WANT, fixes)
}

/// With several transmit queues each gets one of the default's kind.
fn replace(look: Look<'_>, card: &str) -> String {
    match cards::queues(look, card, "tx").len() {
        0 | 1 => format!("tc qdisc replace dev {card} root fq"),
        _ => format!("tc qdisc replace dev {card} root mq"),
    }
}

/// The kinds that `tc qdisc show dev` names, each once; `mq` and `ingress` are no queues themselves.
fn kinds(text: &str) -> Vec<String> {
    let mut kinds = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some("qdisc"), Some(kind)) = (words.next(), words.next()) else { continue };
        if !["mq", "ingress", "clsact"].contains(&kind) && !kinds.iter().any(|known| known == kind) {
            kinds.push(kind.to_owned());
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queues_below_a_multiqueue_root_count() {
        let text = "qdisc mq 0: root \nqdisc fq_codel 0: parent :2 limit 10240p flows 1024\n\
                    qdisc fq_codel 0: parent :1 limit 10240p\nqdisc ingress ffff: parent ffff:fff1 ----------------";
        assert_eq!(kinds(text), ["fq_codel"]);
        assert_eq!(kinds("qdisc pfifo_fast 0: root refcnt 2 bands 3"), ["pfifo_fast"]);
        assert!(kinds("Cannot find device").is_empty());
    }
}
