//! What a unit of work costs the server.

/// CPU per request, in us; `None` when there was none.
pub fn cpu_us_per_request(cpu_s: f64, requests: u64) -> Option<f64> {
    (requests > 0).then(|| cpu_s * 1e6 / requests as f64)
}

/// CPU per MB (10^6 bytes), in ms; `None` when nothing was moved.
pub fn cpu_ms_per_mb(cpu_s: f64, bytes: u64) -> Option<f64> {
    (bytes > 0).then(|| cpu_s * 1e3 / (bytes as f64 / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_is_spread_over_what_was_done() {
        assert_eq!(cpu_us_per_request(2.0, 1_000_000), Some(2.0));
        assert_eq!(cpu_ms_per_mb(0.5, 250_000_000), Some(2.0));
        assert_eq!((cpu_us_per_request(2.0, 0), cpu_ms_per_mb(2.0, 0)), (None, None));
    }
}
