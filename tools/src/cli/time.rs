//! Moments and lengths of time, as users write them.

use std::str::FromStr;
use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A moment, in ms since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment(pub i64);

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Moment, String> {
        // Kafka's tools take it without a zone, too, and as UTC.
        let parsed = OffsetDateTime::parse(text, &Rfc3339)
            .or_else(|_| OffsetDateTime::parse(&format!("{text}Z"), &Rfc3339))
            .map_err(|_| "a date and a time: 2026-11-30T08:00:00Z, 2026-11-30T09:00:00.500+01:00".to_string())?;
        let millis = parsed.unix_timestamp_nanos().div_euclid(1_000_000);
        match i64::try_from(millis) {
            Ok(millis) if millis >= 0 => Ok(Moment(millis)),
            _ => Err("a moment after 1970".into()),
        }
    }
}

/// A length of time: numbers with a unit (`ms`, `s`, `m`, `h`, `d`), one after the other, or as in ISO 8601: `90s`,
/// `1d12h`, `PT2H`, `P1DT30M`.
///
/// # Errors
/// It is none; says what would be.
pub fn duration(text: &str) -> Result<Duration, String> {
    let iso = text.strip_prefix('P').map(|rest| rest.replacen('T', "", 1).to_ascii_lowercase());
    let mut rest = iso.as_deref().unwrap_or(text);
    let wrong = || "a length of time: 500ms, 90s, 2h, 1d12h, PT2H".to_string();
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    let mut millis: u64 = 0;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, behind) = rest.split_at(digits);
        let letters = behind.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, behind) = behind.split_at(letters);
        let each: u64 = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        millis = number.checked_mul(each).and_then(|more| millis.checked_add(more)).ok_or_else(wrong)?;
        rest = behind;
    }
    Ok(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_numbers_with_units_or_iso_8601() {
        for (text, millis) in [
            ("500ms", 500),
            ("90s", 90_000),
            ("2h", 7_200_000),
            ("1d12h", 129_600_000),
            ("PT2H", 7_200_000),
            ("P1DT30M", 88_200_000),
            ("0", 0),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for wrong in ["", "P", "PT", "5", "h", "2 h", "2y", "-1h", "99999999999999999999s", "9999999999999999d"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_moment_without_a_zone_is_utc() {
        for (text, millis) in [
            ("1970-01-01T00:00:01Z", 1_000),
            ("1970-01-01T00:00:01.250", 1_250),
            ("2026-11-30T09:00:00+01:00", 1_796_025_600_000),
            ("2026-11-30T08:00:00", 1_796_025_600_000),
        ] {
            assert_eq!(text.parse::<Moment>(), Ok(Moment(millis)), "{text}");
        }
        for wrong in ["", "yesterday", "2026-11-30", "2026-13-30T08:00:00Z", "1969-12-31T23:59:59Z"] {
            assert!(wrong.parse::<Moment>().is_err(), "{wrong}");
        }
    }
}
