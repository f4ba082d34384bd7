//! What a person, or a program that reads lines, sees of a run.
//!
//! Progress goes to stderr, the result to stdout: a bar where stderr is a terminal, a line per interval elsewhere,
//! neither with `--quiet`; with `--json-lines` stdout has an event per line and nothing else. The last line of stdout is
//! the directory that was written.

mod events;
mod lines;
mod metrics;
mod moment;
mod paint;
mod progress;
mod summary;
mod table;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

pub use events::SCHEMA as EVENTS_SCHEMA;
pub use paint::{ColorChoice, Paint};
pub use progress::span;
pub use summary::summary;
pub use table::{Align, Table};

use crate::engine::{Observer, Stage};
use crate::gate::Sentence;
use crate::measure::Interval;
use crate::plan::{Common, Load};
use crate::result::{IntervalRow, Probe, RunResult, Target};
use progress::Progress;

/// An interval that is shorter, in s, and empty is not shown.
const NEWS_S: f64 = 0.1;

/// How much is shown, and to whom.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// Progress and result, for people.
    #[default]
    Full,
    /// The result alone (`--quiet`).
    Quiet,
    /// Events for programs (`--json-lines`).
    JsonLines,
}

/// What is known of a run before it begins.
#[derive(Debug, Clone)]
pub struct About {
    /// The scenario's name.
    pub scenario: &'static str,
    /// Its primary operation.
    pub primary: &'static str,
    /// What is loaded.
    pub target: Target,
    /// Length of the warm-up.
    pub warmup: Duration,
    /// Length of the measured window.
    pub duration: Duration,
    /// Requests per second of an open loop.
    pub offered_rate: Option<f64>,
}

impl About {
    /// Of a scenario (its `NAME` and `PRIMARY`) and what all scenarios have.
    pub fn new(scenario: &'static str, primary: &'static str, common: &Common) -> About {
        About {
            scenario,
            primary,
            target: Target {
                bootstrap: common.bootstrap.join(","),
                name: common.name.clone(),
                about: Default::default(),
            },
            warmup: common.warmup,
            duration: common.duration,
            offered_rate: match common.load {
                Load::Open { rate, .. } => Some(rate),
                Load::Closed | Load::Own => None,
            },
        }
    }
}

/// Shows a run while it goes on and when it is over.
pub struct Terminal<O = io::Stdout, E = io::Stderr> {
    out: O,
    out_paint: Paint,
    err: E,
    mode: Mode,
    primary: String,
    progress: Option<Progress>,
}

impl Terminal {
    /// On this process's stdout and stderr.
    pub fn new(mode: Mode, color: ColorChoice, about: &About) -> Terminal {
        let (out, err) = (io::stdout(), io::stderr());
        let bar = mode == Mode::Full && err.is_terminal();
        let progress = bar.then(|| {
            let title = format!("{} on {}", about.scenario, about.target.name);
            let length = about.warmup + about.duration;
            Progress::new(title, about.primary.to_owned(), length, Paint::of(color, &err))
        });
        let out_paint = Paint::of(color, &out);
        Terminal::to(out, out_paint, err, mode, about, progress)
    }
}

impl<O: Write, E: Write> Terminal<O, E> {
    fn to(out: O, out_paint: Paint, err: E, mode: Mode, about: &About, progress: Option<Progress>) -> Terminal<O, E> {
        let mut terminal = Terminal { out, out_paint, err, mode, primary: about.primary.to_owned(), progress };
        if mode == Mode::JsonLines {
            terminal.event(events::started(about));
        } else if mode == Mode::Full && terminal.progress.is_none() {
            terminal.line(&format!("{} on {}", about.scenario, about.target.shown()));
        }
        terminal
    }

    /// What the server said of itself, for who asks for it; programs have it in the result.
    pub fn server_metrics(&mut self, result: &RunResult) {
        if let (Some(metrics), Mode::Full | Mode::Quiet) = (&result.server_metrics, self.mode) {
            self.result(&format!("\n{}", metrics::page(metrics)));
        }
    }

