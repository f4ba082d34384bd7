//! Between threads: no wake-up is lost, none is left over, and blocking work always has an end.

mod common;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use common::{PATIENCE, on_a_shard, on_shards};
use ringgate_runtime::{
    FileThreads, Notified, Notifier, Placement, notifier, oneshot, sleep, spawn, time_wake_pairs, timeout, yield_now,
};

#[test]
fn no_notification_is_lost_between_many_threads_and_a_shard() {
    const THREADS: u64 = 4;
    const EACH: u64 = 20_000;
    let count = Arc::new(AtomicU64::new(0));
    let (notifier, notified) = notifier();
    let threads: Vec<_> = (0..THREADS)
        .map(|nth| {
            let (count, notifier) = (count.clone(), notifier.clone());
            std::thread::spawn(move || {
                for at in 0..EACH {
                    count.fetch_add(1, Ordering::Relaxed);
                    notifier.notify();
                    if at % (7 + nth) == 0 {
                        // Gives the shard time to fall asleep, at every stage of doing so.
                        std::thread::sleep(Duration::from_micros(at % 60));
                    }
                }
            })
        })
        .collect();
    on_a_shard(move || async move {
        let mut looks = 0;
        // The last notification came after the last count: whoever takes it sees the whole.
        while count.load(Ordering::Relaxed) < THREADS * EACH {
            timeout(PATIENCE, notified.notified()).await.expect("a notification while there is more to come");
            looks += 1;
        }
        assert!(looks <= THREADS * EACH);
    });
    for thread in threads {
        thread.join().expect("a notifying thread");
    }
}

#[test]
fn a_shard_and_a_thread_wake_each_other_in_turn() {
    let (to_shard, notified) = notifier();
    let (to_thread, woken) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        for nth in 0..5000u32 {
            to_shard.notify();
            assert_eq!(woken.recv_timeout(PATIENCE), Ok(nth), "the shard has not woken");
        }
    });
    on_a_shard(move || async move {
        for nth in 0..5000u32 {
            notified.notified().await;
            to_thread.send(nth).expect("a thread that waits");
        }
    });
    thread.join().expect("a thread that was always answered");
}

#[test]
fn two_shards_wake_each_other_in_turn() {
    const TURNS: u64 = 20_000;
    let turn = Arc::new(AtomicU64::new(0));
    let (wake_0, at_0) = notifier();
    let (wake_1, at_1) = notifier();
    let mut halves: Vec<(Notifier, Notified)> = vec![(wake_1, at_0), (wake_0, at_1)];
    on_shards(2, |shard| {
        let turn = turn.clone();
        let (other, own) = halves.remove(0);
        move || async move {
            loop {
                let now = turn.load(Ordering::Acquire);
                if now >= TURNS {
                    break;
                }
                if now % 2 == u64::from(shard) {
                    turn.store(now + 1, Ordering::Release);
                    other.notify();
                } else {
                    timeout(PATIENCE, own.notified()).await.expect("the other shard's turn ends");
                }
            }
            other.notify();
        }
    });
    assert_eq!(turn.load(Ordering::Relaxed), TURNS);
}

#[test]
fn a_wait_that_is_dropped_leaves_the_notification_to_the_next() {
    let (notifier, notified) = notifier();
    on_a_shard(move || async move {
        for round in 0..300u64 {
            let thread = std::thread::spawn({
                let notifier = notifier.clone();
                move || {
                    std::thread::sleep(Duration::from_micros(round));
                    notifier.notify();
                }
            });
            if timeout(Duration::from_micros(150), notified.notified()).await.is_err() {
                timeout(PATIENCE, notified.notified()).await.expect("the notification was kept");
            }
            assert!(timeout(Duration::ZERO, notified.notified()).await.is_err(), "there was only one");
            thread.join().expect("a notifying thread");
        }
    });
}

#[test]
fn blocking_work_comes_back_to_the_task_that_asked() {
    on_a_shard(|| async {
        let files = FileThreads::start(3).expect("threads");
        let tasks: Vec<_> = (0..2000u64)
            .map(|nth| {
                let files = files.clone();
                spawn(async move { files.run(move || nth * nth).await.expect("work that does not panic") })
            })
            .collect();
        for (nth, task) in (0u64..).zip(tasks) {
            assert_eq!(task.await, nth * nth);
        }
        // Three that wait for each other: no thread does two of them.
        let meeting = Arc::new(Barrier::new(3));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let meeting = meeting.clone();
                files.run(move || {
                    meeting.wait();
                    std::thread::current().name().map(str::to_owned)
                })
            })
            .collect();
        let names = timeout(PATIENCE, futures_util::future::join_all(threads)).await.expect("three threads");
        let names: HashSet<_> = names.into_iter().flatten().collect();
        assert_eq!(names.len(), 3, "{names:?}");
    });
}

