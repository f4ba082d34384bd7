//! What one more of something costs, from several plateaus instead of one difference.

/// What was read while so many things were held: connections or members, and the bytes of a process or the kernel.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plateaus {
    points: Vec<(f64, f64)>,
}

/// A straight line through plateaus, by least squares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slope {
    /// Bytes per thing.
    pub per_unit: f64,
    /// Bytes without any.
    pub base: f64,
    /// The share of the spread of bytes that the line explains: near 1 when each thing costs the same, low when
    /// something else moved the memory. 1 when there was no spread at all.
    pub r2: f64,
}

impl Plateaus {
    /// Distinct numbers of things that a slope takes: through two every line fits.
    pub const LEAST: usize = 3;

    /// Adds what was read.
    pub fn push(&mut self, held: u64, bytes: u64) {
        self.points.push((held as f64, bytes as f64));
    }

    /// Each as it was read: how many were held, and the bytes.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// The line; `None` for fewer than [`Plateaus::LEAST`] distinct numbers of things.
    pub fn slope(&self) -> Option<Slope> {
        let mut distinct: Vec<f64> = self.points.iter().map(|(held, _)| *held).collect();
        distinct.sort_by(f64::total_cmp);
        distinct.dedup();
        if distinct.len() < Plateaus::LEAST {
            return None;
        }
        let count = self.points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| self.points.iter().map(of).sum::<f64>() / count;
        let (held, bytes) = (mean(|point| point.0), mean(|point| point.1));
        let sum = |of: &dyn Fn(f64, f64) -> f64| self.points.iter().map(|(x, y)| of(x - held, y - bytes)).sum::<f64>();
        let per_unit = sum(&|x, y| x * y) / sum(&|x, _| x * x);
        let spread = sum(&|_, y| y * y);
        let left = sum(&|x, y| (y - per_unit * x).powi(2));
        let r2 = if spread > 0.0 { 1.0 - left / spread } else { 1.0 };
        Some(Slope { per_unit, base: bytes - per_unit * held, r2 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plateaus(points: &[(u64, u64)]) -> Plateaus {
        let mut plateaus = Plateaus::default();
        points.iter().for_each(|(held, bytes)| plateaus.push(*held, *bytes));
        plateaus
    }

    #[test]
    fn a_constant_cost_is_found_whatever_the_base() {
        let slope = plateaus(&[(1_000, 9_096_000), (2_000, 13_192_000), (3_000, 17_288_000)]).slope().unwrap();
        assert!((slope.per_unit - 4_096.0).abs() < 1e-6, "{slope:?}");
        assert!((slope.base - 5_000_000.0).abs() < 1e-3, "{slope:?}");
        assert!((slope.r2 - 1.0).abs() < 1e-9, "{slope:?}");
    }

    #[test]
    fn noise_shows_as_a_worse_fit() {
        let noisy = plateaus(&[(100, 1_000), (200, 9_000), (300, 2_000), (400, 8_000)]).slope().unwrap();
        assert!(noisy.r2 < 0.5, "{noisy:?}");
        let flat = plateaus(&[(100, 7), (200, 7), (300, 7)]).slope().unwrap();
        assert_eq!((flat.per_unit, flat.base, flat.r2), (0.0, 7.0, 1.0));
    }

    #[test]
    fn two_plateaus_are_no_line() {
        assert_eq!(plateaus(&[(1, 1), (2, 2)]).slope(), None);
        assert_eq!(plateaus(&[(1, 1), (1, 2), (2, 2), (2, 3)]).slope(), None);
    }
}
