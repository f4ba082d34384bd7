//! The thread that scrapes.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::tally::{Tally, When};
use super::{Choice, Failed, Url, http, text};
use crate::limits::{
    INTERVAL, SERVER_SCRAPE_BEFORE, SERVER_SCRAPE_BYTES_MAX, SERVER_SCRAPE_REASONS_MAX, SERVER_SCRAPE_TIMEOUT,
};
use crate::measure::Window;
use crate::result::{IntervalRow, ServerMetrics};

/// What is scraped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scraping {
    /// Where.
    pub url: Url,
    /// What of it is kept.
    pub choice: Choice,
}

/// Scrapes when the window begins, just before it ends, and at the end of every interval, warm-up too, until it is told to
/// finish.
pub struct Scraper {
    url: Url,
    tell: Sender<Order>,
    ended: Receiver<()>,
    diary: Arc<Mutex<Diary>>,
}

enum Order {
    /// The measured window is over, now if not before.
    End,
    /// No more.
    Finish,
}

/// What was made of scrapes so far.
#[derive(Default)]
struct Diary {
    tally: Tally,
    scrapes: u64,
    failed: BTreeMap<String, u64>,
    bytes_max: usize,
    took_max: Duration,
}

impl Scraper {
    /// Begins at once, which is before the schedule does: what its first requests do is in no scrape before the window.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(scraping: &Scraping, window: Window) -> io::Result<Scraper> {
        let (tell, orders) = mpsc::channel();
        let (ends, ended) = mpsc::channel();
        let diary = Arc::new(Mutex::new(Diary::default()));
        let before_the_end = SERVER_SCRAPE_BEFORE.min((window.end - window.measure_from) / 10);
        let last = window.end - before_the_end;
        let round = Round {
            scraping: scraping.clone(),
            over: window.end,
            window: Window { end: last, ..window },
            next: 1,
            edges: vec![last, window.measure_from],
            diary: Arc::clone(&diary),
        };
        std::thread::Builder::new().name("server-metrics".into()).spawn(move || {
            round.walk(&orders);
            // Nobody hears it who has stopped waiting.
            let _ = ends.send(());
        })?;
        Ok(Scraper { url: scraping.url.clone(), tell, ended, diary })
    }

    /// The measured window is over, if it is not already.
    pub fn window_end(&self) {
        // The thread ends only when told to.
        let _ = self.tell.send(Order::End);
    }

    /// What was found; waits for a scrape under way, but no longer than one may take.
    pub fn finish(self, rows: &[IntervalRow]) -> ServerMetrics {
        let _ = self.tell.send(Order::Finish);
        // Two may be under way: the window's last, and the one before it. Only the look-up of a host's name can take longer.
        let _ = self.ended.recv_timeout(2 * SERVER_SCRAPE_TIMEOUT);
        let diary = self.diary.lock().unwrap_or_else(PoisonError::into_inner);
        ServerMetrics {
            url: self.url.to_string(),
            scrapes: diary.scrapes,
            failed: diary.failed.clone(),
            covered_s: diary.tally.covered_s(),
            bytes_max: diary.bytes_max as u64,
            took_max_s: diary.took_max.as_secs_f64(),
            left_out: diary.tally.left_out(),
            series: diary.tally.series(rows),
        }
    }
}

/// The thread's own.
struct Round {
    scraping: Scraping,
    /// Its end is that of what is told of it.
    window: Window,
    /// When the measured window is over: what is asked for later may tell of those who leave.
    over: Instant,
    /// The interval whose end is next.
    next: u32,
    /// Ends of the window that are yet to come, the next one last.
    edges: Vec<Instant>,
    diary: Arc<Mutex<Diary>>,
}

impl Round {
    fn walk(mut self, orders: &Receiver<Order>) {
        // Without a warm-up this is the window's first.
        self.edges.pop_if(|edge| *edge == self.window.start);
        self.scrape(self.window.start, Some(0));
        loop {
            let interval = self.window.start + INTERVAL * self.next;
            let due = self.edges.last().map_or(interval, |edge| interval.min(*edge));
            match orders.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Err(RecvTimeoutError::Timeout) => {
                    self.edges.pop_if(|edge| *edge == due);
                    let ends = (due == interval).then_some(self.next);
                    self.next += u32::from(ends.is_some());
                    self.scrape(due, ends);
                    self.skip();
                }
                Ok(Order::End) => {
                    if !self.edges.is_empty() {
                        let now = Instant::now();
                        self.window.end = self.window.end.min(now);
                        self.edges.clear();
                        self.scrape(self.window.end, None);
                    }
                }
                Ok(Order::Finish) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Leaves out what fell due while a scrape took longer than an interval.
    fn skip(&mut self) {
        while self.window.start + INTERVAL * (self.next + 1) <= Instant::now() {
            self.next += 1;
            self.diary().fail(Failed("left out, for the one before took too long".into()));
        }
    }

    fn scrape(&self, due: Instant, interval: Option<u32>) {
        let asked = Instant::now();
        let measured = (self.window.measure_from..=self.window.end).contains(&due);
        if measured && asked > self.over {
            return self.diary().fail(Failed("left out, for the window was over when the one before was".into()));
        }
        let Scraping { url, choice } = &self.scraping;
        let read = http::get(url, SERVER_SCRAPE_TIMEOUT, SERVER_SCRAPE_BYTES_MAX).and_then(|body| {
            let text = std::str::from_utf8(&body).map_err(|_| Failed("the answer is no text".into()))?;
            Ok((text::read(text, choice)?, body.len()))
        });
        let mut diary = self.diary();
        match read {
            Ok((scrape, bytes)) => {
                diary.scrapes += 1;
                diary.bytes_max = diary.bytes_max.max(bytes);
                diary.took_max = diary.took_max.max(asked.elapsed());
                diary.tally.add(scrape, &When { asked, interval, measured });
            }
            Err(failed) => diary.fail(failed),
        }
    }

    fn diary(&self) -> std::sync::MutexGuard<'_, Diary> {
        self.diary.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Diary {
    fn fail(&mut self, Failed(reason): Failed) {
        let known = self.failed.len() < SERVER_SCRAPE_REASONS_MAX || self.failed.contains_key(&reason);
        let reason = if known { reason } else { "other reasons".into() };
        *self.failed.entry(reason).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn what_is_asked_for_when_the_window_is_over_is_not_of_it() {
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let scraping = Scraping { url: format!("http://{nobody}").parse().unwrap(), choice: Choice::default() };
        let began = Instant::now();
        for (over, failed) in [
            (began - Duration::from_millis(1), "left out, for the window was over when the one before was"),
            (began + Duration::from_secs(3_600), "connection refused"),
        ] {
            let round = Round {
                scraping: scraping.clone(),
                window: Window { start: began, measure_from: began, end: began },
                over,
                next: 1,
                edges: Vec::new(),
                diary: Arc::default(),
            };
            round.scrape(began, None);
            assert_eq!(round.diary().failed, BTreeMap::from([(failed.to_owned(), 1)]));
        }
    }
}
