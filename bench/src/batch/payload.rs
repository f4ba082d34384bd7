//! Record values, made before the run.

use std::io::{BufRead, Read};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::limits::{POOL_BYTES_MAX, POOL_VALUES_MAX, RECORD_BYTES_MAX};
use crate::quantity;
use crate::random::Random;
use crate::result::Unit;

/// How many bytes record values have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sizes {
    /// All the same.
    Fixed(usize),
    /// Any of these, each as likely as the others.
    Range(RangeInclusive<usize>),
    /// Those of the lines of a file, which are the values, without their line ends.
    Lines(PathBuf),
}

/// `1024`, `1KiB`, `100..2000`, or `@FILE` for the lines of a file.
impl std::str::FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Sizes, String> {
        if let Some(file) = text.strip_prefix('@').filter(|file| !file.is_empty()) {
            return Ok(Sizes::Lines(file.into()));
        }
        let allowed = || {
            format!("a size such as 1024 or 1KiB, a range such as 100..2000, or @FILE, up to {RECORD_BYTES_MAX} bytes")
        };
        let size = |text: &str| bytes(text).filter(|size| *size <= RECORD_BYTES_MAX).ok_or_else(allowed);
        match text.split_once("..") {
            None => Ok(Sizes::Fixed(size(text)?)),
            Some((least, most)) => {
                let (least, most) = (size(least)?, size(most.strip_prefix('=').unwrap_or(most))?);
                if least > most {
                    return Err(allowed());
                }
                Ok(Sizes::Range(least..=most))
            }
        }
    }
}

impl std::fmt::Display for Sizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Sizes::Fixed(size) => write!(f, "{size}"),
            Sizes::Range(range) => write!(f, "{}..{}", range.start(), range.end()),
            Sizes::Lines(file) => write!(f, "@{}", file.display()),
        }
    }
}

impl Sizes {
    /// The smallest that is known without looking into a file.
    pub fn least(&self) -> usize {
        match self {
            Sizes::Fixed(size) => *size,
            Sizes::Range(range) => *range.start(),
            Sizes::Lines(_) => 0,
        }
    }
}

/// A number of bytes: `1024`, `16KiB`, `100kB`.
pub fn bytes(text: &str) -> Option<usize> {
    let bytes = text.parse().or_else(|_| quantity::parse(text, Unit::Bytes)).ok()?;
    (bytes >= 0.0 && bytes <= usize::MAX as f64).then_some(bytes as usize)
}

/// Values made once, so that a record costs a copy and no more while load is driven. A run takes them in turn.
pub struct Pool {
    bytes: Vec<u8>,
    /// Where each value ends; the first begins at 0.
    ends: Vec<usize>,
    cut: bool,
}

impl Pool {
    /// Values of these sizes, of which the first `random_share` (0 to 1) is random and the rest one byte again and
    /// again, so that a codec brings a value to about that share. The same seed makes the same values.
    ///
    /// # Errors
    /// The file cannot be read, has no lines, or has one that is too long.
    pub fn make(sizes: &Sizes, random_share: f64, seed: u64) -> Result<Pool, String> {
        let mut random = Random::new(seed);
        let mut pool = Pool { bytes: Vec::new(), ends: Vec::new(), cut: false };
        match sizes {
            Sizes::Lines(file) => pool.read_lines(file).map_err(|why| format!("{}: {why}", file.display()))?,
            Sizes::Fixed(size) => pool.fill(*size..=*size, random_share, &mut random),
            Sizes::Range(range) => pool.fill(range.clone(), random_share, &mut random),
        }
        Ok(pool)
    }

    fn fill(&mut self, sizes: RangeInclusive<usize>, random_share: f64, random: &mut Random) {
        let (least, choices) = (*sizes.start(), sizes.end() - sizes.start() + 1);
        while self.ends.is_empty() || self.bytes.len() < POOL_BYTES_MAX && self.ends.len() < POOL_VALUES_MAX {
            let size = least + random.below(choices as u64) as usize;
            let begin = self.bytes.len();
            self.bytes.resize(begin + size, b'.');
            let drawn = (size as f64 * random_share.clamp(0.0, 1.0)).round() as usize;
            for chunk in self.bytes[begin..begin + drawn].chunks_mut(8) {
                chunk.copy_from_slice(&random.next_u64().to_le_bytes()[..chunk.len()]);
            }
            self.ends.push(begin + size);
        }
    }

