//! How the shards of a gateway talk: mailboxes as small as a world wants them, under the flow control that is real.

use std::collections::VecDeque;

use ringgate_group::ConnectionId;
use ringgate_group::mailbox::{Backlogs, Starving, Step, Turn};
use ringgate_group::pipeline::RequestId;
use ringgate_group::request::HeartbeatRequest;
use ringgate_group::route::ShardId;
use ringgate_group::{ReplyToken, Request, Response};

use super::event::Event;
use super::mutation::Mutation;
use super::world::World;

/// What one shard asks another.
#[derive(Debug)]
pub enum Mail {
    Request(ReplyToken, ConnectionId, Box<Request>),
    HeartbeatSeen(HeartbeatRequest),
    Closed(ConnectionId),
}

/// Which of all that its sender had for its owner it is.
#[derive(Debug)]
struct Letter {
    from: usize,
    nth: u64,
    mail: Mail,
}

/// An answer on its way back to its connection's shard.
#[derive(Debug)]
pub struct Notice {
    pub connection: u64,
    pub request: RequestId,
    pub response: Response,
}

/// One shard's mailbox, from inside and from outside.
#[derive(Debug)]
pub struct Mailbox {
    requests: VecDeque<Letter>,
    notices: VecDeque<Notice>,
    starving: Starving,
    backlogs: Backlogs<Letter>,
    turn: Turn,
    batch: Vec<Letter>,
    /// It will look into its mailbox by itself.
    is_awake: bool,
    /// For each other shard how much went out to it and came in from it.
    sent: Vec<u64>,
    taken: Vec<u64>,
}

impl Mailbox {
    pub fn new(shards: usize) -> Mailbox {
        Mailbox {
            requests: VecDeque::new(),
            notices: VecDeque::new(),
            starving: Starving::new(shards),
            backlogs: Backlogs::new(shards),
            turn: Turn::default(),
            batch: Vec::new(),
            is_awake: false,
            sent: vec![0; shards],
            taken: vec![0; shards],
        }
    }

    /// Whether the shard's connections may read what could make its backlog longer.
    pub fn may_read(&self) -> bool {
        !self.backlogs.is_blocked()
    }
}

impl World {
    fn mailbox(&mut self, shard: usize) -> &mut Mailbox {
        &mut self.gateway.shards[shard].mailbox
    }

    /// To oneself by a call, to others through their mailbox, behind what did not fit.
    pub fn send(&mut self, from: usize, to: usize, mail: Mail) {
        if from == to {
            return self.deliver(to, mail);
        }
        let capacity = self.gateway.mailbox_capacity;
        let overtakes = self.options.mutation == Mutation::BacklogOvertaken;
        let nth = self.mailbox(from).sent[to];
        self.mailbox(from).sent[to] += 1;
        let letter = Letter { from, nth, mail };
        if overtakes && self.mailbox(to).requests.len() < capacity {
            self.mailbox(to).requests.push_back(letter);
            return self.wake(to);
        }
        self.mailbox(from).backlogs.push(ShardId(to as u16), letter);
        self.flush(from, to);
    }

    /// To the lane that is never full.
    pub fn notify(&mut self, to: usize, notice: Notice) {
        self.mailbox(to).notices.push_back(notice);
        self.wake(to);
    }

    fn flush(&mut self, from: usize, to: usize) {
        let capacity = self.gateway.mailbox_capacity;
        let Ok([sender, owner]) = self.gateway.shards.get_disjoint_mut([from, to]) else { return };
        let (requests, starving) = (&mut owner.mailbox.requests, &owner.mailbox.starving);
        let mut arrived = false;
        let offer = |letter| {
            if requests.len() >= capacity {
                return Some(letter);
            }
            arrived = true;
            requests.push_back(letter);
            None
        };
        let announce = || starving.announce(ShardId(from as u16));
        let has_room_again = sender.mailbox.backlogs.send(ShardId(to as u16), offer, announce);
        if arrived {
            self.wake(to);
        }
        if has_room_again {
            let all = self.connections.iter().filter(|(_, connection)| connection.shard == from);
            all.map(|(id, _)| *id).collect::<Vec<_>>().into_iter().for_each(|id| self.go_on(id));
        }
    }

    fn wake(&mut self, shard: usize) {
        if !std::mem::replace(&mut self.mailbox(shard).is_awake, true) {
            self.look_in_soon(shard, 300);
        }
    }

    fn look_in_soon(&mut self, shard: usize, at_most_us: u64) {
        let after_us = self.random.between(1, at_most_us);
        let run = self.gateway.run;
        self.queue.add(self.now_us + after_us, Event::Drain { run, shard });
    }

    /// A shard's turn at its mailbox.
    pub fn drain(&mut self, shard: usize) {
        loop {
            let this = &mut self.gateway.shards[shard].mailbox;
            match this.turn.poll_step() {
                Step::Notices(most) => {
                    let taken: Vec<Notice> = (0..most).map_while(|_| this.notices.pop_front()).collect();
                    this.turn.handle_taken(taken.len());
                    taken
                        .into_iter()
                        .for_each(|notice| self.answered(notice.connection, notice.request, notice.response));
                }
                Step::Requests(most) => {
                    this.batch.extend((0..most).map_while(|_| this.requests.pop_front()));
                    this.turn.handle_taken(this.batch.len());
                }
                Step::TellStarving => {
                    let told: Vec<ShardId> = this.starving.take().collect();
                    let tells = self.options.mutation != Mutation::StarvingSenderNotTold;
                    told.into_iter().filter(|_| tells).for_each(|sender| self.wake(usize::from(sender.0)));
                }
                Step::Serve => {
                    for letter in std::mem::take(&mut this.batch) {
                        self.open_letter(shard, letter);
                    }
                }
                Step::Flush => {
                    let others = (0..self.gateway.shards.len()).filter(|to| *to != shard);
                    others.for_each(|to| self.flush(shard, to));
                }
                Step::Yield => return self.look_in_soon(shard, 40),
                Step::Wait => {
                    this.is_awake = false;
                    return;
                }
            }
        }
    }

    fn open_letter(&mut self, shard: usize, letter: Letter) {
        let expected = std::mem::replace(&mut self.mailbox(shard).taken[letter.from], letter.nth + 1);
        if letter.nth != expected {
            let details = format!("{shard} expected {expected} of {letter:?}");
            self.checks.fail("what one shard sends another arrives in the order in which it was sent", details);
        }
        self.deliver(shard, letter.mail);
    }
}
