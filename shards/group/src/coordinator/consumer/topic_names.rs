//! The topics that a pattern names, in as few bytes as they can be kept in: of 100,000 topics it may be all, for
//! each pattern of each group.

/// Names in order, each once, in one piece.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopicNames {
    text: Box<str>,
    /// Where each name ends.
    ends: Box<[usize]>,
}

impl TopicNames {
    /// These, in any order.
    pub fn new(mut names: Vec<&str>) -> TopicNames {
        names.sort_unstable();
        names.dedup();
        let mut end = 0;
        let ends = names.iter().map(|name| {
            end += name.len();
            end
        });
        TopicNames { ends: ends.collect(), text: names.concat().into() }
    }

    fn name(&self, nth: usize) -> &str {
        let start = if nth == 0 { 0 } else { self.ends[nth - 1] };
        &self.text[start..self.ends[nth]]
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len()).map(|nth| self.name(nth))
    }

    /// Whether this one is among them.
    pub fn contains(&self, name: &str) -> bool {
        let mut places = 0..self.ends.len();
        while !places.is_empty() {
            let middle = places.start + places.len() / 2;
            match self.name(middle).cmp(name) {
                std::cmp::Ordering::Equal => return true,
                std::cmp::Ordering::Less => places.start = middle + 1,
                std::cmp::Ordering::Greater => places.end = middle,
            }
        }
        false
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        self.text.len() + self.ends.len() * size_of::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_that_are_there_and_no_others() {
        let names = TopicNames::new(vec!["b", "orders", "a", "b", "order"]);
        assert_eq!(names.iter().collect::<Vec<_>>(), ["a", "b", "order", "orders"]);
        for name in ["a", "b", "order", "orders"] {
            assert!(names.contains(name), "{name}");
        }
        for name in ["", "aa", "c", "orde", "orderss"] {
            assert!(!names.contains(name), "{name}");
        }
        assert_eq!(names.bytes(), 13 + 4 * 8);
        assert!(!TopicNames::default().contains("a"));
    }
}