    fn read_lines(&mut self, file: &Path) -> Result<(), String> {
        let mut lines = std::io::BufReader::new(std::fs::File::open(file).map_err(|error| error.to_string())?);
        loop {
            let begin = self.bytes.len();
            let most = (RECORD_BYTES_MAX + 2) as u64;
            let read = lines.by_ref().take(most).read_until(b'\n', &mut self.bytes);
            if read.map_err(|error| error.to_string())? == 0 {
                break;
            }
            if self.bytes.last() == Some(&b'\n') {
                self.bytes.pop();
                if self.bytes.last() == Some(&b'\r') {
                    self.bytes.pop();
                }
            }
            if self.bytes.len() - begin > RECORD_BYTES_MAX {
                return Err(format!("line {} is longer than {RECORD_BYTES_MAX} bytes", self.ends.len() + 1));
            }
            if !self.ends.is_empty() && (self.bytes.len() > POOL_BYTES_MAX || self.ends.len() == POOL_VALUES_MAX) {
                self.bytes.truncate(begin);
                self.cut = true;
                break;
            }
            self.ends.push(self.bytes.len());
        }
        if self.ends.is_empty() { Err("no lines".into()) } else { Ok(()) }
    }

    /// How many values; at least one.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// A value; numbers past the last go round.
    pub fn value(&self, number: usize) -> &[u8] {
        let number = number % self.ends.len();
        let begin = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[begin..self.ends[number]]
    }

    /// Bytes of all values.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The largest value's bytes.
    pub fn largest(&self) -> usize {
        (0..self.len()).map(|number| self.value(number).len()).max().unwrap_or(0)
    }

    /// The smallest value's bytes.
    pub fn smallest(&self) -> usize {
        (0..self.len()).map(|number| self.value(number).len()).min().unwrap_or(0)
    }

    /// What a reader of the result should know: how many values there are, since a cache or a codec with a long memory
    /// may profit from their return.
    pub fn note(&self) -> String {
        let more = if self.cut { "; the file has more lines, which are left out" } else { "" };
        format!("record values: a pool of {} with {} bytes in all, taken in turn{more}", self.len(), self.bytes())
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("values", &self.len()).field("bytes", &self.bytes()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_values_and_another_one_others() {
        let sizes = Sizes::Range(10..=2_000);
        let make = |seed| Pool::make(&sizes, 0.5, seed).unwrap();
        let (first, again, other) = (make(1), make(1), make(2));
        assert_eq!((&first.bytes, &first.ends), (&again.bytes, &again.ends));
        assert_ne!(first.bytes, other.bytes);
        assert!(first.smallest() >= 10 && first.largest() <= 2_000 && first.largest() > 1_900);
    }

    #[test]
    fn the_random_share_is_what_a_codec_cannot_take_away() {
        let compressed = |share| {
            let pool = Pool::make(&Sizes::Fixed(1_000), share, 9).unwrap();
            let values: Vec<u8> = (0..100).flat_map(|number| pool.value(number).to_vec()).collect();
            zstd::bulk::compress(&values, 3).unwrap().len() as f64 / values.len() as f64
        };
        assert!(compressed(0.0) < 0.01);
        assert!((0.24..0.30).contains(&compressed(0.25)), "{}", compressed(0.25));
        assert!(compressed(1.0) > 0.99);
    }

    #[test]
    fn lines_of_a_file_are_values_whatever_ends_them() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "one\r\n\ntwo\nlast").unwrap();
        let pool = Pool::make(&Sizes::Lines(file.path().into()), 1.0, 0).unwrap();
        let values: Vec<&[u8]> = (0..pool.len()).map(|number| pool.value(number)).collect();
        assert_eq!(values, [&b"one"[..], b"", b"two", b"last"]);
        assert_eq!(pool.value(4), b"one");
    }

    #[test]
    fn a_file_that_is_missing_or_empty_is_named() {
        let missing = Pool::make(&Sizes::Lines("/no/such/file".into()), 1.0, 0).unwrap_err();
        assert!(missing.contains("/no/such/file"), "{missing}");
        let empty = tempfile::NamedTempFile::new().unwrap();
        assert!(Pool::make(&Sizes::Lines(empty.path().into()), 1.0, 0).unwrap_err().contains("no lines"));
    }

    #[test]
    fn a_pool_is_bounded_whatever_the_sizes() {
        for size in [0, 1, 1_000, RECORD_BYTES_MAX] {
            let pool = Pool::make(&Sizes::Fixed(size), 0.0, 0).unwrap();
            assert!(pool.len() <= POOL_VALUES_MAX && pool.bytes() <= POOL_BYTES_MAX + RECORD_BYTES_MAX);
            assert_eq!(pool.value(usize::MAX).len(), size);
        }
    }

    #[test]
    fn sizes_are_read_as_they_are_written() {
        assert_eq!("1KiB".parse(), Ok(Sizes::Fixed(1_024)));
        assert_eq!("100..2kB".parse(), Ok(Sizes::Range(100..=2_000)));
        assert_eq!("100..=200".parse(), Ok(Sizes::Range(100..=200)));
        assert_eq!("@words".parse(), Ok(Sizes::Lines("words".into())));
        for wrong in ["", "-1", "1..", "5..4", "@", "1XB", "99999999999999999999", "1GiB"] {
            assert!(wrong.parse::<Sizes>().is_err(), "{wrong}");
        }
        assert_eq!("100..2kB".parse::<Sizes>().unwrap().to_string(), "100..2000");
    }
}
