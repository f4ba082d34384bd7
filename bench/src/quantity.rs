//! Values with their units as people write and read them: `5ms`, `12KiB`, `10k/s`, `3%`.

use crate::result::{Unit, Value};

/// A written quantity that is none: says what would be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadQuantity(String);

/// Suffixes by unit and what one of them is in it; the first is what a value of 1 is shown in.
fn suffixes(unit: Unit) -> &'static [(&'static str, f64)] {
    const SECONDS: &[(&str, f64)] =
        &[("s", 1.0), ("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("min", 60.0), ("h", 3_600.0)];
    const BYTES: &[(&str, f64)] = &[
        ("B", 1.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("KiB", 1_024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
    ];
    const COUNTS: &[(&str, f64)] = &[("", 1.0), ("k", 1e3), ("M", 1e6)];
    const RATIOS: &[(&str, f64)] = &[("", 1.0), ("%", 0.01)];
    match unit {
        Unit::Seconds => SECONDS,
        Unit::Bytes | Unit::BytesPerSecond => BYTES,
        Unit::Count | Unit::PerSecond => COUNTS,
        Unit::Ratio => RATIOS,
    }
}

/// What a quantity of the unit looks like, for messages.
pub fn examples(unit: Unit) -> &'static str {
    match unit {
        Unit::Seconds => "a time with its unit: 800us, 5ms, 1.5s",
        Unit::Bytes => "bytes with their unit: 512B, 12KiB, 1.5GB",
        Unit::BytesPerSecond => "bytes per second with their unit: 10MB/s, 1GiB/s",
        Unit::Count => "a number: 0, 1500, 10k, 2M",
        Unit::PerSecond => "a rate: 1500, 10k, 10k/s, 2M/s",
        Unit::Ratio => "a share or a ratio: 0.01, 1%",
    }
}

/// Reads `text` as a quantity of the unit, in which the value is returned.
pub fn parse(text: &str, unit: Unit) -> Result<f64, BadQuantity> {
    let shown = if text.trim().is_empty() { "nothing" } else { text };
    let bad = || BadQuantity(format!("{shown} is not {}", examples(unit)));
    let (number, suffix) = split(text.trim()).ok_or_else(bad)?;
    let suffix = match unit {
        Unit::PerSecond => suffix.strip_suffix("/s").unwrap_or(suffix),
        Unit::BytesPerSecond => suffix.strip_suffix("/s").ok_or_else(bad)?,
        _ => suffix,
    };
    // Nothing is nothing in every unit.
    let zero = number == 0.0 && suffix.is_empty();
    match suffixes(unit).iter().find(|(name, _)| *name == suffix) {
        Some((_, one)) => Ok(number * one),
        None if zero => Ok(0.0),
        None => Err(bad()),
    }
}

/// Whether the text is a quantity of any unit.
pub fn is_any(text: &str) -> bool {
    [Unit::Seconds, Unit::Bytes, Unit::BytesPerSecond, Unit::PerSecond, Unit::Ratio]
        .into_iter()
        .any(|unit| parse(text, unit).is_ok())
}

/// A share as written in a flag: `5%` is 0.05. A bare number is refused, it could mean either.
pub fn parse_percent(text: &str) -> Result<f64, BadQuantity> {
    text.trim()
        .strip_suffix('%')
        .and_then(|number| number.trim().parse::<f64>().ok())
        .filter(|percent| percent.is_finite() && *percent >= 0.0)
        .map(|percent| percent / 100.0)
        .ok_or_else(|| BadQuantity(format!("{text} is not a percentage of 0 or more: 5%, 0.5%")))
}

/// The number and what follows it.
fn split(text: &str) -> Option<(f64, &str)> {
    // `e` belongs to a number only where digits follow, as in 1e6.
    let mut end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))).unwrap_or(text.len());
    if let Some(exponent) = text[end..].strip_prefix(['e', 'E']) {
        let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        let length = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        if length > 0 {
            end += 1 + (exponent.len() - digits.len()) + length;
        }
    }
    let number: f64 = text[..end].parse().ok()?;
    number.is_finite().then_some((number, text[end..].trim_start()))
}

