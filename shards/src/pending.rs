//! Questions that a shard has asked and that are not answered yet.

use std::cell::RefCell;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use ringgate_group::pieced::PiecedSlab;

use crate::Shard;
use crate::call::Reply;

enum State {
    Waiting(Option<Waker>),
    Answered(Reply),
}

struct Slot {
    /// Tells a late answer to an abandoned question from one to the slot's next user.
    generation: u32,
    state: State,
}

/// The open questions of one shard.
#[derive(Default)]
pub(crate) struct Questions {
    slots: RefCell<PiecedSlab<Slot>>,
    generation: std::cell::Cell<u32>,
}

impl Questions {
    /// A name for a question about to be asked.
    pub(crate) fn ask(&self) -> u64 {
        let generation = self.generation.get().wrapping_add(1);
        self.generation.set(generation);
        let key = self.slots.borrow_mut().insert(Slot { generation, state: State::Waiting(None) });
        u64::from(generation) << 32 | key as u64
    }

    /// Keeps the answer for whoever waits. An answer to an abandoned question is dropped.
    pub(crate) fn answer(&self, token: u64, reply: Reply) {
        let waker = match self.slots.borrow_mut().get_mut(key(token)) {
            Some(slot) if slot.generation == generation(token) => {
                match std::mem::replace(&mut slot.state, State::Answered(reply)) {
                    State::Waiting(waker) => waker,
                    State::Answered(_) => {
                        debug_assert!(false, "question {token} was answered twice");
                        None
                    }
                }
            }
            _ => None,
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn poll(&self, token: u64, cx: &mut Context<'_>) -> Poll<Reply> {
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[key(token)];
        if let State::Waiting(waker) = &mut slot.state {
            match waker {
                Some(waker) => waker.clone_from(cx.waker()),
                None => *waker = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        }
        match slots.remove(key(token)).state {
            State::Answered(reply) => Poll::Ready(reply),
            State::Waiting(_) => Poll::Pending,
        }
    }

    fn abandon(&self, token: u64) {
        let mut slots = self.slots.borrow_mut();
        if slots.get(key(token)).is_some_and(|slot| slot.generation == generation(token)) {
            slots.remove(key(token));
        }
    }
}

fn key(token: u64) -> usize {
    (token & u64::from(u32::MAX)) as usize
}

fn generation(token: u64) -> u32 {
    (token >> 32) as u32
}

/// The answer to a call, to be awaited. Dropping it abandons the question, not the call.
pub struct Pending<R> {
    shard: Rc<Shard>,
    token: u64,
    reply: PhantomData<fn() -> R>,
}

impl<R> Pending<R> {
    pub(crate) fn new(shard: Rc<Shard>, token: u64) -> Pending<R> {
        Pending { shard, token, reply: PhantomData }
    }
}

impl<R: TryFrom<Reply, Error = Reply>> Future for Pending<R> {
    type Output = R;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        self.shard.questions.poll(self.token, cx).map(|reply| match R::try_from(reply) {
            Ok(reply) => reply,
            Err(other) => unreachable!("an owner answered a call with the reply of another: {other:?}"),
        })
    }
}

impl<R> Drop for Pending<R> {
    fn drop(&mut self) {
        self.shard.questions.abandon(self.token);
    }
}
