//! Variables that change how a program runs, whatever it says itself.

use crate::check::{Area, Check, Found, Look, Verdict};
use crate::checks::network::gateway;
use crate::fix::Fix;
use crate::host::Reading;

/// See the [module](self).
pub const CHECKS: &[Check] = &[Check {
    id: "env",
    area: Area::Process,
    why: "a library that is loaded before all others, or an allocator's setting that was meant for another program, \
          changes how the gateway runs",
    run: env,
}];

/// Which variables, by how their names begin. `RUST_BACKTRACE` costs nothing until something goes wrong.
const VARIABLES: [&str; 5] = ["LD_PRELOAD", "LD_AUDIT", "GLIBC_TUNABLES", "MALLOC_", "MIMALLOC_"];

fn env(look: Look<'_>) -> Found {
    let want = "no LD_PRELOAD, and no settings of allocators";
    let (reading, whose) = gateway::file(look, "environ");
    let Reading::Text(text) = &reading else {
        return Found::without(&reading, "nobody tells a process' variables here", want);
    };
    let names: Vec<&str> =
        text.split('\0').filter_map(|variable| variable.split_once('=')).map(|(name, _)| name).collect();
    let told: Vec<&str> =
        names.into_iter().filter(|name| VARIABLES.iter().any(|variable| name.starts_with(variable))).collect();
    if told.is_empty() {
        return Found::fine(format!("none that matters ({whose})"), want);
    }
    // Not their values: they may be anything.
    let fix = format!("[Service] UnsetEnvironment={}", told.join(" "));
    Found::wrong(Verdict::Advice, format!("{} ({whose})", told.join(", ")), want, vec![Fix::Unit(fix)])
}