    /// What the gate says of the run.
    pub fn judged(&mut self, sentence: &Sentence) {
        let Sentence { assertions, baseline } = sentence;
        if self.mode == Mode::JsonLines {
            for judged in assertions {
                self.event(events::judged(judged));
            }
            if let Some(rows) = baseline {
                self.event(events::baseline(rows));
            }
            return;
        }
        let paint = self.out_paint;
        let verdict = |held: bool, text: &str| if held { paint.good(text) } else { paint.bad(text) };
        let mut page = String::new();
        for judged in assertions {
            page.push_str(&format!("\n{}", verdict(judged.held, &judged.to_string())));
        }
        match baseline {
            Some(Ok(rows)) => {
                let word = if rows.held() { "no worse than the baseline" } else { "REGRESSED against the baseline" };
                page.push_str(&format!("\n{}\n{rows}", verdict(rows.held(), word)));
            }
            Some(Err(difference)) => page.push_str(&format!("\n{}", paint.bad(&difference.to_string()))),
            None => {}
        }
        if !page.is_empty() {
            self.result(page.trim_end());
        }
    }

    /// The files are written: the last line.
    pub fn written(&mut self, directory: &Path) {
        let directory = directory.display().to_string();
        if self.mode == Mode::JsonLines {
            self.event(events::written(&directory));
        } else {
            self.result(&format!("\n{directory}"));
        }
    }

    /// A line of progress.
    fn line(&mut self, text: &str) {
        // A reader that went away does not end a run.
        let _ = writeln!(self.err, "{text}");
    }

    fn event(&mut self, event: serde_json::Value) {
        let _ = writeln!(self.out, "{event}");
        let _ = self.out.flush();
    }

    fn result(&mut self, text: &str) {
        let _ = writeln!(self.out, "{text}");
        let _ = self.out.flush();
    }
}

impl<O: Write, E: Write> Observer for Terminal<O, E> {
    fn stage(&mut self, stage: Stage) {
        match (self.mode, &mut self.progress) {
            (Mode::JsonLines, _) => self.event(events::stage(stage)),
            (Mode::Quiet, _) => {}
            (Mode::Full, Some(progress)) => progress.stage(stage),
            (Mode::Full, None) => self.line(&lines::stage(stage)),
        }
    }

    fn interval(&mut self, row: &IntervalRow, _merged: &Interval) {
        // The moment between the last interval and the end is no news to a person.
        let is_news = row.length_s >= NEWS_S || !row.latencies.is_empty() || row.errors > 0;
        if self.mode == Mode::Full && !is_news {
            return;
        }
        match (self.mode, &mut self.progress) {
            (Mode::JsonLines, _) => self.event(events::interval(row)),
            (Mode::Quiet, _) => {}
            (Mode::Full, Some(progress)) => progress.interval(row),
            (Mode::Full, None) => {
                let line = lines::interval(row, &self.primary);
                self.line(&line);
            }
        }
    }

    fn finished(&mut self, result: &RunResult) {
        if let Some(progress) = self.progress.take() {
            progress.clear();
        }
        if self.mode == Mode::JsonLines {
            self.event(events::finished(result));
        } else {
            let page = summary(result, self.out_paint);
            self.result(&format!("\n{}", page.trim_end()));
        }
    }

    fn probe(&mut self, probe: &Probe) {
        match (self.mode, &self.progress) {
            (Mode::JsonLines, _) => self.event(events::probe(probe)),
            (Mode::Quiet, _) => {}
            (Mode::Full, Some(progress)) => progress.say(&lines::probe(probe)),
            (Mode::Full, None) => self.line(&lines::probe(probe)),
        }
    }
}

impl<O, E> Drop for Terminal<O, E> {
    fn drop(&mut self) {
        // A run that failed leaves no half bar behind.
        if let Some(progress) = &self.progress {
            progress.clear();
        }
    }
}
