//! Random pipelines against a slow model that compares every pair of requests, and against what a client
//! sees when its requests run strictly one after another.

use proptest::prelude::*;
use ringgate_group::pipeline::{Pipeline, RequestId, RequestKind};

use RequestKind::{Fetch, Heartbeat, JoinOrSync, Other, Produce, Sasl};

const MAX_REQUESTS: usize = 6;
const MAX_BYTES: usize = 400;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    Read,
    Running,
    Waiting,
    Answered,
}

struct Modelled {
    id: RequestId,
    kind: RequestKind,
    bytes: usize,
    phase: Phase,
    /// `None`: answered without a response.
    response: Option<usize>,
    left: bool,
    seen: bool,
    /// Produces that had started when this one did.
    produces_at_start: Vec<usize>,
}

/// The rules as the design words them, pair by pair.
fn lets_start(earlier: &Modelled, later: RequestKind) -> bool {
    match (earlier.kind, earlier.phase, later) {
        (_, Phase::Answered, _) => true,
        (Sasl, ..) | (.., Sasl) => false,
        (Produce, Phase::Running, Produce) => true,
        (Fetch { .. }, _, Produce) => true,
        (JoinOrSync, Phase::Waiting, Produce) => true,
        (Fetch { session: Some(a) }, Phase::Waiting, Fetch { session: Some(b) }) => a != b,
        (Fetch { .. }, Phase::Waiting, _) => true,
        _ => false,
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Read(RequestKind, usize),
    /// To the n-th of those that run.
    Wait(usize),
    /// Of the n-th of those that run or wait; with a response or none.
    Answer(usize, bool),
    /// What has been answered goes out.
    Send,
}

fn kind() -> impl Strategy<Value = RequestKind> {
    prop_oneof![
        5 => Just(Produce),
        2 => Just(Fetch { session: None }),
        4 => (0..2i32).prop_map(|session| Fetch { session: Some(session) }),
        3 => Just(JoinOrSync),
        4 => Just(Heartbeat),
        1 => Just(Sasl),
        3 => Just(Other),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (kind(), 1..200usize).prop_map(|(kind, bytes)| Step::Read(kind, bytes)),
        3 => any::<usize>().prop_map(Step::Wait),
        4 => (any::<usize>(), prop::bool::weighted(0.8)).prop_map(|(n, responds)| Step::Answer(n, responds)),
        3 => Just(Step::Send),
    ]
}

struct World {
    pipeline: Pipeline<usize>,
    requests: Vec<Modelled>,
    sent: Vec<usize>,
}

impl World {
    fn index(&self, id: RequestId) -> usize {
        self.requests.iter().position(|request| request.id == id).expect("an id that was given out")
    }

    fn started_produces(&self) -> Vec<usize> {
        let started = |at: &usize| self.requests[*at].kind == Produce && self.requests[*at].phase != Phase::Read;
        (0..self.requests.len()).filter(started).collect()
    }

    fn may_start(&self, at: usize) -> bool {
        self.requests[at].phase == Phase::Read
            && self.requests[..at].iter().all(|earlier| lets_start(earlier, self.requests[at].kind))
    }

    /// Starts what the pipeline lets start, and sees the heartbeats that it reports.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        while let Some(id) = self.pipeline.poll_start() {
            let at = self.index(id);
            prop_assert!(self.may_start(at), "{at} starts too early");
            self.requests[at].produces_at_start = self.started_produces();
            self.requests[at].phase = Phase::Running;
            if self.requests[at].kind == Produce {
                prop_assert!(self.started_produces().iter().all(|&other| other <= at), "a Produce overtook another");
            }
        }
        for at in 0..self.requests.len() {
            prop_assert!(!self.may_start(at), "{at} is held back");
        }
        while let Some(id) = self.pipeline.poll_heartbeat_seen() {
            let at = self.index(id);
            prop_assert!(!self.requests[at].seen, "{at} is seen twice");
            self.requests[at].seen = true;
            prop_assert!(self.is_heartbeat_behind_a_wait(at));
        }
        for at in 0..self.requests.len() {
            prop_assert!(self.requests[at].seen || !self.is_heartbeat_behind_a_wait(at), "{at} is not seen");
        }
        self.check_bounds()
    }

    fn is_heartbeat_behind_a_wait(&self, at: usize) -> bool {
        let heartbeat = &self.requests[at];
        heartbeat.kind == Heartbeat
            && heartbeat.phase == Phase::Read
            && self.requests[..at].iter().any(|earlier| earlier.phase == Phase::Waiting)
    }

    fn check_bounds(&self) -> Result<(), TestCaseError> {
        let in_flight = self.requests.iter().filter(|request| !request.left).count();
        let holding = self.requests.iter().filter(|r| matches!(r.phase, Phase::Read | Phase::Running));
        let bytes: usize = holding.map(|request| request.bytes).sum();
        let sasl = self.requests.iter().any(|r| r.kind == Sasl && r.phase != Phase::Answered);
        prop_assert_eq!(self.pipeline.in_flight(), in_flight);
        prop_assert_eq!(self.pipeline.bytes_in_flight(), bytes);
        prop_assert_eq!(self.pipeline.may_read(), in_flight < MAX_REQUESTS && bytes < MAX_BYTES && !sasl);
        prop_assert!(in_flight <= MAX_REQUESTS && bytes < MAX_BYTES + 200);
        Ok(())
    }

    fn read(&mut self, kind: RequestKind, bytes: usize) {
        if self.pipeline.may_read() {
            let id = self.pipeline.read(kind, bytes);
            self.requests.push(Modelled {
                id,
                kind,
                bytes,
                phase: Phase::Read,
                response: None,
                left: false,
                seen: false,
                produces_at_start: Vec::new(),
            });
        }
    }

    fn nth(&self, n: usize, is: impl Fn(&Modelled) -> bool) -> Option<usize> {
        let all: Vec<usize> = (0..self.requests.len()).filter(|&at| is(&self.requests[at])).collect();
        (!all.is_empty()).then(|| all[n % all.len()])
    }

    fn wait(&mut self, n: usize) {
        if let Some(at) = self.nth(n, |request| request.phase == Phase::Running) {
            self.pipeline.handle_waiting(self.requests[at].id);
            if matches!(self.requests[at].kind, Fetch { .. } | JoinOrSync) {
                self.requests[at].phase = Phase::Waiting;
            }
        }
    }

    fn answer(&mut self, n: usize, responds: bool) -> Result<(), TestCaseError> {
        let Some(at) = self.nth(n, |r| matches!(r.phase, Phase::Running | Phase::Waiting)) else { return Ok(()) };
        // Run one after another, a request sees the writes before it and none behind it, from its start to
        // its answer. Fetch is the exception that the rules name; parked ones touch no partition.
        if matches!(self.requests[at].kind, Other | Heartbeat | Sasl) {
            let earlier: Vec<usize> = (0..at).filter(|&earlier| self.requests[earlier].kind == Produce).collect();
            prop_assert_eq!(&self.requests[at].produces_at_start, &earlier);
            prop_assert_eq!(&self.started_produces(), &earlier);
            for &earlier in &earlier {
                prop_assert_eq!(self.requests[earlier].phase, Phase::Answered);
            }
        }
        let response = responds.then_some(at);
        self.pipeline.handle_answered(self.requests[at].id, response);
        // A second answer changes nothing.
        self.pipeline.handle_answered(self.requests[at].id, Some(usize::MAX));
        self.requests[at].phase = Phase::Answered;
        self.requests[at].response = response;
        Ok(())
    }

    fn send(&mut self) -> Result<(), TestCaseError> {
        let answered = self.requests.iter().take_while(|request| request.phase == Phase::Answered).count();
        let before = self.requests.iter().take_while(|request| request.left).count();
        let due: Vec<usize> = self.requests[before..answered].iter().filter_map(|request| request.response).collect();
        let got: Vec<usize> = std::iter::from_fn(|| self.pipeline.poll_ready()).collect();
        prop_assert_eq!(&got, &due);
        self.sent.extend(got);
        for request in &mut self.requests[..answered] {
            request.left = true;
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn a_random_pipeline_shows_what_strictly_sequential_requests_would(
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let pipeline = Pipeline::new(MAX_REQUESTS).with_max_bytes(MAX_BYTES);
        let mut world = World { pipeline, requests: Vec::new(), sent: Vec::new() };
        for step in steps {
            match step {
                Step::Read(kind, bytes) => world.read(kind, bytes),
                Step::Wait(n) => world.wait(n),
                Step::Answer(n, responds) => world.answer(n, responds)?,
                Step::Send => {
                    world.send()?;
                    world.pipeline.shrink_to_fit();
                }
            }
            world.settle()?;
        }
        // However it went, answering what runs brings everything to its end: nothing is stuck.
        for _ in 0..=MAX_REQUESTS {
            world.answer(0, true)?;
            world.settle()?;
        }
        world.send()?;
        world.settle()?;
        prop_assert!(world.requests.iter().all(|request| request.left), "something is never answered");
        let responses: Vec<usize> = world.requests.iter().filter_map(|request| request.response).collect();
        prop_assert_eq!(&world.sent, &responses);
        prop_assert!(world.pipeline.may_read());
    }

    #[test]
    fn the_end_of_a_connection_at_any_request_answers_all_before_it_and_nothing_behind(
        kinds in prop::collection::vec(prop_oneof![Just(Produce), Just(Other), Just(Fetch { session: Some(0) })], 1..16),
        end in any::<prop::sample::Index>(),
        order in any::<prop::sample::Index>(),
    ) {
        let mut pipeline: Pipeline<usize> = Pipeline::new(16);
        let ids: Vec<RequestId> = kinds.iter().map(|&kind| pipeline.read(kind, 1)).collect();
        let end = end.index(ids.len());
        let mut running: Vec<usize> = Vec::new();
        let mut closed = false;
        let mut sent = Vec::new();
        while !pipeline.should_close() {
            while let Some(id) = pipeline.poll_start() {
                let at = ids.iter().position(|&other| other == id).unwrap();
                prop_assert!(!closed || at < end, "{} starts behind the end", at);
                running.push(at);
            }
            if closed {
                running.retain(|&at| at != end);
            }
            prop_assert!(!running.is_empty(), "stuck");
            let at = running.remove(order.index(running.len()));
            if at == end {
                pipeline.handle_closing(ids[at]);
                closed = true;
                prop_assert!(!pipeline.may_read());
            } else {
                pipeline.handle_answered(ids[at], Some(at));
            }
            sent.extend(std::iter::from_fn(|| pipeline.poll_ready()));
        }
        prop_assert_eq!(sent, (0..end).collect::<Vec<_>>());
    }
}
