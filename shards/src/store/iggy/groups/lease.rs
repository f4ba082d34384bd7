//! Who answers groups: one gateway at a time, by the order of records in one log.
//!
//! The log decides, not a clock. A claim names the last record that counts before it, so of two claims that follow
//! one record only the first counts; everybody who reads the log comes to the same holder ([`LeaseLog`]). Clocks
//! only say when to give up, each gateway by its own: the holder answers groups for [`VALID_MS`] from before it
//! *sent* its last renewal, and another one claims only when it has watched the log for [`WATCH_MS`], which is
//! longer, without a new record of the holder. No two clocks are compared.
//!
//! Call [`Lease::poll`] until it says to wait, carry out what it says, and report with `handle_*`. Then again.

use super::SideMessage;

/// How often the holder renews, ms.
pub const RENEW_MS: u64 = 5_000;

/// For how long the holder answers groups without a renewal, ms from before it was sent.
pub const VALID_MS: u64 = 10_000;

/// For how long another gateway watches before it claims, ms. What is more than [`VALID_MS`] is for clocks that do not
/// run alike and for writes on their way.
pub const WATCH_MS: u64 = 12_500;

/// How often who watches or waits reads the log, and how soon a failure is tried again, ms.
pub const LOOK_MS: u64 = 500;

const _: () = assert!(RENEW_MS * 2 <= VALID_MS && VALID_MS + VALID_MS / 5 <= WATCH_MS && LOOK_MS < RENEW_MS);

/// A gateway's run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Random, of this run alone.
    pub id: u128,
    /// What an operator knows it by.
    pub name: String,
    /// Which process it is, if that can be told.
    pub process: Option<Process>,
}

/// A process, unmistakably: two of these that are equal are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// The machine's current boot.
    pub boot: u128,
    /// The inode of its pid namespace.
    pub pid_namespace: u64,
    /// Its number there.
    pub pid: u32,
    /// When it started, in clock ticks since the boot.
    pub started: u64,
}

/// What is written of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseRecord {
    /// `owner` wants the lease, which nobody has since the record at `after`. The record's own offset is its term.
    Claim {
        /// Who.
        owner: Owner,
        /// The last record that counted when it was made.
        after: Option<u64>,
    },
    /// The holder is there.
    Renewal {
        /// Who.
        owner: Owner,
        /// Its term.
        term: u64,
    },
    /// The holder goes.
    Release {
        /// Its term.
        term: u64,
    },
}

/// What the records come to that were read so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeaseLog {
    /// Where to read on.
    next: u64,
    /// The first offset that was there is not 0: what was before is not known.
    is_cut: bool,
    /// The offset of the last record that counted.
    last: Option<u64>,
    term: Option<u64>,
    holder: Option<Owner>,
}

impl LeaseLog {
    /// Where to read on.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Who has it, if anybody.
    pub fn holder(&self) -> Option<&Owner> {
        self.holder.as_ref()
    }

    /// Takes in a message of the log, in the order of offsets; those of groups are none of its business.
    pub fn take(&mut self, offset: u64, message: &SideMessage) {
        if offset < self.next {
            return;
        }
        self.is_cut |= self.next == 0 && offset > 0;
        self.next = offset + 1;
        let SideMessage::Lease(record) = message else { return };
        match record {
            // Old segments are deleted when the holder has renewed behind them: a claim before the first record that is
            // known to count was made while that one's writer held the lease, and does not count itself.
            LeaseRecord::Claim { .. } if self.is_cut && self.last.is_none() => {}
            LeaseRecord::Claim { owner, after } => {
                if *after == self.last {
                    (self.last, self.term, self.holder) = (Some(offset), Some(offset), Some(owner.clone()));
                }
            }
            LeaseRecord::Renewal { owner, term } => {
                let goes_on = self.term == Some(*term) && self.holder.is_some();
                let was_cut_off = self.is_cut && self.last.is_none() && *term < offset;
                if goes_on || was_cut_off {
                    (self.last, self.term, self.holder) = (Some(offset), Some(*term), Some(owner.clone()));
                }
            }
            LeaseRecord::Release { term } => {
                if self.term == Some(*term) && self.holder.is_some() {
                    (self.last, self.holder) = (Some(offset), None);
                }
            }
        }
    }
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Read the log from this offset to its end, and report with [`Lease::handle_read`].
    Read {
        /// The first.
        from: u64,
    },
    /// Append this, and report with [`Lease::handle_appended`].
    Append(LeaseRecord),
    /// Nothing before this moment, ms.
    Wait(u64),
    /// Somebody else coordinates: nothing is left to do but to say so and to end.
    Refused(Owner),
    /// The lease is given back.
    Released,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// The log is to be read.
    Looking,
    /// Somebody holds the lease; `last` was its last record at `since_ms`.
    Watching {
        since_ms: u64,
        last: Option<u64>,
    },
    /// Nobody has it, or its holder is silent.
    Claimable,
    /// A record was sent at `at_ms`, when `before` was the last that counted. Whether it counts the log will say.
    Sent {
        at_ms: u64,
        before: Option<u64>,
        offset: Option<u64>,
    },
    /// It is mine; to be renewed at this moment.
    Holding {
        renew_at_ms: u64,
    },
    Released,
    Refused(Owner),
}

/// One gateway's side of it.
#[derive(Debug)]
pub struct Lease {
    me: Owner,
    log: LeaseLog,
    phase: Phase,
    /// When the last record of mine was sent that is known to count, ms.
    renewed_ms: Option<u64>,
    releases: bool,
    /// Nothing is to be done before, ms.
    not_before_ms: u64,
}

