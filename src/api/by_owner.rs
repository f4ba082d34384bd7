//! What one request asks of several owners: one call to each, and every answer back at its place.

use std::collections::HashMap;

use ringgate_group::route::ShardId;

/// Questions, by the shard that they go to.
pub(super) struct ByOwner<T> {
    questions: Vec<(ShardId, Vec<T>)>,
    nth: HashMap<ShardId, usize>,
}

/// Where the answer to a question will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    nth: usize,
    index: usize,
}

impl<T> ByOwner<T> {
    pub(super) fn new() -> ByOwner<T> {
        ByOwner { questions: Vec::new(), nth: HashMap::new() }
    }

    /// Adds a question behind all others to its owner.
    pub(super) fn push(&mut self, owner: ShardId, question: T) -> Place {
        let nth = *self.nth.entry(owner).or_insert_with(|| {
            self.questions.push((owner, Vec::new()));
            self.questions.len() - 1
        });
        let questions = &mut self.questions[nth].1;
        questions.push(question);
        Place { nth, index: questions.len() - 1 }
    }

    /// The owners, in the order in which they came up, and what each is asked.
    pub(super) fn into_questions(self) -> impl Iterator<Item = (ShardId, Vec<T>)> {
        self.questions.into_iter()
    }
}

/// The owners' answers, each owner's in the order of its questions.
pub(super) struct Answers<R>(Vec<Vec<Option<R>>>);

impl<R> Answers<R> {
    pub(super) fn new() -> Answers<R> {
        Answers(Vec::new())
    }

    /// Adds the answers of the next owner.
    pub(super) fn push(&mut self, answers: Vec<R>) {
        self.0.push(answers.into_iter().map(Some).collect());
    }

    /// The answer at a place; there is one for each question, once.
    pub(super) fn take(&mut self, place: Place) -> Option<R> {
        self.0.get_mut(place.nth)?.get_mut(place.index)?.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_owner_is_asked_once_and_every_answer_comes_back_at_its_place() {
        let mut by_owner = ByOwner::new();
        let places: Vec<Place> =
            [(2, "a"), (0, "b"), (2, "c"), (1, "d")].map(|(owner, q)| by_owner.push(ShardId(owner), q)).to_vec();
        let questions: Vec<_> = by_owner.into_questions().collect();
        assert_eq!(questions, [(ShardId(2), vec!["a", "c"]), (ShardId(0), vec!["b"]), (ShardId(1), vec!["d"])]);
        let mut answers = Answers::new();
        for (_, asked) in questions {
            answers.push(asked.into_iter().map(str::to_uppercase).collect());
        }
        let taken: Vec<_> = places.iter().map(|&place| answers.take(place)).collect();
        assert_eq!(taken, ["A", "B", "C", "D"].map(|a| Some(a.to_string())));
        assert_eq!(answers.take(places[0]), None, "an answer is there once");
    }
}
