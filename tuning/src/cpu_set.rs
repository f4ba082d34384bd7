//! Sets of CPUs, as the kernel writes them.

use std::collections::BTreeSet;
use std::fmt;

/// The most CPUs that a number in a file is believed to mean: what the kernel can be built for, with room.
const CPU_MAX: usize = 1 << 16;

/// CPUs by their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuSet(pub BTreeSet<usize>);

impl CpuSet {
    /// Of a list: `0-3,8`, also with strides (`0-6:2/4`: of each four the first two) as `isolcpus` takes them.
    /// An empty text is the empty set; `None` when it is no list.
    pub fn list(text: &str) -> Option<CpuSet> {
        let mut cpus = BTreeSet::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (range, stride) = match part.split_once(':') {
                Some((range, stride)) => (range, Some(stride.split_once('/')?)),
                None => (part, None),
            };
            let (first, last) = match range.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(range)?, number(range)?),
            };
            if first > last {
                return None;
            }
            let (used, of) = match stride {
                Some((used, of)) => (number(used)?, number(of)?),
                None => (1, 1),
            };
            if of == 0 || used > of {
                return None;
            }
            cpus.extend((first..=last).filter(|cpu| (cpu - first) % of < used));
        }
        Some(CpuSet(cpus))
    }

    /// Of a mask: `ff`, or with a comma after each 32 bits, the highest first: `00000001,00000000` is CPU 32.
    /// `None` when it is no mask.
    pub fn mask(text: &str) -> Option<CpuSet> {
        let mut cpus = BTreeSet::new();
        let mut lowest = 0;
        for word in text.trim().rsplit(',') {
            let bits = u32::from_str_radix(word.trim(), 16).ok()?;
            cpus.extend((0..32).filter(|bit| bits & (1 << bit) != 0).map(|bit| lowest + bit));
            lowest += 32;
            if lowest > CPU_MAX {
                return None;
            }
        }
        Some(CpuSet(cpus))
    }

    /// As the kernel takes a mask: `3`, `1,00000000`.
    pub fn to_mask(&self) -> String {
        let words = self.0.last().map_or(1, |last| last / 32 + 1);
        let word =
            |at: usize| (0..32).filter(|bit| self.0.contains(&(at * 32 + bit))).fold(0u32, |bits, bit| bits | 1 << bit);
        let mut text = format!("{:x}", word(words - 1));
        for at in (0..words - 1).rev() {
            text.push_str(&format!(",{:08x}", word(at)));
        }
        text
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it has a CPU.
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.contains(&cpu)
    }

    /// In order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().copied()
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> CpuSet {
        CpuSet(cpus.into_iter().collect())
    }
}

/// As a list: `0-3,8`.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

fn number(text: &str) -> Option<usize> {
    text.trim().parse().ok().filter(|number| *number < CPU_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &str) -> Vec<usize> {
        CpuSet::list(text).expect(text).iter().collect()
    }

    #[test]
    fn a_list_has_ranges_and_single_ones() {
        assert_eq!(listed("0-3,8"), [0, 1, 2, 3, 8]);
        assert_eq!(listed(""), [0usize; 0]);
        assert_eq!(listed("5\n"), [5]);
        assert_eq!(listed("0-7:2/4"), [0, 1, 4, 5]);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["x", "3-1", "1-", "-1", "0-99999999", "0-3:1/0", "0-3:5/4", "0-3:2"] {
            assert_eq!(CpuSet::list(text), None, "{text}");
        }
    }

    #[test]
    fn a_mask_of_many_cpus_has_a_comma_after_each_32() {
        assert_eq!(CpuSet::mask("ff").unwrap().to_string(), "0-7");
        assert_eq!(CpuSet::mask("00000001,00000000").unwrap().to_string(), "32");
        assert_eq!(CpuSet::mask("f,00000000,80000001").unwrap().to_string(), "0,31,64-67");
        assert_eq!(CpuSet::mask("0").unwrap().to_string(), "");
        for text in ["", "g", "1,", "123456789"] {
            assert_eq!(CpuSet::mask(text), None, "{text}");
        }
    }

    #[test]
    fn a_mask_that_is_written_reads_the_same() {
        for list in ["", "0", "0-7", "31", "32", "0,33,95", "0-127"] {
            let cpus = CpuSet::list(list).unwrap();
            assert_eq!(CpuSet::mask(&cpus.to_mask()), Some(cpus), "{list}");
        }
        assert_eq!(CpuSet::list("32").unwrap().to_mask(), "1,00000000");
    }
}
