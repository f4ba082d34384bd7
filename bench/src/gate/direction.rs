//! Which way a metric is better.

use crate::compare::Better;

/// Which way the metric with this name is better, whichever scenario has it.
pub fn better(metric: &str) -> Better {
    let last = metric.rsplit('.').next().unwrap_or(metric);
    match metric.split('.').next().unwrap_or(metric) {
        // The generator's own, and what was asked of it.
        "health" | "offered_rate" => Better::Neither,
        // Only who knows the metric knows.
        "metrics" => Better::Neither,
        "errors" | "error_share" | "checks" => Better::Lower,
        "server" => match last {
            "context_switches" | "involuntary_switches" => Better::Neither,
            _ => Better::Lower,
        },
        _ if metric.contains('.') => match last {
            "count" | "requests" | "records" | "bytes" => Better::Neither,
            // Percentiles with a point in them end in digits; so do all others, mean, max, ...
            _ => Better::Lower,
        },
        name if name.ends_with("_per_s") || name.ends_with("rate") => Better::Higher,
        name if name.contains("_per_conn") || name.contains("_per_member") || name.contains("_per_group") => {
            Better::Lower
        }
        _ => Better::Neither,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_latency_errors_and_cost_are_better_and_more_throughput() {
        for lower in [
            "produce.rt.p99.9",
            "rt.max",
            "stable.p50",
            "errors.TIMED_OUT",
            "checks.lost",
            "server.rss_max",
            "rss_per_conn",
        ] {
            assert_eq!(better(lower), Better::Lower, "{lower}");
        }
        for higher in ["rate", "records_per_s", "bytes_per_s", "commit_rate"] {
            assert_eq!(better(higher), Better::Higher, "{higher}");
        }
        for neither in ["offered_rate", "health.lateness_p99", "produce.rt.count", "records"] {
            assert_eq!(better(neither), Better::Neither, "{neither}");
        }
    }
}
