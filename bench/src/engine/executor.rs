//! What one executor does in a run.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::mpsc::Sender;
use std::time::Instant;

use ringgate_runtime::{sleep_until, spawn_as};

use super::orders::Take;
use super::race::unless_told;
use super::usage::{Mark, Usage};
use crate::limits::INTERVAL;
use crate::measure::{Interval, Recorder, Window};
use crate::plan::Common;
use crate::random::derive;
use crate::scenario::{Aborted, Findings, Scenario, Seat, SetupError};
use crate::stop::Stop;

/// What the main thread is told.
pub enum Told<T> {
    /// By executor 0.
    Founded(Result<T, SetupError>),
    /// By each.
    Prepared(Result<(), SetupError>),
    /// Once a second by each, in order; the number is of the second since the schedule's start.
    Interval(u32, Interval),
    /// By each, when it sends no more.
    Driven(Driven),
    /// By each, at last: what it found, and the interval under way.
    Finished(Findings, u32, Interval, Instant),
    /// By whoever wants the run to end.
    Interrupted,
}

/// How an executor's part of the load ended.
pub struct Driven {
    /// As the scenario has it.
    pub ended: Result<(), Aborted>,
    /// When; a run that was told to stop ended then.
    pub at: Instant,
    /// What the executor used since the measured window began, if it began and the kernel tells.
    pub usage: Option<Usage>,
}

/// What an executor is given.
pub struct Part<S: Scenario> {
    pub executor: u16,
    pub executors: u16,
    pub polls: bool,
    pub common: Common,
    pub plan: S::Plan,
    /// The server's process, when it is sampled.
    pub server_pid: Option<u32>,
    /// Name of the primary operation's response times.
    pub primary_rt: &'static str,
    pub tell: Sender<Told<S::Shared>>,
    pub shared: Take<S::Shared>,
    pub window: Take<Window>,
    pub stop: Take<()>,
}

/// Does it; whatever happens ends with the stop or with [`Told::Finished`].
pub async fn work<S: Scenario>(part: Part<S>) {
    let Part { executor, executors, polls, common, plan, server_pid, primary_rt, tell, shared, window, stop } = part;
    let (recorder, primary_rt) = Recorder::of(primary_rt);
    let seat = Seat {
        executor,
        executors,
        server_pid,
        polls,
        seed: derive(common.seed, executor.into()),
        primary_rt,
        common: Rc::new(common),
        recorder,
        stop: Stop::new(),
    };
    let stopper = {
        let (told, recorder) = (seat.stop.clone(), seat.recorder.clone());
        spawn_as("stop", async move {
            stop.take().await;
            recorder.end(Instant::now());
            told.tell();
        })
    };
    run_part::<S>(&seat, &plan, &tell, &shared, &window).await;
    stopper.cancel().await;
}

async fn run_part<S: Scenario>(
    seat: &Seat,
    plan: &S::Plan,
    sender: &Sender<Told<S::Shared>>,
    shared: &Take<S::Shared>,
    window: &Take<Window>,
) {
    // The main thread hears until all have ended.
    let tell = |told| drop(sender.send(told));
    if seat.executor == 0 {
        match unless_told(&seat.stop, S::found(plan, seat)).await {
            Some(founded) => tell(Told::Founded(founded)),
            None => return,
        }
    }
    let Some(shared) = unless_told(&seat.stop, shared.take()).await else { return };
    let mut scenario = match unless_told(&seat.stop, S::prepare(plan, &shared, seat)).await {
        Some(Ok(scenario)) => {
            tell(Told::Prepared(Ok(())));
            scenario
        }
        Some(Err(error)) => return tell(Told::Prepared(Err(error))),
        None => return,
    };
    let Some(window) = unless_told(&seat.stop, window.take()).await else { return };
    seat.recorder.begin(window);

    let next = Rc::new(Cell::new(0));
    let sampler = spawn_as("sampler", sample(window, seat.recorder.clone(), next.clone(), sender.clone()));
    let at_begin = Rc::new(Cell::new(None));
    let usage = spawn_as("usage", {
        let at_begin = at_begin.clone();
        async move {
            sleep_until(window.measure_from).await;
            at_begin.set(Mark::now().ok());
        }
    });
    let ended = match unless_told(&seat.stop, sleep_until(window.start)).await {
        Some(()) => scenario.drive(seat, window).await,
        None => Ok(()),
    };
    let now = Instant::now();
    if ended.is_err() || seat.stop.is_told() {
        seat.recorder.end(now);
    }
    // A stop may have been heard long before: requests that are out are waited for.
    let at = seat.recorder.ends().map_or(now, |end| end.min(now));
    usage.cancel().await;
    let usage = at_begin.get().and_then(|begin: Mark| begin.used().ok());
    tell(Told::Driven(Driven { ended, at, usage }));
    let findings = scenario.finish(seat).await;
    sampler.cancel().await;
    tell(Told::Finished(findings, next.get(), seat.recorder.take(), Instant::now()));
}

/// Hands over what was recorded, once a second.
async fn sample<T>(window: Window, recorder: Recorder, next: Rc<Cell<u32>>, tell: Sender<Told<T>>) {
    loop {
        sleep_until(window.start + INTERVAL * (next.get() + 1)).await;
        // The main thread hears until all have ended.
        let _ = tell.send(Told::Interval(next.get(), recorder.take()));
        next.set(next.get() + 1);
    }
}