impl Lease {
    /// For this run of a gateway.
    pub fn new(me: Owner) -> Lease {
        Lease {
            me,
            log: LeaseLog::default(),
            phase: Phase::Looking,
            renewed_ms: None,
            releases: false,
            not_before_ms: 0,
        }
    }

    /// Until when groups may be answered, ms; `None` when they may not.
    pub fn valid_until_ms(&self) -> Option<u64> {
        self.renewed_ms.map(|at| at + VALID_MS)
    }

    /// The term of the lease, if it is held.
    pub fn term(&self) -> Option<u64> {
        self.log.term.filter(|_| self.is_mine())
    }

    /// Who has it, if that is another gateway.
    pub fn other_holder(&self) -> Option<&Owner> {
        self.log.holder().filter(|holder| holder.id != self.me.id)
    }

    fn is_mine(&self) -> bool {
        self.log.holder().is_some_and(|holder| holder.id == self.me.id)
    }

    /// The lease is to be given back. Groups are answered no more.
    pub fn release(&mut self) {
        if std::mem::replace(&mut self.releases, true) {
            return;
        }
        self.renewed_ms = None;
        self.not_before_ms = 0;
        if let Phase::Holding { .. } | Phase::Watching { .. } | Phase::Claimable = self.phase {
            self.phase = Phase::Looking;
        }
    }

    /// What to do now. `is_gone` tells that a holder's process is gone for sure, so that nobody has to wait for it.
    pub fn poll(&mut self, now_ms: u64, is_gone: impl Fn(&Owner) -> bool) -> Step {
        match &self.phase {
            Phase::Refused(owner) => return Step::Refused(owner.clone()),
            Phase::Released => return Step::Released,
            _ if now_ms < self.not_before_ms => return Step::Wait(self.not_before_ms),
            Phase::Looking | Phase::Sent { .. } => return Step::Read { from: self.log.next() },
            Phase::Watching { .. } if !self.log.holder().is_some_and(is_gone) => {
                return Step::Read { from: self.log.next() };
            }
            Phase::Watching { .. } | Phase::Claimable => {}
            Phase::Holding { renew_at_ms } if now_ms < *renew_at_ms => return Step::Wait(*renew_at_ms),
            Phase::Holding { .. } => {}
        }
        let owner = self.me.clone();
        let record = match self.term() {
            Some(term) if self.releases => LeaseRecord::Release { term },
            Some(term) => LeaseRecord::Renewal { owner, term },
            None => LeaseRecord::Claim { owner, after: self.log.last },
        };
        self.phase = Phase::Sent { at_ms: now_ms, before: self.log.last, offset: None };
        Step::Append(record)
    }

    /// What was to be appended lies at this offset; `None`: it was not appended, or that is not known.
    pub fn handle_appended(&mut self, now_ms: u64, appended: Option<u64>) {
        match &mut self.phase {
            Phase::Sent { offset, .. } => *offset = appended,
            _ => debug_assert!(false, "nothing was to be appended"),
        }
        if appended.is_none() {
            self.not_before_ms = now_ms + LOOK_MS;
        }
    }

    /// The log was read: these are its messages to its end, with their offsets. `None`: it could not be read.
    pub fn handle_read(&mut self, now_ms: u64, read: Option<&[(u64, SideMessage)]>) {
        self.not_before_ms = now_ms + LOOK_MS;
        let Some(messages) = read else { return };
        for (offset, message) in messages {
            self.log.take(*offset, message);
        }
        let last = self.log.last;
        let holder = self.log.holder().cloned();
        let was = self.phase.clone();
        if let Phase::Sent { offset: Some(offset), .. } = was
            && self.log.next() <= offset
        {
            // What was read is older than what was appended.
            return;
        }
        self.phase = match holder {
            _ if matches!(was, Phase::Released | Phase::Refused(_)) => was,
            Some(_) if self.is_mine() => {
                self.not_before_ms = now_ms;
                match was {
                    // That it counts tells that nobody else had the lease when it was appended.
                    Phase::Sent { at_ms, offset: Some(offset), .. } if Some(offset) <= last && !self.releases => {
                        self.renewed_ms = Some(at_ms);
                        Phase::Holding { renew_at_ms: at_ms + RENEW_MS }
                    }
                    // A record whose fate was not known has come to count; when it was sent is not known.
                    _ => Phase::Holding { renew_at_ms: now_ms },
                }
            }
            None if self.releases => Phase::Released,
            None => {
                self.not_before_ms = now_ms;
                self.renewed_ms = None;
                Phase::Claimable
            }
            Some(_) if self.releases => Phase::Released,
            Some(owner) => {
                self.renewed_ms = None;
                match was {
                    Phase::Looking => Phase::Watching { since_ms: now_ms, last },
                    Phase::Watching { last: seen, .. } | Phase::Sent { before: seen, .. } if seen != last => {
                        Phase::Refused(owner)
                    }
                    Phase::Watching { since_ms, .. } if now_ms < since_ms + WATCH_MS => was,
                    Phase::Watching { .. } | Phase::Sent { .. } | Phase::Claimable => Phase::Claimable,
                    Phase::Holding { .. } | Phase::Released | Phase::Refused(_) => Phase::Refused(owner),
                }
            }
        };
    }
}

#[cfg(test)]
mod tests;
