//! Batches of a partition that wait for the one before them: in their order, for so long and no longer, and only while
//! somebody waits for what becomes of them. Their connection's bytes no longer count when it is gone, so what nobody
//! waits for must not stay.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use bytes::Bytes;
use ringgate_group::ErrorCode;
use ringgate_runtime::OneshotSender;

use super::limits::ARRIVING_LOOKED_THROUGH;
use crate::call::{Asker, PartitionProduced, TopicPartition};

/// A batch that waits.
pub(super) struct Arriving {
    pub(super) at: TopicPartition,
    pub(super) records: Bytes,
    pub(super) decompress_left: Arc<AtomicUsize>,
    /// Who waits for what becomes of it; `None`: nobody does, and it is written all the same (acks=0).
    pub(super) asker: Option<Asker>,
    /// When it is refused if it still waits.
    pub(super) waits_until: Instant,
    /// When it is to be decided.
    pub(super) deadline: Instant,
    pub(super) tell: OneshotSender<PartitionProduced>,
}

/// The batches of one partition that wait, oldest first. All may wait equally long.
#[derive(Default)]
pub(super) struct Queue {
    batches: VecDeque<Arriving>,
    /// With so many it is looked for some that nobody waits for.
    look_at: usize,
}

impl Arriving {
    fn is_wanted(&self) -> bool {
        self.asker.as_ref().is_none_or(|asker| !asker.is_gone())
    }

    /// Nothing of it was sent.
    fn refuse(self, why: &str) {
        let refused = PartitionProduced::refused(self.at, ErrorCode::NOT_LEADER_OR_FOLLOWER, Some(why.to_string()));
        // Its connection may be gone.
        drop(self.tell.send(refused));
    }

    fn refuse_unwanted(self) {
        self.refuse("its client has gone");
    }
}

impl Queue {
    pub(super) fn push(&mut self, batch: Arriving) {
        if self.batches.is_empty() {
            self.look_at = ARRIVING_LOOKED_THROUGH;
        }
        // Seldom enough to cost each batch next to nothing.
        if self.batches.len() >= self.look_at {
            self.refuse_unwanted();
            self.look_at = ARRIVING_LOOKED_THROUGH.max(self.batches.len() * 2);
        }
        self.batches.push_back(batch);
    }

    /// The oldest that is still to be sent.
    pub(super) fn next(&mut self, now: Instant) -> Option<Arriving> {
        self.refuse_late(now);
        loop {
            let next = self.batches.pop_front()?;
            if next.is_wanted() {
                return Some(next);
            }
            next.refuse_unwanted();
        }
    }

    /// When the oldest is to be refused.
    pub(super) fn waits_until(&self) -> Option<Instant> {
        self.batches.front().map(|oldest| oldest.waits_until)
    }

    /// Refuses those that have waited for as long as they may.
    pub(super) fn refuse_late(&mut self, now: Instant) {
        while let Some(late) = self.batches.pop_front_if(|oldest| oldest.waits_until <= now) {
            late.refuse("Iggy did not take the batches before it in time");
        }
    }

