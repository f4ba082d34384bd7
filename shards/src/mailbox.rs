//! How shards talk: a bounded mailbox of requests and an unbounded lane for the rest.
//!
//! Requests queue in a bounded channel for each shard. Replies and notices have a lane of their own, whose
//! length is bounded by what is outstanding. A sleeping owner is woken once. What happens when a mailbox is
//! full, and what is taken in which order, `ringgate_group::mailbox` decides.

use crossbeam_channel::{Receiver, Sender, TryRecvError, TrySendError, bounded, unbounded};
use ringgate_group::mailbox::{Backlogs, Starving};
use ringgate_group::route::ShardId;
use ringgate_runtime::Notifier;

use crate::call::{Reply, ReplyTo, Request, WatchId};

/// A request on its way to its owner.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub(crate) request: Request,
    pub(crate) reply_to: ReplyTo,
    /// When it was asked, as [`Clock::mono_ns`](crate::clock::Clock::mono_ns) says.
    pub(crate) asked_ns: u64,
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
    starving: Starving,
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
                Address { requests, notices, notifier, starving: Starving::new(shards) }
            })
            .collect();
        (Mailroom { addresses }, boxes)
    }

    /// Requests that wait at a shard.
    pub fn depth(&self, shard: ShardId) -> usize {
        self.address(shard).requests.len()
    }

    /// Sends what fits of what is kept back for an owner; where that is not all, `from` is notified once there is room.
    /// Returns whether nothing is kept back any more that was.
    pub(crate) fn send(&self, from: ShardId, to: ShardId, backlogs: &mut Backlogs<Envelope>) -> bool {
        let address = self.address(to);
        let offer = |envelope| match address.requests.try_send(envelope) {
            Ok(()) => {
                address.notifier.notify();
                None
            }
            Err(TrySendError::Full(envelope)) => Some(envelope),
            // A shard that has stopped has nobody left who waits.
            Err(TrySendError::Disconnected(_)) => None,
        };
        backlogs.send(to, offer, || address.starving.announce(from))
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
    pub(crate) fn feed(&self, owner: ShardId) {
        for starving in self.address(owner).starving.take() {
            self.address(starving).notifier.notify();
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

    /// Up to `most` requests, oldest first.
    pub(crate) fn requests(&self, most: usize, into: &mut Vec<Envelope>) {
        while into.len() < most {
            match self.requests.try_recv() {
                Ok(envelope) => into.push(envelope),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
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
        Envelope { request: ReportCall.into(), reply_to: ReplyTo { shard: ShardId(0), token }, asked_ns: 0 }
    }

    fn tokens(batch: &[Envelope]) -> Vec<u64> {
        batch.iter().map(|e| e.reply_to.token).collect()
    }

    fn backlogs(shards: usize, to: ShardId, tokens: std::ops::Range<u64>) -> Backlogs<Envelope> {
        let mut backlogs = Backlogs::new(shards);
        tokens.for_each(|token| backlogs.push(to, envelope(token)));
        backlogs
    }

    #[test]
    fn what_does_not_fit_stays_with_the_sender_in_order() {
        let (mailroom, boxes) = mailroom(2, 4);
        let mut backlogs = backlogs(2, ShardId(1), 0..10);
        assert!(!mailroom.send(ShardId(0), ShardId(1), &mut backlogs));
        assert_eq!((backlogs.len(), mailroom.depth(ShardId(1))), (6, 4));
        let mut seen = Vec::new();
        while seen.len() < 10 {
            let mut batch = Vec::new();
            boxes[1].requests(3, &mut batch);
            seen.extend(tokens(&batch));
            mailroom.send(ShardId(0), ShardId(1), &mut backlogs);
        }
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn a_full_mailbox_holds_no_reply_up() {
        let (mailroom, boxes) = mailroom(2, 1);
        mailroom.send(ShardId(0), ShardId(1), &mut backlogs(2, ShardId(1), 0..5));
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
                    let mut backlogs = Backlogs::new(3);
                    for nth in 0..EACH {
                        backlogs.push(ShardId(2), envelope(u64::from(sender) << 32 | nth));
                        mailroom.send(ShardId(sender), ShardId(2), &mut backlogs);
                        while backlogs.is_blocked() {
                            std::thread::yield_now();
                            mailroom.send(ShardId(sender), ShardId(2), &mut backlogs);
                        }
                    }
                });
            }
            let mut next = [0u64; 2];
            let mut batch = Vec::new();
            while next != [EACH; 2] {
                owner.requests(64, &mut batch);
                if batch.is_empty() {
                    std::thread::yield_now();
                }
                for token in tokens(&std::mem::take(&mut batch)) {
                    let sender = (token >> 32) as usize;
                    assert_eq!(token & u64::from(u32::MAX), next[sender]);
                    next[sender] += 1;
                }
            }
        });
    }
}
