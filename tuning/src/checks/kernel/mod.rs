//! Kernel, io_uring, limits: what a gateway needs to start, and to go on under its load.

mod calls;
mod cpu_time;
mod files;
mod io_uring;
mod maps;
mod memlock;
mod tasks;
mod version;

use crate::check::{Check, Look};
use crate::host::field;

pub(super) use memlock::unlimited as unlimited_memlock;
pub(super) use version::Version;

/// By file, in the order in which they are listed.
pub const CHECKS: [&[Check]; 8] = [
    version::CHECKS,
    io_uring::CHECKS,
    memlock::CHECKS,
    files::CHECKS,
    tasks::CHECKS,
    maps::CHECKS,
    cpu_time::CHECKS,
    calls::CHECKS,
];

/// A limit of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit {
    soft: u64,
    hard: u64,
}

/// A limit by its name in `/proc/self/limits`: `Max open files`. `u64::MAX` is none.
///
/// # Errors
/// Nobody knows, and why.
fn limit(look: Look<'_>, name: &str) -> Result<Limit, String> {
    let path = look.process_path("limits");
    let text = match look.process_file("limits") {
        crate::host::Reading::Text(text) => text,
        crate::host::Reading::Absent => return Err(format!("there is no {path}")),
        crate::host::Reading::Unread(why) => return Err(why),
    };
    parse_limit(&text, name).ok_or_else(|| format!("{path} does not say {name}"))
}

fn parse_limit(text: &str, name: &str) -> Option<Limit> {
    // The name is followed by columns, and may be the beginning of no other.
    let columns = text.lines().find_map(|line| line.strip_prefix(name).filter(|rest| rest.starts_with(' ')))?;
    let mut columns = columns.split_whitespace();
    let mut number = || match columns.next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    };
    Some(Limit { soft: number()?, hard: number()? })
}

/// A number of bytes or files, or that there is no bound.
fn bound(number: u64) -> String {
    if number == u64::MAX { "unlimited".into() } else { number.to_string() }
}

/// Whose limits they are.
fn whose(look: Look<'_>) -> String {
    look.plan.pid.map_or_else(|| "this shell".into(), |pid| format!("process {pid}"))
}

/// Whether the process has one of the kernel's capabilities, by its number.
fn has_capability(look: Look<'_>, number: u32) -> bool {
    let status = look.process_file("status");
    let effective = status.text().and_then(|text| field(text, "CapEff"));
    effective.and_then(|text| u64::from_str_radix(text, 16).ok()).is_some_and(|bits| bits & (1 << number) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units     
Max processes             unlimited            96364                processes 
Max open files            1024                 524288               files     
Max locked memory         8388608              unlimited            bytes     
";

    #[test]
    fn limits_are_read_by_their_names() {
        assert_eq!(parse_limit(LIMITS, "Max open files"), Some(Limit { soft: 1024, hard: 524_288 }));
        assert_eq!(parse_limit(LIMITS, "Max processes"), Some(Limit { soft: u64::MAX, hard: 96_364 }));
        assert_eq!(parse_limit(LIMITS, "Max locked memory").unwrap().hard, u64::MAX);
        for (text, name) in
            [(LIMITS, "Max"), (LIMITS, "Max cpu time"), ("", "Max"), ("Max open files x y", "Max open files")]
        {
            assert_eq!(parse_limit(text, name), None, "{name}");
        }
    }
}
