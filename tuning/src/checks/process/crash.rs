//! What a crash costs.

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::checks::network::gateway;
use crate::fix::Fix;

use super::service::Service;

/// See the [module](self).
pub const CHECKS: &[Check] = &[Check {
    id: "core_pattern",
    area: Area::Process,
    why: "a crashed gateway holds its ports until all of its memory is written: through a pipe to a handler that may take \
          long",
    run: core_pattern,
}];

fn core_pattern(look: Look<'_>) -> Found {
    let want = "no dump (LimitCORE=0), or one into a file";
    let reading = look.host.read("/proc/sys/kernel/core_pattern");
    let Some(pattern) = reading.text() else {
        return Found::without(&reading, "this kernel writes no dumps", want);
    };
    let limit = match Service::planned(look) {
        Some(service) => service.get("LimitCORE").map(str::to_owned),
        None => gateway::file(look, "limits").0.text().and_then(core_size),
    };
    let read = match &limit {
        Some(limit) => format!("kernel.core_pattern = {pattern}, core file size {limit}"),
        None => format!("kernel.core_pattern = {pattern}"),
    };
    let Some(handler) = pattern.strip_prefix('|') else { return Found::fine(read, want) };
    // To a pipe the kernel writes whatever the limit is; these handlers ask for it, and end early.
    let asks = ["systemd-coredump", "apport"].iter().any(|name| handler.contains(name));
    if limit.as_deref() == Some("0") && asks {
        return Found::fine(read, want);
    }
    let fix = match look.host.is_container() {
        true => Fix::Advice("docker run --ulimit core=0".into()),
        false => Fix::Unit("[Service] LimitCORE=0".into()),
    };
    Found::wrong(Verdict::Advice, read, want, vec![fix])
}

/// The soft limit on a dump's size, of `/proc/PID/limits`.
fn core_size(limits: &str) -> Option<String> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max core file size"))?;
    Some(line.split_whitespace().next()?.to_owned())
}
