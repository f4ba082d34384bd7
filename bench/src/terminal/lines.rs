//! Where there is no terminal: a line per interval.

use super::moment::Moment;
use crate::engine::Stage;
use crate::quantity;
use crate::result::{IntervalRow, Probe, Unit, Value};

/// The line of an interval.
pub fn interval(row: &IntervalRow, primary: &str) -> String {
    let moment = Moment::of(row, primary);
    let phase = if row.warmup { "warm-up " } else { "measured" };
    let mut line = format!("{:>7.1} s  {phase}  {:>12}", row.at_s, moment.rate());
    for (name, value) in moment.latencies() {
        line.push_str(&format!("  {name} {value:>8}"));
    }
    line.push_str(&format!("  errors {}", moment.errors));
    if let Some(server) = &row.server {
        line.push_str(&format!("  server {:.2} cores", server.cpu));
    }
    line
}

/// The line of a search's probe.
pub fn probe(probe: &Probe) -> String {
    let came = match (probe.reasons.is_empty(), probe.kept) {
        (false, _) => "invalid",
        (true, true) => "kept",
        (true, false) => "missed",
    };
    let rate = quantity::show(Value { value: probe.rate, unit: Unit::PerSecond });
    let found = probe.reasons.first().cloned().unwrap_or_else(|| probe.found.join(", "));
    format!("{} at {rate:>12}  {came:>7}  {found}", if probe.confirms { "confirming" } else { "probe     " })
}

/// The line of a stage.
pub fn stage(stage: Stage) -> String {
    match stage {
        Stage::Found => "making what the run needs: topics, coordinators".into(),
        Stage::Prepare => "connecting".into(),
        Stage::WarmUp { length } => format!("warming up for {} s", length.as_secs_f64()),
        Stage::Measure { length } => format!("measuring for {} s", length.as_secs_f64()),
        Stage::Finish => "waiting for what is outstanding, then tidying up".into(),
    }
}
