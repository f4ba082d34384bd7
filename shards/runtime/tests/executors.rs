//! Executors: where they run, how they end, what is refused, what the guard sees.

mod common;

use std::cell::{Cell, RefCell};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use common::{PATIENCE, on_a_shard, on_shards, unpinned};
use ringgate_runtime::{
    Config, Executors, Placement, TimedOut, allowed_cpus, notifier, now, sleep, sleep_until, spawn, timeout, yield_now,
};

#[test]
fn each_shard_runs_on_its_cpu() {
    let cpus = allowed_cpus().expect("an affinity mask");
    assert!(!cpus.is_empty());
    let config = Config {
        shards: u16::try_from(cpus.len()).expect("not that many"),
        placement: Placement::Cpus(cpus.clone()),
        spin: Duration::ZERO,
    };
    let mut executors = Executors::start(&config).expect("executors");
    executors.run(|shard| {
        let cpu = cpus[usize::from(shard)];
        move || async move { assert_eq!(allowed_cpus().expect("an affinity mask"), [cpu]) }
    });
    executors.join();
}

#[test]
fn what_cannot_be_had_is_refused_with_the_reason() {
    let refusal = |shards, placement| {
        let config = Config { shards, placement, spin: Duration::ZERO };
        Executors::start(&config).err().expect("a refusal").to_string()
    };
    assert!(refusal(0, Placement::Unpinned).contains("at least one"));
    let cpu = allowed_cpus().expect("an affinity mask")[0];
    assert!(refusal(2, Placement::Cpus(vec![cpu])).contains("2 shards on 1 CPUs"));
    assert!(refusal(1, Placement::Cpus(vec![9999])).contains("CPU 9999 is not among"));
}

#[test]
fn executors_end_though_they_were_given_nothing_to_run() {
    Executors::start(&unpinned(2)).expect("executors").join();
}

#[test]
fn many_tasks_run_and_hand_each_other_values() {
    on_shards(2, |shard| {
        move || async move {
            let sum = Rc::new(Cell::new(0u64));
            let mut tasks = Vec::new();
            for nth in 0..20_000u64 {
                let (sender, receiver) = futures_channel::oneshot::channel();
                let sum = sum.clone();
                tasks.push(spawn(async move {
                    let value: u64 = receiver.await.expect("a value");
                    sum.set(sum.get() + value);
                    value
                }));
                spawn(async move {
                    if nth % 16 == 0 {
                        yield_now().await;
                    }
                    sender.send(nth + u64::from(shard)).expect("a task that waits");
                })
                .detach();
            }
            let mut awaited = 0;
            for task in tasks {
                awaited += task.await;
            }
            assert_eq!(awaited, 19_999 * 20_000 / 2 + 20_000 * u64::from(shard));
            assert_eq!(sum.get(), awaited);
        }
    });
}

#[test]
fn a_task_that_is_cancelled_or_dropped_runs_no_further_and_drops_what_it_held() {
    on_a_shard(|| async {
        for detach in [false, true] {
            let held = Rc::new(());
            let task = spawn({
                let held = held.clone();
                async move {
                    std::future::pending::<()>().await;
                    drop(held);
                }
            });
            yield_now().await;
            assert_eq!(Rc::strong_count(&held), 2);
            if detach {
                drop(task);
                yield_now().await;
                yield_now().await;
            } else {
                assert!(task.cancel().await.is_none());
            }
            assert_eq!(Rc::strong_count(&held), 1);
        }
    });
}

#[test]
fn a_yield_lets_every_ready_task_run_first() {
    on_a_shard(|| async {
        let ran = Rc::new(RefCell::new(Vec::new()));
        for nth in 0..10 {
            let ran = ran.clone();
            spawn(async move { ran.borrow_mut().push(nth) }).detach();
        }
        yield_now().await;
        assert_eq!(*ran.borrow(), (0..10).collect::<Vec<_>>());
    });
}

#[test]
fn time_passes_and_a_deadline_drops_what_it_bounds() {
    on_a_shard(|| async {
        let began = now();
        sleep(Duration::from_millis(20)).await;
        assert!(began.elapsed() >= Duration::from_millis(20));
        let until = now() + Duration::from_millis(20);
        sleep_until(until).await;
        assert!(now() >= until);
        sleep_until(began).await;

        assert_eq!(timeout(Duration::ZERO, async { 3 }).await, Ok(3));
        let held = Rc::new(());
        let waits = {
            let held = held.clone();
            async move {
                std::future::pending::<()>().await;
                drop(held);
            }
        };
        assert_eq!(timeout(Duration::from_millis(5), waits).await, Err(TimedOut));
        assert_eq!(Rc::strong_count(&held), 1);
    });
}

