use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

fn owner(id: u128) -> Owner {
    Owner { id, name: format!("gateway {id}"), process: None }
}

fn nobody_is_gone(_: &Owner) -> bool {
    false
}

/// The log that gateways share.
#[derive(Default)]
struct Log {
    first: u64,
    messages: Vec<SideMessage>,
}

impl Log {
    fn append(&mut self, record: LeaseRecord) -> u64 {
        self.messages.push(SideMessage::Lease(record));
        self.first + self.messages.len() as u64 - 1
    }

    fn read(&self, from: u64) -> Vec<(u64, SideMessage)> {
        let all = self.messages.iter().enumerate().map(|(nth, message)| (self.first + nth as u64, message.clone()));
        all.filter(|(offset, _)| *offset >= from).collect()
    }

    fn holder(&self) -> Option<u128> {
        let mut log = LeaseLog::default();
        self.read(0).iter().for_each(|(offset, message)| log.take(*offset, message));
        log.holder().map(|owner| owner.id)
    }
}

/// Carries out at once whatever a gateway wants, until it waits or ends.
fn settle(lease: &mut Lease, log: &mut Log, now_ms: u64) -> Step {
    for _ in 0..100 {
        match lease.poll(now_ms, nobody_is_gone) {
            Step::Read { from } => lease.handle_read(now_ms, Some(&log.read(from))),
            Step::Append(record) => {
                let offset = log.append(record);
                lease.handle_appended(now_ms, Some(offset));
            }
            step => return step,
        }
    }
    panic!("it never waits");
}

/// As [`settle`], over some time, a look at a time.
fn live(lease: &mut Lease, log: &mut Log, times_ms: std::ops::Range<u64>) -> Step {
    let mut step = Step::Wait(0);
    for now_ms in times_ms.step_by(100) {
        step = settle(lease, log, now_ms);
    }
    step
}

#[test]
fn the_first_gateway_has_the_lease_at_once_and_renews_it() {
    let (mut log, mut lease) = (Log::default(), Lease::new(owner(1)));
    assert_eq!(settle(&mut lease, &mut log, 1_000), Step::Wait(1_000 + RENEW_MS));
    assert_eq!(lease.valid_until_ms(), Some(1_000 + VALID_MS));
    live(&mut lease, &mut log, 1_000..31_000);
    assert_eq!(log.messages.len(), 6, "a claim and a renewal every 5 s");
    assert_eq!(lease.term(), Some(0));
}

#[test]
fn a_second_gateway_is_refused_with_the_owners_name_as_soon_as_it_sees_a_renewal() {
    let (mut log, mut first, mut second) = (Log::default(), Lease::new(owner(1)), Lease::new(owner(2)));
    settle(&mut first, &mut log, 0);
    assert!(matches!(settle(&mut second, &mut log, 4_000), Step::Wait(_)));
    live(&mut first, &mut log, 4_000..6_000);
    assert_eq!(live(&mut second, &mut log, 4_000..6_000), Step::Refused(owner(1)));
    assert_eq!(second.valid_until_ms(), None);
    assert_eq!(log.holder(), Some(1));
}

#[test]
fn a_silent_holder_is_followed_after_the_watch_and_not_before() {
    let (mut log, mut first, mut second) = (Log::default(), Lease::new(owner(1)), Lease::new(owner(2)));
    settle(&mut first, &mut log, 0);
    live(&mut second, &mut log, 100..WATCH_MS);
    assert_eq!(second.valid_until_ms(), None);
    live(&mut second, &mut log, WATCH_MS..WATCH_MS + 2_000);
    assert_eq!(log.holder(), Some(2));
    assert!(second.valid_until_ms().is_some());
    assert_eq!(settle(&mut first, &mut log, WATCH_MS + 2_000), Step::Refused(owner(2)), "and learns of it");
}

#[test]
fn a_holder_whose_process_is_gone_is_not_waited_for() {
    let (mut log, mut first, mut second) = (Log::default(), Lease::new(owner(1)), Lease::new(owner(2)));
    settle(&mut first, &mut log, 0);
    let Step::Read { from } = second.poll(100, |_| true) else { panic!() };
    second.handle_read(100, Some(&log.read(from)));
    let step = second.poll(700, |owner| owner.id == 1);
    assert_eq!(step, Step::Append(LeaseRecord::Claim { owner: owner(2), after: Some(0) }));
}

#[test]
fn a_lease_that_was_given_back_is_taken_at_once() {
    let (mut log, mut first, mut second) = (Log::default(), Lease::new(owner(1)), Lease::new(owner(2)));
    settle(&mut first, &mut log, 0);
    first.release();
    assert_eq!(first.valid_until_ms(), None, "it answers no more before it says so");
    assert_eq!(live(&mut first, &mut log, 100..2_000), Step::Released);
    settle(&mut second, &mut log, 2_000);
    assert_eq!(second.valid_until_ms(), Some(2_000 + VALID_MS));
}

#[test]
fn who_cannot_renew_is_valid_for_ten_seconds_and_again_when_it_can() {
    let (mut log, mut lease) = (Log::default(), Lease::new(owner(1)));
    settle(&mut lease, &mut log, 0);
    for now_ms in (RENEW_MS..30_000).step_by(100) {
        match lease.poll(now_ms, nobody_is_gone) {
            Step::Append(_) => lease.handle_appended(now_ms, None),
            Step::Read { .. } => lease.handle_read(now_ms, None),
            Step::Wait(_) => {}
            step => panic!("{step:?}"),
        }
        assert_eq!(lease.valid_until_ms(), Some(VALID_MS), "from when the last that counts was sent");
    }
    settle(&mut lease, &mut log, 30_000);
    live(&mut lease, &mut log, 30_000..31_000);
    assert!(lease.valid_until_ms() > Some(30_000 + VALID_MS - 1_000));
}

