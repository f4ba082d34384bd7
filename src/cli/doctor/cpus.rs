//! `ringgate doctor cpus`: the list for `ringgate serve --cpus`.

use ringgate_tuning::cpus::{Choice, choose};
use ringgate_tuning::{Host, Plan, Topology};
use serde_json::json;

/// The CPUs that this plan should get on that host.
///
/// # Errors
/// The host does not tell its CPUs, or has too few.
pub(super) fn chosen(host: &Host, plan: &Plan) -> Result<Choice, String> {
    choose(&Topology::read(host, plan.pid)?, plan.profile, plan.shards)
}

/// For programs.
pub(super) fn json(choice: &Choice) -> String {
    let value = json!({
        "version": 1,
        "argument": choice.to_string(),
        "cpus": choice.cpus,
        "interrupts": choice.interrupts.iter().collect::<Vec<_>>(),
        "reasons": choice.reasons,
    });
    format!("{value:#}\n")
}