    fn refuse_unwanted(&mut self) {
        for batch in std::mem::take(&mut self.batches) {
            match batch.is_wanted() {
                true => self.batches.push_back(batch),
                false => batch.refuse_unwanted(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use ringgate_runtime::{OneshotReceiver, oneshot};

    use super::*;
    use crate::call::Asking;

    const SECOND: Duration = Duration::from_secs(1);

    type Answer = OneshotReceiver<PartitionProduced>;

    fn arrives(queue: &mut Queue, name: &'static str, asker: Option<Asker>, waits_until: Instant) -> Answer {
        let at = TopicPartition { topic: uuid::Uuid::from_u128(1), partition: 0 };
        let (tell, answer) = oneshot();
        let (records, decompress_left) = (Bytes::from_static(name.as_bytes()), Arc::default());
        let deadline = waits_until + SECOND;
        queue.push(Arriving { at, records, decompress_left, asker, waits_until, deadline, tell });
        answer
    }

    fn next(queue: &mut Queue, now: Instant) -> Option<Bytes> {
        queue.next(now).map(|batch| batch.records)
    }

    fn refusal(answer: Answer) -> Option<ErrorCode> {
        match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answered) => Some(answered.expect("an answer").error),
            Poll::Pending => None,
        }
    }

    #[test]
    fn batches_leave_in_the_order_in_which_they_came() {
        let (mut queue, now, asking) = (Queue::default(), Instant::now(), Asking::default());
        let _answers: Vec<_> = ["a", "b", "c"]
            .into_iter()
            .map(|name| arrives(&mut queue, name, Some(asking.asker()), now + SECOND))
            .collect();
        for name in ["a", "b", "c"] {
            assert_eq!(next(&mut queue, now).as_deref(), Some(name.as_bytes()));
        }
        assert_eq!(next(&mut queue, now), None);
    }

    #[test]
    fn what_has_waited_for_as_long_as_it_may_is_told_so_and_is_never_sent() {
        let (mut queue, now, asking) = (Queue::default(), Instant::now(), Asking::default());
        let late = arrives(&mut queue, "late", Some(asking.asker()), now + SECOND);
        let late_too = arrives(&mut queue, "late, with acks=0", None, now + SECOND);
        let in_time = arrives(&mut queue, "in time", Some(asking.asker()), now + SECOND * 2);
        assert_eq!(queue.waits_until(), Some(now + SECOND));
        queue.refuse_late(now + SECOND);
        for late in [late, late_too] {
            assert_eq!(refusal(late), Some(ErrorCode::NOT_LEADER_OR_FOLLOWER));
        }
        assert_eq!(queue.waits_until(), Some(now + SECOND * 2));
        let sent = queue.next(now + SECOND).expect("one is left");
        assert_eq!(sent.records, "in time");
        assert_eq!(refusal(in_time), None, "it is not refused");
    }

    #[test]
    fn what_becomes_late_between_two_looks_is_not_sent_either() {
        let (mut queue, now, asking) = (Queue::default(), Instant::now(), Asking::default());
        let late = arrives(&mut queue, "late", Some(asking.asker()), now + SECOND);
        assert_eq!(next(&mut queue, now + SECOND), None);
        assert_eq!(refusal(late), Some(ErrorCode::NOT_LEADER_OR_FOLLOWER));
    }

    #[test]
    fn what_nobody_waits_for_is_not_sent_but_with_acks_0() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let (goes, stays) = (Asking::default(), Asking::default());
        let _answers = [
            arrives(&mut queue, "unwanted", Some(goes.asker()), now + SECOND),
            arrives(&mut queue, "acks=0", None, now + SECOND),
            arrives(&mut queue, "unwanted too", Some(goes.asker()), now + SECOND),
            arrives(&mut queue, "wanted", Some(stays.asker()), now + SECOND),
        ];
        drop(goes);
        assert_eq!(next(&mut queue, now).as_deref(), Some(&b"acks=0"[..]));
        assert_eq!(next(&mut queue, now).as_deref(), Some(&b"wanted"[..]));
        assert_eq!(next(&mut queue, now), None);
    }

    #[test]
    fn clients_that_come_and_go_leave_nothing_behind_those_that_stay() {
        let (mut queue, now, stays) = (Queue::default(), Instant::now(), Asking::default());
        let _answer = arrives(&mut queue, "wanted", Some(stays.asker()), now + SECOND);
        for _ in 0..100 * ARRIVING_LOOKED_THROUGH {
            let goes = Asking::default();
            drop(arrives(&mut queue, "unwanted", Some(goes.asker()), now + SECOND));
            assert!(queue.batches.len() <= ARRIVING_LOOKED_THROUGH, "{} stay", queue.batches.len());
        }
        assert_eq!(next(&mut queue, now).as_deref(), Some(&b"wanted"[..]));
    }
}
