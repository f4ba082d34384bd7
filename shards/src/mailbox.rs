//! How shards talk: a bounded mailbox of requests and an unbounded lane for the rest.
//!
//! Requests queue in a bounded channel for each shard; when it is full the sender keeps them in a
//! backlog of its own, in order, and its connections stop reading until the owner has made room:
//! nothing is dropped. Replies and notices have a lane of their own, whose length is bounded by what is
//! outstanding, so that a full mailbox can never hold up an answer. A sleeping owner is woken once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, Sender, TryRecvError, TrySendError, bounded, unbounded};
use ringgate_group::route::ShardId;
use ringgate_runtime::Notifier;

use crate::call::{Reply, ReplyTo, Request, WatchId};

/// A request on its way to its owner.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub(crate) request: Request,
    pub(crate) reply_to: ReplyTo,
}

/// What travels on the reply lane.
#[derive(Debug)]
pub(crate) enum Notice {
    /// The answer to the request that this shard knows by `token`.
    Reply { token: u64, reply: Reply },
    /// A watch that this shard left with an owner has been satisfied.
    Wake(WatchId),
    /// The gateway stops.
    Stop,
}

/// One shard's mailbox, from outside.
struct Address {
    requests: Sender<Envelope>,
    notices: Sender<Notice>,
    notifier: Notifier,
    /// The shards that hold a backlog for this one and want to be told of room.
    starving: Vec<AtomicBool>,
}

/// All mailboxes, from outside.
pub struct Mailroom {
    addresses: Vec<Address>,
}

/// A shard's own mailbox, from inside.
pub struct Mailbox {
    requests: Receiver<Envelope>,
    notices: Receiver<Notice>,
}

impl Mailroom {
    /// Mailboxes of `capacity` requests each, one for every notifier.
    pub fn new(notifiers: Vec<Notifier>, capacity: usize) -> (Mailroom, Vec<Mailbox>) {
        let shards = notifiers.len();
        let mut boxes = Vec::with_capacity(shards);
        let addresses = notifiers
            .into_iter()
            .map(|notifier| {
                let (requests, requests_in) = bounded(capacity);
                let (notices, notices_in) = unbounded();
                boxes.push(Mailbox { requests: requests_in, notices: notices_in });
                let starving = (0..shards).map(|_| AtomicBool::new(false)).collect();
                Address { requests, notices, notifier, starving }
            })
            .collect();
        (Mailroom { addresses }, boxes)
    }

    /// Requests that wait at a shard.
    pub fn depth(&self, shard: ShardId) -> usize {
        self.address(shard).requests.len()
    }

    /// Sends what fits of a backlog, in order. `true` when all of it is on its way; otherwise `from` is
    /// notified once there is room.
    pub(crate) fn send(&self, from: ShardId, to: ShardId, backlog: &mut VecDeque<Envelope>) -> bool {
        let address = self.address(to);
        let mut announced = false;
        while let Some(envelope) = backlog.pop_front() {
            match address.requests.try_send(envelope) {
                Ok(()) => address.notifier.notify(),
                // The flag is set before the second try: either that finds the room, or the owner,
                // which makes room first and looks at the flags after, sees the flag.
                Err(TrySendError::Full(envelope)) => {
                    backlog.push_front(envelope);
                    if announced {
                        return false;
                    }
                    address.starving[usize::from(from.0)].store(true, Ordering::SeqCst);
                    announced = true;
                }
                Err(TrySendError::Disconnected(_)) => {}
            }
        }
        true
    }

    /// Sends a notice.
    pub(crate) fn notify(&self, to: ShardId, notice: Notice) {
        let address = self.address(to);
        // A shard that has stopped has nobody left who waits.
        if address.notices.send(notice).is_ok() {
            address.notifier.notify();
        }
    }

    /// Tells every shard to stop.
    pub fn stop(&self) {
        for shard in 0..self.addresses.len() {
            self.notify(ShardId(shard as u16), Notice::Stop);
        }
    }

    /// Tells those that wait for room at `owner` that there is some.
    fn feed(&self, owner: ShardId) {
        for (shard, starving) in self.address(owner).starving.iter().enumerate() {
            if starving.swap(false, Ordering::SeqCst) {
                self.addresses[shard].notifier.notify();
            }
        }
    }

