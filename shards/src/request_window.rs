//! Requests that may come again: a client that has lost its link sends what was not answered once more, and it
//! must not be carried out twice.

use std::collections::BTreeMap;

/// The latest requests of one row whose numbers rise, and what they were answered.
#[derive(Debug)]
pub struct RequestWindow<R> {
    /// `None`: being carried out.
    answers: BTreeMap<u64, Option<R>>,
    /// Requests up to this one may have been carried out and forgotten.
    forgotten: u64,
    most: usize,
}

/// What a request is.
#[derive(Debug, PartialEq, Eq)]
pub enum Attempt<R> {
    /// It has not been seen, and is now being carried out.
    First,
    /// An earlier attempt is being carried out.
    UnderWay,
    /// It was carried out.
    Answered(R),
    /// It is older than what the window remembers.
    Forgotten,
}

impl<R: Clone> RequestWindow<R> {
    /// A window of `most` answers.
    pub fn new(most: usize) -> RequestWindow<R> {
        RequestWindow { answers: BTreeMap::new(), forgotten: 0, most }
    }

    /// The largest number of a request that is or was here.
    pub fn newest(&self) -> u64 {
        self.answers.last_key_value().map_or(self.forgotten, |(request, _)| *request)
    }

    /// A request has come. [`Attempt::First`] is to be followed by [`RequestWindow::end`].
    pub fn begin(&mut self, request: u64) -> Attempt<R> {
        match self.answers.get(&request) {
            Some(Some(answer)) => return Attempt::Answered(answer.clone()),
            Some(None) => return Attempt::UnderWay,
            None if request <= self.forgotten => return Attempt::Forgotten,
            None => {}
        }
        self.answers.insert(request, None);
        Attempt::First
    }

    /// A request has been carried out, or (`None`) was refused without having done anything.
    pub fn end(&mut self, request: u64, answer: Option<R>) {
        match answer {
            Some(answer) => self.answers.insert(request, Some(answer)),
            None => self.answers.remove(&request),
        };
        // Those under way stay, whatever their number: they are as few as requests in flight.
        let over = self.answers.len().saturating_sub(self.most);
        let oldest = self.answers.iter().filter(|(_, answer)| answer.is_some()).map(|(request, _)| *request);
        let oldest: Vec<u64> = oldest.take(over).collect();
        for request in oldest {
            self.answers.remove(&request);
            self.forgotten = self.forgotten.max(request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_was_carried_out_is_answered_the_same_again() {
        let mut window = RequestWindow::new(2);
        assert_eq!(window.begin(5), Attempt::First);
        assert_eq!(window.begin(5), Attempt::UnderWay);
        window.end(5, Some("done"));
        assert_eq!(window.begin(5), Attempt::Answered("done"));
    }

    #[test]
    fn a_request_that_was_refused_may_be_tried_again() {
        let mut window = RequestWindow::<()>::new(2);
        assert_eq!(window.begin(5), Attempt::First);
        window.end(5, None);
        assert_eq!(window.begin(5), Attempt::First);
    }

    #[test]
    fn what_fell_out_of_the_window_is_known_to_be_forgotten() {
        let mut window = RequestWindow::new(2);
        for request in [3, 9, 4, 12] {
            assert_eq!(window.begin(request), Attempt::First);
            window.end(request, Some(request));
        }
        assert_eq!([3, 4].map(|request| window.begin(request)), [Attempt::Forgotten, Attempt::Forgotten]);
        assert_eq!([9, 12].map(|request| window.begin(request)), [Attempt::Answered(9), Attempt::Answered(12)]);
        assert_eq!(window.begin(1), Attempt::Forgotten);
        assert_eq!(window.begin(10), Attempt::First);
    }

    #[test]
    fn what_is_under_way_is_never_forgotten() {
        let mut window = RequestWindow::new(1);
        assert_eq!(window.begin(1), Attempt::First);
        for request in 2..5 {
            window.begin(request);
            window.end(request, Some(()));
        }
        assert_eq!(window.begin(1), Attempt::UnderWay);
    }
}
