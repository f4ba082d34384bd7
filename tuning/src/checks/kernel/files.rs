//! Open files.

use super::{Limit, bound, limit, whose};
use crate::check::{Area, Check, Found, Look, Verdict};
use crate::checks::settings::sysctl_path;
use crate::fix::{Fix, Knob};
use crate::needs;

/// See the [module](self).
pub(super) const CHECKS: &[Check] = &[Check {
    id: "nofile",
    area: Area::Kernel,
    why: "every connection and every partition holds an open file: clients beyond the limit are turned away",
    run: nofile,
}];

/// What service managers and the kernel give to who asks for many.
const PLENTY: u64 = 1 << 20;

fn nofile(look: Look<'_>) -> Found {
    let shards = look.shards() as u64;
    let needed = needs::open_files(shards, look.plan.connections);
    let want = format!(
        "at least {needed} for {shards} shards and {} connections, and one more for each partition",
        look.plan.connections
    );
    let Limit { soft, hard } = match limit(look, "Max open files") {
        Ok(limit) => limit,
        Err(why) => return Found::unread(why, want),
    };
    // A gateway that starts raises the soft limit to the hard one.
    let files = if look.plan.pid.is_some() { soft } else { hard };
    let mut read = format!("open files of {}: {}", whose(look), bound(files));
    let mut verdict = Verdict::Fine;
    let mut fixes = Vec::new();
    let enough = needed.next_power_of_two().max(PLENTY);
    if files < needed {
        verdict = if files < needs::OPEN_FILES_MIN { Verdict::Blocker } else { Verdict::Warning };
        fixes.push(if look.host.is_container() {
            Fix::Advice(format!("docker run --ulimit nofile={enough}:{enough}"))
        } else {
            Fix::Unit(format!("[Service] LimitNOFILE={enough}"))
        });
    }
    for (name, what) in [("fs.nr_open", "no process may have more"), ("fs.file-max", "all processes together")] {
        let most = look.host.read(sysctl_path(name)).text().and_then(|text| text.parse::<u64>().ok());
        if let Some(most) = most.filter(|most| *most < needed) {
            read.push_str(&format!("; {name} = {most} ({what})"));
            fixes.push(Fix::Knob(Knob::sysctl(name, enough)));
            if verdict == Verdict::Fine {
                verdict = Verdict::Warning;
            }
        }
    }
    if verdict == Verdict::Fine { Found::fine(read, want) } else { Found::wrong(verdict, read, want, fixes) }
}
