//! Which leader epoch wrote from which offset on (KIP-101, KIP-320): how a client that read past a lost
//! tail learns of it.

/// (epoch, offset of its first record), both growing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Epochs(Vec<(i32, i64)>);

impl Epochs {
    /// From stored entries; `None` when they do not grow.
    pub(crate) fn from_entries(entries: Vec<(i32, i64)>) -> Option<Epochs> {
        entries.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1).then_some(Epochs(entries))
    }

    pub(crate) fn entries(&self) -> &[(i32, i64)] {
        &self.0
    }

    /// A leader of this epoch writes from `offset` on. Epochs that wrote nothing are forgotten.
    pub(crate) fn begin(&mut self, epoch: i32, offset: i64) {
        if self.0.last().is_some_and(|(last, _)| *last >= epoch) {
            return;
        }
        while self.0.last().is_some_and(|(_, start)| *start >= offset) {
            self.0.pop();
        }
        self.0.push((epoch, offset));
    }

    /// The largest epoch that is not above `epoch`, and where its records end. `None` when `epoch` is
    /// above all.
    pub(crate) fn end_of(&self, epoch: i32, log_end: i64) -> Option<(i32, i64)> {
        let (last, _) = self.0.last()?;
        if epoch > *last {
            return None;
        }
        if epoch == *last {
            return Some((epoch, log_end));
        }
        let above = self.0.partition_point(|(e, _)| *e <= epoch);
        let (_, end) = self.0[above];
        Some((if above == 0 { epoch } else { self.0[above - 1].0 }, end))
    }

    /// The epoch that wrote this offset, -1 when not known.
    pub(crate) fn at(&self, offset: i64) -> i32 {
        let above = self.0.partition_point(|(_, start)| *start <= offset);
        if above == 0 { -1 } else { self.0[above - 1].0 }
    }

    /// The newest epoch, -1 for none.
    pub(crate) fn latest(&self) -> i32 {
        self.0.last().map_or(-1, |(epoch, _)| *epoch)
    }

    /// Forgets what lies wholly before `offset`.
    pub(crate) fn forget_before(&mut self, offset: i64) {
        let above = self.0.partition_point(|(_, start)| *start <= offset);
        if above > 1 {
            self.0.drain(..above - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_ends_where_the_next_one_that_wrote_begins() {
        let mut epochs = Epochs::default();
        assert_eq!(epochs.end_of(1, 0), None);
        epochs.begin(2, 0);
        epochs.begin(4, 10);
        epochs.begin(4, 12);
        epochs.begin(7, 10);
        assert_eq!(epochs.entries(), [(2, 0), (7, 10)], "epoch 4 wrote nothing");
        assert_eq!(epochs.end_of(1, 30), Some((1, 0)));
        assert_eq!(epochs.end_of(2, 30), Some((2, 10)));
        assert_eq!(epochs.end_of(5, 30), Some((2, 10)));
        assert_eq!(epochs.end_of(7, 30), Some((7, 30)));
        assert_eq!(epochs.end_of(8, 30), None);
        assert_eq!((epochs.at(-1), epochs.at(9), epochs.at(10)), (-1, 2, 7));
    }

    #[test]
    fn what_lies_before_the_log_start_is_forgotten() {
        let mut epochs = Epochs::from_entries(vec![(1, 0), (2, 10), (3, 20)]).unwrap();
        epochs.forget_before(15);
        assert_eq!(epochs.entries(), [(2, 10), (3, 20)]);
        assert_eq!(Epochs::from_entries(vec![(2, 0), (1, 5)]), None);
    }
}