/// A value for a reader, in the suffix that leaves one to three digits before the point: `3.21 ms`, `12.3 k/s`.
pub fn show(value: Value) -> String {
    let Value { value, unit } = value;
    let scale: &[(&str, f64)] = match unit {
        Unit::Seconds => &[("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)],
        Unit::Bytes => &[("B", 1.0), ("KiB", 1_024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0)],
        Unit::BytesPerSecond => &[("B/s", 1.0), ("kB/s", 1e3), ("MB/s", 1e6), ("GB/s", 1e9)],
        Unit::PerSecond => return format!("{} /s", grouped(value)),
        Unit::Count => return grouped(value),
        Unit::Ratio => return format!("{} %", digits(value * 100.0)),
    };
    let magnitude = value.abs();
    if magnitude == 0.0 {
        let zero = if unit == Unit::Seconds { "s" } else { scale[0].0 };
        return format!("0 {zero}");
    }
    // 999.6 in one suffix would be shown as 1000: that is 1 in the next.
    let (suffix, one) = scale.iter().rev().find(|(_, one)| magnitude >= one * 0.9995).unwrap_or(&scale[0]);
    format!("{} {suffix}", digits(value / one))
}

/// A time in ns for a reader.
pub fn show_ns(ns: u64) -> String {
    show(Value { value: ns as f64 / 1e9, unit: Unit::Seconds })
}

/// Three significant digits, no more than two behind the point.
fn digits(number: f64) -> String {
    let decimals = match number.abs() {
        n if n >= 99.95 => 0,
        n if n >= 9.995 => 1,
        _ => 2,
    };
    format!("{number:.decimals$}")
}

/// A number with a comma between thousands; small ones that are not whole keep three digits.
fn grouped(number: f64) -> String {
    if number.fract() != 0.0 && number.abs() < 99.95 {
        return digits(number);
    }
    let whole = format!("{:.0}", number.abs());
    let mut shown = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    if number < 0.0 { format!("-{shown}") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_in_their_units() {
        for (text, unit, value) in [
            ("5ms", Unit::Seconds, 0.005),
            ("1.5 s", Unit::Seconds, 1.5),
            ("800us", Unit::Seconds, 0.0008),
            ("3µs", Unit::Seconds, 3e-6),
            ("12KiB", Unit::Bytes, 12_288.0),
            ("2MB", Unit::Bytes, 2e6),
            ("10MB/s", Unit::BytesPerSecond, 1e7),
            ("10k", Unit::PerSecond, 10_000.0),
            ("2M/s", Unit::PerSecond, 2e6),
            ("1e3", Unit::Count, 1_000.0),
            ("1e-3s", Unit::Seconds, 0.001),
            ("1%", Unit::Ratio, 0.01),
            ("0.25", Unit::Ratio, 0.25),
            ("0", Unit::Seconds, 0.0),
        ] {
            let read = parse(text, unit).unwrap_or_else(|bad| panic!("{text}: {bad}"));
            assert!((read - value).abs() <= value * 1e-12, "{text}: {read}");
        }
    }

    #[test]
    fn a_unit_that_does_not_fit_is_refused_with_what_would() {
        for (text, unit) in [
            ("5", Unit::Seconds),
            ("5ms", Unit::Bytes),
            ("5ms", Unit::Count),
            ("10MB", Unit::BytesPerSecond),
            ("12KiB/s", Unit::Bytes),
            ("5%", Unit::PerSecond),
            ("", Unit::Count),
            ("ms", Unit::Seconds),
            ("nan", Unit::Count),
            ("1e999", Unit::Count),
            ("5 ms ms", Unit::Seconds),
        ] {
            assert!(parse(text, unit).is_err(), "{text}");
        }
        assert_eq!(
            parse("5", Unit::Seconds).unwrap_err().to_string(),
            "5 is not a time with its unit: 800us, 5ms, 1.5s"
        );
        assert!((parse_percent("5%").unwrap() - 0.05).abs() < 1e-12);
        assert!(parse_percent("5").is_err() && parse_percent("-1%").is_err());
    }

    #[test]
    fn values_are_shown_with_three_digits_and_their_unit() {
        for (value, unit, shown) in [
            (0.003_214, Unit::Seconds, "3.21 ms"),
            (0.000_999_96, Unit::Seconds, "1.00 ms"),
            (12.0, Unit::Seconds, "12.0 s"),
            (300.0, Unit::Seconds, "300 s"),
            (5e-9, Unit::Seconds, "5.00 ns"),
            (0.0, Unit::Seconds, "0 s"),
            (9_216.0, Unit::Bytes, "9.00 KiB"),
            (117_300_000.0, Unit::BytesPerSecond, "117 MB/s"),
            (12_345.4, Unit::PerSecond, "12,345 /s"),
            (9.5, Unit::PerSecond, "9.50 /s"),
            (1_000_000.0, Unit::Count, "1,000,000"),
            (0.012_3, Unit::Ratio, "1.23 %"),
        ] {
            assert_eq!(show(Value { value, unit }), shown);
        }
    }
}
