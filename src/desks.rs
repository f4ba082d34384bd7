//! Asking shards from a thread that is none of theirs: a scrape, or whoever watches.
//!
//! A question is a closure that runs on the shard's thread, with what only that thread may touch; its answer comes back
//! through a channel. Questions of one desk begin in the order in which they were asked and wait for each other only
//! when they say so by not yielding.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_channel::oneshot;
use ringgate_runtime::{Notified, Notifier, notifier};

use crate::iggy;
use crate::limits::DESK_QUESTIONS_MAX;
use crate::net::accept::Front;

/// What a question finds on its shard.
pub struct Here {
    /// Kafka's front of house, and the shard behind it.
    pub front: Rc<Front>,
    /// Iggy's, where there is one.
    pub iggy: Option<Rc<iggy::Front>>,
}

type Question = Box<dyn FnOnce(Rc<Here>) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// Where one shard is asked.
struct Desk {
    /// `None` when the shard answers no more.
    questions: Mutex<Option<Vec<Question>>>,
    notifier: Notifier,
    notified: Mutex<Option<Notified>>,
}

/// Where shards are asked.
pub struct Desks(Vec<Desk>);

impl Desks {
    /// A desk for each of so many shards.
    pub fn new(shards: usize) -> Desks {
        let desk = || {
            let (notifier, notified) = notifier();
            Desk { questions: Mutex::new(Some(Vec::new())), notifier, notified: Mutex::new(Some(notified)) }
        };
        Desks((0..shards).map(|_| desk()).collect())
    }

    /// How many shards there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Answers for one shard, on its thread, until it is dropped. From then on whoever asks learns that nobody answers.
    pub fn answer(self: &Arc<Self>, here: Here) -> impl Future<Output = ()> + 'static {
        let this = self.clone();
        let here = Rc::new(here);
        async move {
            let closing = Closing(&this.0[usize::from(here.front.shard.id().0)]);
            let Some(notified) = lock(&closing.0.notified).take() else { return };
            loop {
                notified.notified().await;
                let questions = lock(&closing.0.questions).as_mut().map(std::mem::take).unwrap_or_default();
                for question in questions {
                    ringgate_runtime::spawn_as("watching", question(here.clone())).detach();
                }
            }
        }
    }

    /// Asks one shard. Nothing comes out where the shard is not there any more, or has too many questions waiting.
    pub fn ask<T, F>(&self, shard: usize, question: impl FnOnce(Rc<Here>) -> F + Send + 'static) -> oneshot::Receiver<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let (done, answer) = oneshot::channel();
        let Some(desk) = self.0.get(shard) else { return answer };
        let question: Question = Box::new(move |here| {
            Box::pin(async move {
                // Who gave up before the shard came to it wants nothing done.
                if !done.is_canceled() {
                    let _ = done.send(question(here).await);
                }
            })
        });
        if let Some(questions) = lock(&desk.questions).as_mut().filter(|waiting| waiting.len() < DESK_QUESTIONS_MAX) {
            questions.push(question);
            desk.notifier.notify();
        }
        answer
    }

    /// Asks all shards the same. One that does not answer is left out.
    pub async fn ask_all<T, F, Q>(&self, question: Q) -> Vec<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
        Q: FnOnce(Rc<Here>) -> F + Clone + Send + 'static,
    {
        let asked: Vec<_> = (0..self.len()).map(|shard| self.ask(shard, question.clone())).collect();
        let mut answers = Vec::with_capacity(asked.len());
        for answer in asked {
            answers.extend(answer.await.ok());
        }
        answers
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Closes a desk when it goes.
struct Closing<'a>(&'a Desk);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        lock(&self.0.questions).take();
    }
}