#[test]
fn an_idle_shard_is_poked_ever_more_rarely() {
    let began = Instant::now();
    let mut executors = Executors::start(&unpinned(1)).expect("an executor");
    let (end, may_end) = notifier();
    let mut main = Some(move || async move { may_end.notified().await });
    executors.run(|_| main.take().expect("one shard"));
    let stats = executors.guard().stats()[0].clone();
    std::thread::sleep(Duration::from_secs(2));
    // The guard may come late, too.
    eventually("it is poked", || stats.pokes() >= 5);
    let (pokes, took) = (stats.pokes(), began.elapsed());
    end.notify();
    executors.join();
    // Periods of 2 ms would make 500 a second, of 100 ms 10 behind the few shorter ones.
    assert!(pokes < 50 * took.as_secs(), "{pokes} pokes in {took:?}");
}

#[test]
fn a_shard_that_is_held_up_shows_as_a_stall_while_it_lasts() {
    // What else holds the shard up counts, too, and is rare; that one stall counts twice would show every time.
    assert!((0..5).any(|_| stalls_of_a_shard_that_is_held_up() == 1), "one stall is counted once");
}

/// Holds a shard up until that is seen, and lets it go on until that is seen; the stalls that were counted.
fn stalls_of_a_shard_that_is_held_up() -> u64 {
    let mut executors = Executors::start(&unpinned(1)).expect("an executor");
    let (blocked, is_blocked) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (end, may_end) = notifier();
    let mut main = Some(move || async move {
        sleep(Duration::from_millis(20)).await;
        blocked.send(()).expect("a test that waits");
        // What nobody may do on a shard.
        released.recv_timeout(PATIENCE).expect("a test that goes on");
        timeout(PATIENCE, may_end.notified()).await.expect("a test that goes on");
    });
    executors.run(|_| main.take().expect("one shard"));
    let stats = executors.guard().stats()[0].clone();
    is_blocked.recv_timeout(PATIENCE).expect("a shard that runs");
    eventually("a stall is seen", || stats.stalls() > 0 && stats.lag_us() >= 250_000);
    // Long enough for the guard to look again and again.
    std::thread::sleep(Duration::from_millis(300));
    assert!(stats.lag_us() >= 500_000, "{} us", stats.lag_us());
    release.send(()).expect("a shard that waits");
    eventually("the shard answers soon again", || stats.lag_us() < 250_000);
    end.notify();
    executors.join();
    stats.stalls()
}

fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    let began = Instant::now();
    while !look() {
        assert!(began.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs a test of this file that is meant for it in a process of its own.
fn in_a_child(test: &str) -> std::process::Output {
    let this = std::env::current_exe().expect("a test binary");
    Command::new(this).args(["--exact", test, "--ignored", "--nocapture"]).output().expect("a child")
}

#[test]
fn a_panic_on_a_shard_takes_the_process_down_loudly() {
    for (test, said) in [
        ("child::a_main_future_panics", "a shard panicked in thread shard-1"),
        ("child::a_detached_task_panics", "a task panicked in thread shard-0"),
    ] {
        let output = in_a_child(test);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{test}: {stderr}");
        assert!(stderr.contains("on purpose") && stderr.contains(said), "{test}: {stderr}");
    }
}

#[test]
fn a_panic_that_is_caught_on_the_shard_stays_there() {
    let output = in_a_child("child::a_panic_is_caught");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn too_little_locked_memory_is_refused_with_the_fix() {
    let output = in_a_child("child::locked_memory_is_scarce");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

mod child {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    #[ignore = "run in a process of its own"]
    fn a_main_future_panics() {
        on_shards(2, |shard| {
            move || async move {
                if shard == 1 {
                    sleep(Duration::from_millis(5)).await;
                    panic!("on purpose");
                }
                std::future::pending::<()>().await;
            }
        });
    }

    #[test]
    #[ignore = "run in a process of its own"]
    fn a_detached_task_panics() {
        on_shards(2, |shard| {
            move || async move {
                if shard == 0 {
                    spawn(async { panic!("on purpose") }).detach();
                }
                std::future::pending::<()>().await;
            }
        });
    }

    #[test]
    #[ignore = "run in a process of its own"]
    fn a_panic_is_caught() {
        on_a_shard(|| async {
            let task = spawn(async {
                // It holds another task, which goes with it.
                let inner = spawn(std::future::pending::<()>());
                let mut panics = std::pin::pin!(async move {
                    yield_now().await;
                    let _inner = inner;
                    panic!("on purpose")
                });
                std::future::poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| panics.as_mut().poll(cx))) {
                    Ok(poll) => poll.map(|()| "ended"),
                    Err(_) => std::task::Poll::Ready("caught"),
                })
                .await
            });
            assert_eq!(task.await, "caught");
            assert_eq!(spawn(async { 5 }).await, 5);
        });
    }

    #[test]
    #[ignore = "run in a process of its own"]
    fn locked_memory_is_scarce() {
        let limit = libc::rlimit { rlim_cur: 64 << 10, rlim_max: 64 << 10 };
        // SAFETY: `limit` is readable memory of the right type.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) }, 0);
        let refusal = Executors::start(&unpinned(1)).err().expect("a refusal").to_string();
        assert!(refusal.contains("65536 bytes") && refusal.contains("ulimit -l"), "{refusal}");
    }
}
