//! The clock.

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::checks::settings::{settled, shown, text};
use crate::fix::{Fix, Knob};

/// See the [module](self).
pub(super) const CHECKS: &[Check] = &[Check {
    id: "cpufreq_clock",
    area: Area::Cpu,
    why: "a shard reads the clock several times for each request: 20 ns where the processor tells the time, a microsecond or more \
          where a chip or the hypervisor has to be asked",
    run: |look| settled(clock(look)),
}];

const DIRECTORY: &str = "/sys/devices/system/clocksource/clocksource0";

/// Those that are read without entering the kernel.
const FAST: [&str; 5] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "riscv_clocksource"];

fn clock(look: Look<'_>) -> Result<Found, Found> {
    let want = "tsc (in a virtual machine also kvm-clock or Hyper-V's)";
    let current = text(look, &format!("{DIRECTORY}/current_clocksource"), "the kernel tells of no clock", want)?;
    let read = format!("clock source {}", if current.len() <= 40 { current.clone() } else { shown(&current) });
    if FAST.contains(&current.as_str()) {
        return Ok(Found::fine(read, want));
    }
    let available = look.host.read(format!("{DIRECTORY}/available_clocksource"));
    let available: Vec<&str> = available.text().into_iter().flat_map(str::split_whitespace).collect();
    let better = FAST.into_iter().find(|fast| available.contains(fast));
    let fix = match better {
        Some(better) => Fix::Knob(Knob::file(format!("{DIRECTORY}/current_clocksource"), better)),
        None => Fix::Boot(
            "tsc=reliable on the kernel's command line, if dmesg says why tsc was given up and it is no fault".into(),
        ),
    };
    Ok(Found::wrong(Verdict::Warning, read, want, vec![fix]))
}
