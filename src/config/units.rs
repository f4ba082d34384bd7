//! Durations, sizes and CPU lists as users write them.

use std::time::Duration;

/// A duration: a whole number and a unit (`us`, `ms`, `s`, `m` or `min`, `h`, `d`), or a bare `0`.
/// `None` for anything else, also where it would not fit.
pub fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = number_and_unit(text)?;
    let micros_per_unit: u64 = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" | "min" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        "" if number == 0 => 1,
        _ => return None,
    };
    number.checked_mul(micros_per_unit).map(Duration::from_micros)
}

/// A size in bytes: a whole number, bare or with a unit. `KiB`, `MiB`, `GiB` and `TiB` are powers of 1024,
/// `kB`, `MB`, `GB` and `TB` powers of 1000; case does not matter. `None` for anything else.
pub fn size(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    let bytes_per_unit: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    };
    number.checked_mul(bytes_per_unit)
}

/// CPU numbers and ranges, such as `0-3,6`, in the order given. `None` for anything else, a CPU named
/// twice or a range that runs backwards.
pub fn cpu_list(text: &str) -> Option<Vec<usize>> {
    // Above what any kernel is built for; keeps `0-4000000000` from filling memory.
    const CPU_MAX: usize = 65_535;
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let part = part.trim();
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (whole(first)?, whole(last)?),
            None => (whole(part)?, whole(part)?),
        };
        if first > last || last > CPU_MAX as u64 {
            return None;
        }
        for cpu in first as usize..=last as usize {
            if cpus.contains(&cpu) {
                return None;
            }
            cpus.push(cpu);
        }
    }
    Some(cpus)
}

/// A whole number in decimal digits alone: no sign, no separators.
pub fn whole(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// The size in the largest power-of-1024 unit that divides it.
pub fn size_text(bytes: u64) -> String {
    for (unit, shift) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if bytes > 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// The duration in the largest unit that divides it.
pub fn duration_text(duration: Duration) -> String {
    let micros = duration.as_micros();
    if micros == 0 {
        return "0".into();
    }
    for (unit, each) in
        [("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000), ("ms", 1_000)]
    {
        if micros.is_multiple_of(each) {
            return format!("{}{unit}", micros / each);
        }
    }
    format!("{micros}us")
}

fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    Some((whole(&text[..digits])?, &text[digits..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_a_number_and_a_unit_or_zero() {
        let cases = [
            ("0", 0),
            ("50us", 50),
            ("500ms", 500_000),
            ("10s", 10_000_000),
            ("10min", 600_000_000),
            ("10m", 600_000_000),
            ("24h", 86_400_000_000),
            ("7d", 604_800_000_000),
        ];
        for (text, micros) in cases {
            assert_eq!(duration(text), Some(Duration::from_micros(micros)), "{text}");
        }
        for text in ["", "10", "s", "-1s", "+1s", "1.5s", "1 s", "10S", "1s30ms", "99999999999999d", "1_000ms", "٣s"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_bytes_or_a_number_and_a_unit() {
        let cases = [
            ("0", 0),
            ("1073741824", 1 << 30),
            ("64MiB", 64 << 20),
            ("64mib", 64 << 20),
            ("1GiB", 1 << 30),
            ("100MB", 100_000_000),
            ("2kB", 2_000),
            ("7B", 7),
            ("1TiB", 1 << 40),
        ];
        for (text, bytes) in cases {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for text in ["", "MiB", "1M", "1.5GiB", "-1", "1 MiB", "99999999999TiB", "0x10"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn cpu_lists_keep_their_order_and_name_a_cpu_once() {
        assert_eq!(cpu_list("0-3,6"), Some(vec![0, 1, 2, 3, 6]));
        assert_eq!(cpu_list("6, 2"), Some(vec![6, 2]));
        for text in ["", "3-1", "1,1", "0-2,1", "a", "1-", "-1", "0-4000000000"] {
            assert_eq!(cpu_list(text), None, "{text}");
        }
    }

    #[test]
    fn texts_read_back_as_what_they_stand_for() {
        for bytes in [0, 1, 1000, 1 << 10, 64 << 20, 1_048_588, 3 << 30, 1 << 40] {
            assert_eq!(size(&size_text(bytes)), Some(bytes));
        }
        for micros in [0, 1, 50, 1_000, 30_000_000, 600_000_000, 86_400_000_000, 90_000_000] {
            let duration_ = Duration::from_micros(micros);
            assert_eq!(duration(&duration_text(duration_)), Some(duration_));
        }
        assert_eq!(size_text(64 << 20), "64MiB");
        assert_eq!(duration_text(Duration::from_secs(600)), "10min");
    }
}
