//! Where groups are coordinated.

use std::time::Instant;

use ringgate_client::{Address, CallError};

use super::driver::{Due, Fleet};
use super::inbox::Event;
use super::timers::Nanos;
use crate::limits::MEMBER_PAUSE;

impl Fleet {
    /// The coordinator is asked for, unless it is already.
    pub(super) fn find(&mut self, number: u32) {
        let place = &mut self.groups[number as usize];
        if std::mem::replace(&mut place.finding, true) {
            return;
        }
        let (target, inbox, name) = (self.target.clone(), self.inbox.clone(), place.name.clone());
        let find = async move {
            let came = target.coordinator(&name).await;
            inbox.put(Event::Coordinator { group: number, came });
        };
        ringgate_runtime::spawn_as("a coordinator's look-up", find).detach();
    }

    pub(super) fn found(&mut self, number: u32, came: Result<Address, CallError>) {
        self.groups[number as usize].finding = false;
        match came {
            Ok(address) => {
                let broker = self.links.broker(address);
                self.groups[number as usize].coordinator = Some(broker);
                for member in self.members_of(number) {
                    self.advance(member);
                }
            }
            Err(error) => {
                self.failed("find_coordinator", error.code(), Instant::now());
                let at = self.now() + MEMBER_PAUSE.as_nanos() as Nanos;
                self.timers.set(at, Due::Find(number));
            }
        }
    }

    /// The coordinator has moved, or was not there: it is asked for again.
    pub(super) fn moved(&mut self, member: u32) {
        let group = self.members[member as usize].group;
        self.groups[group as usize].coordinator = None;
    }
}
