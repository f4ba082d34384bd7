//! Whether the host's clock is right.

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::fix::Fix;
use crate::host::Reading;

/// See the [module](self).
pub const CHECKS: &[Check] = &[Check {
    id: "time_sync",
    area: Area::Process,
    why: "records are stamped by clients' clocks and kept by the gateway's: a wrong one refuses records of the future, and \
          makes delays between hosts meaningless",
    run: time_sync,
}];

const WANT: &str = "synchronised, within 1 ms where delays between hosts are measured";

/// Seconds between hosts that measurements of delay bear.
const OFFSET_MAX: f64 = 0.001;

/// Seconds from which users notice.
const OFFSET_BAD: f64 = 1.0;

fn time_sync(look: Look<'_>) -> Found {
    match look.host.command(&["chronyc", "-n", "tracking"]) {
        Reading::Text(text) => by_chrony(&text),
        Reading::Unread(why) => by_systemd(look, &why),
        Reading::Absent => by_systemd(look, "chronyc is not installed"),
    }
}

fn by_chrony(text: &str) -> Found {
    let (Some(leap), Some(offset)) = (value(text, "Leap status"), offset(text)) else {
        return Found::unread("chronyc tracking tells neither leap status nor system time", WANT);
    };
    let read = format!("chrony: {leap}, {offset:.6} s off");
    if leap == "Not synchronised" {
        return Found::wrong(Verdict::Warning, read, WANT, vec![Fix::Advice("see chronyc sources".into())]);
    }
    if offset <= OFFSET_MAX {
        return Found::fine(read, WANT);
    }
    let verdict = if offset > OFFSET_BAD { Verdict::Warning } else { Verdict::Advice };
    Found::wrong(verdict, read, WANT, vec![Fix::Advice("chronyc makestep, and a nearer server in chrony.conf".into())])
}

/// Of `Name   : value`.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim_start().strip_prefix(':')?.trim()))
}

/// Seconds, of `System time : 0.000012 seconds fast of NTP time`.
fn offset(text: &str) -> Option<f64> {
    value(text, "System time")?
        .split_whitespace()
        .next()?
        .parse::<f64>()
        .ok()
        .filter(|offset| offset.is_finite())
        .map(f64::abs)
}

/// What `timedatectl` knows of the kernel's clock, whoever keeps it.
fn by_systemd(look: Look<'_>, chrony: &str) -> Found {
    let synchronised = match look.host.command(&["timedatectl", "show"]) {
        Reading::Text(text) => text.lines().find_map(|line| line.strip_prefix("NTPSynchronized=").map(str::to_owned)),
        _ => None,
    };
    match synchronised.as_deref() {
        Some("yes") => Found::fine("the kernel's clock is kept (timedatectl: NTPSynchronized=yes)", WANT),
        Some(other) => {
            let read = format!("timedatectl: NTPSynchronized={other}");
            let fix = "timedatectl set-ntp true, or install chrony";
            Found::wrong(Verdict::Warning, read, WANT, vec![Fix::Advice(fix.into())])
        }
        None => Found::unread(format!("{chrony}, and timedatectl tells nothing"), WANT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACKING: &str = "Reference ID    : A9FEA97B (169.254.169.123)\nStratum         : 4\n\
                            System time     : 0.001200000 seconds slow of NTP time\nLeap status     : Normal";

    #[test]
    fn chrony_tells_how_far_off_the_clock_is() {
        assert_eq!(offset(TRACKING), Some(0.0012));
        assert_eq!(by_chrony(TRACKING).verdict, Verdict::Advice);
        assert_eq!(by_chrony(&TRACKING.replace("0.0012", "0.0001")).verdict, Verdict::Fine);
        assert_eq!(by_chrony(&TRACKING.replace("Normal", "Not synchronised")).verdict, Verdict::Warning);
        assert!(matches!(by_chrony("506 Cannot talk to daemon").verdict, Verdict::Unread(_)));
    }
}