    fn address(&self, shard: ShardId) -> &Address {
        &self.addresses[usize::from(shard.0)]
    }
}

impl Mailbox {
    /// The next notice.
    pub(crate) fn notice(&self) -> Option<Notice> {
        self.notices.try_recv().ok()
    }

    /// Up to `most` requests, oldest first; makes their room known.
    pub(crate) fn requests(&self, owner: ShardId, mailroom: &Mailroom, most: usize, into: &mut Vec<Envelope>) {
        while into.len() < most {
            match self.requests.try_recv() {
                Ok(envelope) => into.push(envelope),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        if !into.is_empty() {
            mailroom.feed(owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::ReportCall;
    use ringgate_runtime::notifier;

    fn mailroom(shards: usize, capacity: usize) -> (Mailroom, Vec<Mailbox>) {
        Mailroom::new((0..shards).map(|_| notifier().0).collect(), capacity)
    }

    fn envelope(token: u64) -> Envelope {
        Envelope { request: ReportCall.into(), reply_to: ReplyTo { shard: ShardId(0), token } }
    }

    fn tokens(batch: &[Envelope]) -> Vec<u64> {
        batch.iter().map(|e| e.reply_to.token).collect()
    }

    #[test]
    fn what_does_not_fit_stays_with_the_sender_in_order() {
        let (mailroom, boxes) = mailroom(2, 4);
        let mut backlog: VecDeque<_> = (0..10).map(envelope).collect();
        assert!(!mailroom.send(ShardId(0), ShardId(1), &mut backlog));
        assert_eq!((backlog.len(), mailroom.depth(ShardId(1))), (6, 4));
        let mut seen = Vec::new();
        while seen.len() < 10 {
            let mut batch = Vec::new();
            boxes[1].requests(ShardId(1), &mailroom, 3, &mut batch);
            seen.extend(tokens(&batch));
            mailroom.send(ShardId(0), ShardId(1), &mut backlog);
        }
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn a_sender_that_met_a_full_mailbox_is_told_of_room_once() {
        let (mailroom, boxes) = mailroom(2, 1);
        let mut backlog: VecDeque<_> = (0..2).map(envelope).collect();
        mailroom.send(ShardId(0), ShardId(1), &mut backlog);
        let starving = || mailroom.address(ShardId(1)).starving[0].load(Ordering::SeqCst);
        assert!(starving());
        boxes[1].requests(ShardId(1), &mailroom, 8, &mut Vec::new());
        assert!(!starving());
    }

    #[test]
    fn a_full_mailbox_holds_no_reply_up() {
        let (mailroom, boxes) = mailroom(2, 1);
        let mut backlog: VecDeque<_> = (0..5).map(envelope).collect();
        mailroom.send(ShardId(0), ShardId(1), &mut backlog);
        for watch in 0..1000 {
            mailroom.notify(ShardId(1), Notice::Wake(WatchId(watch)));
        }
        let heard = std::iter::from_fn(|| boxes[1].notice()).count();
        assert_eq!(heard, 1000);
    }

    #[test]
    fn two_senders_under_load_lose_and_reorder_nothing() {
        let (mailroom, mut boxes) = mailroom(3, 2);
        let mailroom = &mailroom;
        let owner = boxes.remove(2);
        const EACH: u64 = 20_000;
        std::thread::scope(|scope| {
            for sender in 0..2u16 {
                scope.spawn(move || {
                    let mut backlog = VecDeque::new();
                    for nth in 0..EACH {
                        backlog.push_back(envelope(u64::from(sender) << 32 | nth));
                        while !mailroom.send(ShardId(sender), ShardId(2), &mut backlog) {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let mut next = [0u64; 2];
            let mut batch = Vec::new();
            while next != [EACH; 2] {
                owner.requests(ShardId(2), mailroom, 64, &mut batch);
                for token in tokens(&std::mem::take(&mut batch)) {
                    let sender = (token >> 32) as usize;
                    assert_eq!(token & u64::from(u32::MAX), next[sender]);
                    next[sender] += 1;
                }
            }
        });
    }
}