#[test]
fn blocking_work_that_panics_is_an_error_and_its_thread_goes_on() {
    on_a_shard(|| async {
        let files = FileThreads::start(1).expect("a thread");
        for nth in 0..3 {
            let panicked = files
                .run(move || {
                    if nth < 3 {
                        panic!("on purpose, {nth}")
                    }
                })
                .await
                .expect_err("it panicked");
            assert_eq!(panicked.0, format!("on purpose, {nth}"));
        }
        assert_eq!(files.run(|| 5).await.expect("the thread is still there"), 5);
    });
}

#[test]
fn blocking_work_is_done_though_nobody_waits_for_it() {
    on_a_shard(|| async {
        let files = FileThreads::start(1).expect("a thread");
        let (done, is_done) = mpsc::channel();
        drop(files.run(move || done.send(7)));
        // The same thread: behind the first.
        files.run(|| ()).await.expect("work that does not panic");
        assert_eq!(is_done.try_recv(), Ok(7));
        assert_eq!(files.queued(), 0);
    });
}

#[test]
fn file_threads_end_with_their_last_handle_and_do_what_was_asked_before() {
    /// Tells when its thread ends.
    struct Ends(mpsc::Sender<&'static str>);
    impl Drop for Ends {
        fn drop(&mut self) {
            let _ = self.0.send("ended");
        }
    }
    thread_local!(static ENDS: std::cell::RefCell<Option<Ends>> = const { std::cell::RefCell::new(None) });
    let (tell, told) = mpsc::channel();
    on_a_shard(move || async move {
        let files = FileThreads::start(1).expect("a thread");
        let again = files.clone();
        drop(files);
        let ends = Ends(tell.clone());
        again.run(move || ENDS.set(Some(ends))).await.expect("work that does not panic");
        drop(again.run(move || tell.send("done")));
        drop(again);
    });
    assert_eq!([(); 2].map(|()| told.recv_timeout(PATIENCE).expect("within the time")), ["done", "ended"]);
}

#[test]
fn tasks_may_end_at_the_moment_that_another_thread_wakes_them() {
    on_a_shard(|| async {
        let files = FileThreads::start(2).expect("threads");
        for round in 0..3000u64 {
            let work = files.run(move || (0..round % 400).fold(round, |a, b| std::hint::black_box(a ^ b)));
            let task = spawn(async move { timeout(Duration::from_micros(5), work).await.is_ok() });
            if round % 3 == 0 {
                yield_now().await;
                task.cancel().await;
            } else {
                task.await;
            }
        }
        // Whatever was on its way finds nobody, and the shard is well.
        sleep(Duration::from_millis(1)).await;
        assert_eq!(files.run(|| 1).await.expect("work that does not panic"), 1);
    });
}

#[test]
fn a_oneshot_brings_its_value_or_the_news_that_there_will_be_none() {
    on_a_shard(|| async {
        for send in [true, false] {
            let (sender, receiver) = oneshot();
            let thread = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(5));
                if send {
                    sender.send(9).expect("a task that waits");
                }
            });
            let received = timeout(PATIENCE, receiver).await.expect("an end");
            assert_eq!(received.ok(), send.then_some(9));
            thread.join().expect("a sending thread");
        }
        let (sender, receiver) = oneshot();
        drop(receiver);
        assert!(sender.is_closed());
        assert_eq!(sender.send(1), Err(1));
    });
}

#[test]
fn wake_pairs_are_as_many_as_asked_for_or_as_fit_in_the_time() {
    let minute = Duration::from_secs(60);
    let all = time_wake_pairs(Placement::Unpinned, Duration::ZERO, 50, minute).unwrap();
    assert_eq!(all.len(), 50);
    assert!(all.iter().all(|taken| !taken.is_zero()));
    let none_left = time_wake_pairs(Placement::Unpinned, Duration::ZERO, 50, Duration::ZERO).unwrap();
    assert_eq!(none_left.len(), 1, "one is always taken");
}