#[test]
fn of_two_claims_behind_one_record_the_first_counts() {
    let mut log = Log::default();
    log.append(LeaseRecord::Claim { owner: owner(1), after: None });
    log.append(LeaseRecord::Claim { owner: owner(2), after: None });
    assert_eq!(log.holder(), Some(1));
    log.append(LeaseRecord::Renewal { owner: owner(2), term: 1 });
    assert_eq!(log.holder(), Some(1), "what does not hold the lease renews nothing");
}

#[test]
fn a_log_that_was_cut_is_read_from_the_first_renewal_on() {
    let mut log = Log { first: 100, messages: Vec::new() };
    log.append(LeaseRecord::Claim { owner: owner(2), after: Some(90) });
    log.append(LeaseRecord::Renewal { owner: owner(1), term: 7 });
    log.append(LeaseRecord::Renewal { owner: owner(2), term: 100 });
    assert_eq!(log.holder(), Some(1));
}

/// A gateway with a clock of its own, whose calls take time and get lost.
struct Gateway {
    lease: Lease,
    clock_ahead_ms: u64,
    call: Option<Call>,
}

enum Call {
    Read {
        done_ms: u64,
        from: u64,
        fails: bool,
    },
    /// The record gets into the log at `lands_ms`, if at all.
    Append {
        done_ms: u64,
        fails: bool,
        landing: usize,
    },
}

struct Landing {
    at_ms: u64,
    record: LeaseRecord,
    offset: Option<u64>,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Gateways come at any time, are cut off for a while, and are started again where they are refused; calls take
    /// long, fail, and land although they seemed to fail.
    #[test]
    fn no_two_gateways_ever_hold_it_at_one_time(
        lives in proptest::collection::vec((0u64..30_000, 0u64..60_000, 0u64..40_000), 2..4),
        faults in proptest::collection::vec(
            (prop_oneof![8 => 0u64..60, 1 => 0u64..4_000], 0u8..20, 0u64..4_000),
            4_000,
        ),
    ) {
        let mut log = Log::default();
        let mut faults: VecDeque<_> = faults.into();
        let mut landings: Vec<Landing> = Vec::new();
        let mut gateways: Vec<Gateway> = (0u64..lives.len() as u64)
            .map(|id| Gateway { lease: Lease::new(owner(u128::from(id))), clock_ahead_ms: id * 7_777, call: None })
            .collect();
        let (mut was_held, mut next_id) = (0, 100);
        for now_ms in (0..120_000).step_by(50) {
            for landing in landings.iter_mut().filter(|landing| landing.at_ms <= now_ms && landing.offset.is_none()) {
                landing.offset = Some(log.append(landing.record.clone()));
            }
            for (gateway, (start_ms, cut_off_ms, for_ms)) in gateways.iter_mut().zip(&lives) {
                if now_ms < *start_ms {
                    continue;
                }
                let is_cut_off = (*cut_off_ms..cut_off_ms + for_ms).contains(&now_ms);
                let mine_ms = now_ms + gateway.clock_ahead_ms;
                match gateway.call.take() {
                    Some(Call::Read { done_ms, from, fails }) if done_ms <= now_ms => {
                        let read = log.read(from);
                        gateway.lease.handle_read(mine_ms, (!fails).then_some(&read[..]));
                    }
                    Some(Call::Append { done_ms, fails, landing }) if done_ms <= now_ms => {
                        let offset = landings.get(landing).and_then(|landing| landing.offset);
                        gateway.lease.handle_appended(mine_ms, offset.filter(|_| !fails));
                    }
                    Some(call) => gateway.call = Some(call),
                    None => {
                        let (takes_ms, dice, late_ms) = faults.pop_front().unwrap_or((10, 9, 0));
                        let done_ms = now_ms + takes_ms;
                        let dice = if is_cut_off { 0 } else { dice };
                        match gateway.lease.poll(mine_ms, nobody_is_gone) {
                            Step::Read { from } => gateway.call = Some(Call::Read { done_ms, from, fails: dice < 2 }),
                            Step::Append(record) => {
                                // Never; late, though it seemed to fail; or in time.
                                let at_ms = match dice {
                                    0 => u64::MAX,
                                    1 => done_ms + late_ms,
                                    _ => now_ms + takes_ms / 2,
                                };
                                landings.push(Landing { at_ms, record, offset: None });
                                let landing = landings.len() - 1;
                                gateway.call = Some(Call::Append { done_ms, fails: dice < 3, landing });
                            }
                            Step::Refused(_) => {
                                next_id += 1;
                                gateway.lease = Lease::new(owner(next_id));
                            }
                            Step::Wait(_) | Step::Released => {}
                        }
                    }
                }
            }
            let live = gateways.iter().filter(|gateway| {
                gateway.lease.valid_until_ms().is_some_and(|until| now_ms + gateway.clock_ahead_ms < until)
            });
            let live = live.count();
            prop_assert!(live <= 1, "{live} gateways answer groups at {now_ms} ms");
            was_held += live;
        }
        prop_assert!(was_held > 500, "the lease was hardly ever held: {was_held}");
    }
}
