//! Whether the gateway's lines get into the journal.

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::fix::Fix;
use crate::host::Reading;

/// See the [module](self).
pub const CHECKS: &[Check] = &[Check {
    id: "journald",
    area: Area::Process,
    why: "journald drops a service's lines beyond its rate: when much goes wrong at once the lines that say why are gone",
    run: journald,
}];

/// Where its settings are, those that count more later.
const SETTINGS: [&str; 4] = [
    "/usr/lib/systemd/journald.conf",
    "/usr/lib/systemd/journald.conf.d",
    "/etc/systemd/journald.conf",
    "/etc/systemd/journald.conf.d",
];

/// journald's own choice, which is enough: the gateway bounds its lines about connections itself.
const INTERVAL_S: u64 = 30;
const BURST: u64 = 10_000;

/// Lines per second below which a bad day's are lost.
const LINES_PER_SECOND_MIN: u64 = 100;

fn journald(look: Look<'_>) -> Found {
    let want = format!(
        "no bound, or at least {LINES_PER_SECOND_MIN} lines per second ({BURST} in {INTERVAL_S} s is its own choice)"
    );
    if !look.host.exists("/run/systemd/journal") {
        return Found::not_applicable("no journald runs here");
    }
    let (mut interval, mut burst) = (INTERVAL_S, BURST);
    for path in SETTINGS {
        let files = match look.host.list(path) {
            Ok(files) if path.ends_with(".d") => files.into_iter().map(|file| format!("{path}/{file}")).collect(),
            _ => vec![path.to_owned()],
        };
        for file in files.iter().filter(|file| file.ends_with(".conf")) {
            match look.host.read(file) {
                Reading::Text(text) => settings(&text, &mut interval, &mut burst),
                Reading::Absent => {}
                Reading::Unread(why) => return Found::unread(why, want),
            }
        }
    }
    if interval == 0 || burst == 0 {
        return Found::fine("no bound", want);
    }
    let read = format!("RateLimitBurst={burst} in RateLimitIntervalSec={interval}");
    if burst / interval >= LINES_PER_SECOND_MIN {
        return Found::fine(read, want);
    }
    let fix = format!("[Service] LogRateLimitIntervalSec={INTERVAL_S}s, LogRateLimitBurst={BURST}");
    Found::wrong(Verdict::Advice, read, want, vec![Fix::Unit(fix)])
}

fn settings(text: &str, interval: &mut u64, burst: &mut u64) {
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        let Some((name, value)) = line.split_once('=') else { continue };
        match name.trim() {
            "RateLimitIntervalSec" | "RateLimitInterval" => {
                *interval = seconds(value.trim()).unwrap_or(*interval);
            }
            "RateLimitBurst" => *burst = value.trim().parse().unwrap_or(*burst),
            _ => {}
        }
    }
}

/// Of `30`, `30s`, `1min`, `2h`; below a second it is a second.
fn seconds(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.trim().parse().ok()?;
    match &text[digits.len()..] {
        "" | "s" | "sec" => Some(number),
        "ms" => Some(number.div_ceil(1000)),
        "m" | "min" => number.checked_mul(60),
        "h" => number.checked_mul(3600),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_are_commented_out_do_not_count() {
        let (mut interval, mut burst) = (INTERVAL_S, BURST);
        settings(
            "[Journal]\n#RateLimitBurst=1\nRateLimitIntervalSec=1min\nRateLimitBurst=600",
            &mut interval,
            &mut burst,
        );
        assert_eq!((interval, burst), (60, 600));
    }

    #[test]
    fn times_are_read_as_systemd_takes_them() {
        assert_eq!(["30", "30s", "500ms", "2h"].map(seconds), [Some(30), Some(30), Some(1), Some(7200)]);
        assert_eq!(["", "s", "1year"].map(seconds), [None, None, None]);
    }
}
