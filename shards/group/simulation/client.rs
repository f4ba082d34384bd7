//! What all clients have in common: how they speak to the world.

use ringgate_group::{PartitionSet, Request, Response, Text};

use super::random::Random;
use super::topics::Catalogue;

/// What a client has sent; comes back to it with the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    Join,
    Sync,
    Heartbeat,
    Commit,
    Fetch,
    Leave,
    Other,
}

/// What a client wants to be woken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// Connect, or go on where a connection was lost.
    Come,
    /// Try again what was refused for the moment.
    Retry,
    Heartbeat,
    Commit,
    /// Partitions were given back.
    Revoked,
    /// Something out of the ordinary happens to the client.
    Whim,
}

/// What a client does with its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// Closes it when all that was sent has gone out.
    Close,
    /// Goes away without a word: the gateway finds out late.
    Vanish,
}

/// What a client wants done. It knows no more of the world than this.
pub struct Io<'a> {
    pub now_us: u64,
    pub random: &'a mut Random,
    pub catalogue: &'a Catalogue,
    pub knowledge: &'a mut Knowledge,
    pub is_calm: bool,
    pub connected: bool,
    pub connect: bool,
    pub sends: Vec<(Sent, Request)>,
    pub line: Option<Line>,
    pub wakes: Vec<(u64, Wake)>,
    /// What the client holds from now on, where that has changed.
    pub holds: Option<(Text, PartitionSet)>,
}

impl Io<'_> {
    pub fn send(&mut self, sent: Sent, request: Request) {
        self.sends.push((sent, request));
    }

    pub fn wake_in_ms(&mut self, ms: u64, wake: Wake) {
        self.wakes.push((self.now_us + ms * 1000, wake));
    }

    /// No two commits are of the same offset, so an offset says which commit it is of.
    pub fn next_offset(&mut self) -> i64 {
        self.knowledge.next_offset += 1;
        self.knowledge.next_offset
    }
}

/// A member that somebody has seen, for those that speak in others' names.
#[derive(Debug, Clone)]
pub struct Seen {
    pub group: Text,
    pub member_id: Text,
    pub instance: Option<Text>,
    pub generation: i32,
    pub topics: Vec<Text>,
}

/// What clients share: the offsets that were not used yet, and gossip.
#[derive(Debug, Default)]
pub struct Knowledge {
    next_offset: i64,
    pub seen: Vec<Seen>,
    /// Groups of the classic protocol, then those of the consumer protocol.
    pub classic_groups: Vec<Text>,
    pub consumer_groups: Vec<Text>,
}

impl Knowledge {
    pub fn gossip(&mut self, seen: Seen) {
        if self.seen.len() >= 24 {
            self.seen.remove(0);
        }
        self.seen.push(seen);
    }
}

/// How a client that does what it should stands at the end.
#[derive(Debug, Clone)]
pub struct Status {
    pub group: Text,
    pub member_id: Text,
    pub generation: i32,
    pub is_stable: bool,
    pub partitions: Vec<(Text, i32)>,
    pub topics: Vec<Text>,
    /// All topics whose names begin so, too.
    pub prefix: Option<&'static str>,
}

/// A client as the world sees it. A wake-up of an earlier life is told apart by the client itself.
pub trait Client {
    /// For the trace.
    fn name(&self) -> String;
    /// The group that it speaks of first, which decides where it connects to.
    fn group(&self) -> Text;
    /// It will come by itself after so long.
    fn begin(&mut self, io: &mut Io<'_>, in_ms: u64);
    fn woken(&mut self, io: &mut Io<'_>, wake: Wake);
    fn answered(&mut self, io: &mut Io<'_>, sent: Sent, response: Response);
    fn disconnected(&mut self, io: &mut Io<'_>);
    /// From now on nobody is to be harmed. Clients that do not do what they should go.
    fn calm(&mut self, io: &mut Io<'_>);
    /// The day is over.
    fn farewell(&mut self, io: &mut Io<'_>);
    /// `None` for one that owes nothing to anybody.
    fn status(&self) -> Option<Status>;
}
