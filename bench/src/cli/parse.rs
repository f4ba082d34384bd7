//! How values are written.

use std::time::Duration;

/// A time with its unit: `30s`, `500ms`, `1m 30s`.
///
/// # Errors
/// What would be right.
pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "a time with its unit: 30s, 500ms, 1m30s".to_string())
}

/// A rate: `1500`, `10k`, `1.5M`, each with or without `/s`.
///
/// # Errors
/// What would be right.
pub fn rate(text: &str) -> Result<f64, String> {
    scaled(text.strip_suffix("/s").unwrap_or(text), &[("k", 1e3), ("M", 1e6)])
        .filter(|rate| *rate > 0.0)
        .ok_or_else(|| "a rate over 0 per second: 1500, 10k, 1.5M".to_string())
}

/// A share: `50%`.
///
/// # Errors
/// What would be right.
pub fn share(text: &str) -> Result<f64, String> {
    text.strip_suffix('%')
        .and_then(|percent| scaled(percent, &[]))
        .map(|percent| percent / 100.0)
        .filter(|share| *share <= 1.0)
        .ok_or_else(|| "a share from 0% to 100%".to_string())
}

/// A size: `64`, `16KiB`, `1MB`.
///
/// # Errors
/// What would be right.
pub fn bytes(text: &str) -> Result<usize, String> {
    let units =
        [("KiB", 1024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9)];
    scaled(text.strip_suffix(" B").unwrap_or(text), &units)
        .filter(|bytes| bytes.fract() == 0.0 && *bytes <= 1e15)
        .map(|bytes| bytes as usize)
        .ok_or_else(|| "a whole number of bytes: 64, 16KiB, 1MB".to_string())
}

/// A number of 0 or more, times what its suffix stands for.
fn scaled(text: &str, suffixes: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    let (number, scale) =
        suffixes.iter().find_map(|(suffix, scale)| Some((text.strip_suffix(suffix)?, *scale))).unwrap_or((text, 1.0));
    let number: f64 = number.trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_with_their_units_and_refused_with_what_would_be_right() {
        assert_eq!(rate("10k"), Ok(10_000.0));
        assert_eq!(rate("1.5M/s"), Ok(1_500_000.0));
        assert_eq!(share("50%"), Ok(0.5));
        assert_eq!(bytes("16KiB"), Ok(16_384));
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        for bad in ["0", "-1", "fast", "", "inf", "nan", "1kk"] {
            assert!(rate(bad).unwrap_err().contains("10k"), "{bad}");
        }
        assert!(share("0.5").is_err() && share("101%").is_err());
        assert!(bytes("1.5").is_err() && bytes("-4").is_err());
        assert!(duration("30").unwrap_err().contains("30s"));
    }
}
