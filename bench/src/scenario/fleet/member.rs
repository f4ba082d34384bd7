//! A member of a group.

use kafka_protocol::protocol::StrBytes;

use super::timers::Nanos;

/// No connection.
pub(super) const NONE: u32 = u32::MAX;

/// How far a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Not in the group, and not to be.
    Away,
    /// To join as soon as coordinator and connection are there.
    ToJoin,
    /// To join after a pause, since something failed.
    Pausing,
    /// Waits for the answer to its join.
    Joining,
    /// Waits for its assignment.
    Syncing,
    /// Holds an assignment.
    Stable,
}

/// A member. There are many: its size is what the generator takes per member, beside its connection.
#[derive(Debug)]
pub struct Member {
    /// Its group, on this executor.
    pub group: u32,
    /// Counts its lives: what was asked or set in an earlier one is nobody's.
    pub life: u32,
    /// Given by the coordinator, or by itself (KIP-848); empty before.
    pub id: StrBytes,
    /// Of its assignment; the member epoch with KIP-848.
    pub generation: i32,
    /// How far it is.
    pub state: State,
    /// It is away, and its group keeps its place.
    pub keeps_place: bool,
    /// The connection for its join, where members share connections.
    pub lobby: u32,
    /// When its next heartbeat is meant to be sent.
    pub next_heartbeat: Nanos,
    /// A heartbeat has no answer yet.
    pub heartbeat_out: bool,
    /// The next heartbeat is due and was not sent: one is out, or there is no connection.
    pub heartbeat_waits: bool,
    /// A heartbeat is to be sent beside the schedule: to tell the coordinator what the member owns (KIP-848), or to see
    /// whether it still knows the member.
    pub owes_heartbeat: bool,
    /// The group counts it among those that hold an assignment of `generation`.
    pub counted: bool,
    /// When its next commit is meant to be sent.
    pub next_commit: Nanos,
    /// As with heartbeats.
    pub commit_out: bool,
    /// As with heartbeats.
    pub commit_waits: bool,
    /// What it commits next.
    pub offset: u32,
    /// Its partitions.
    pub assignment: Box<[u32]>,
    /// Partitions that it lets go with its next acknowledgement (KIP-848).
    pub to_release: Box<[u32]>,
}

impl Member {
    /// One that is not in the group.
    pub fn new(group: u32) -> Member {
        Member {
            group,
            life: 0,
            id: StrBytes::default(),
            generation: 0,
            state: State::Away,
            keeps_place: false,
            lobby: NONE,
            next_heartbeat: 0,
            heartbeat_out: false,
            heartbeat_waits: false,
            owes_heartbeat: false,
            counted: false,
            next_commit: 0,
            commit_out: false,
            commit_waits: false,
            offset: 0,
            assignment: Box::default(),
            to_release: Box::default(),
        }
    }

    /// What is out and what is set is nobody's from now on.
    pub fn begin_life(&mut self) {
        self.life = self.life.wrapping_add(1);
        self.heartbeat_out = false;
        self.heartbeat_waits = false;
        self.owes_heartbeat = false;
        self.commit_out = false;
        self.commit_waits = false;
    }
}
