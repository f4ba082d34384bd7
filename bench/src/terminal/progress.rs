//! On a terminal: two lines that stay in place.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::moment::Moment;
use super::paint::Paint;
use crate::engine::Stage;
use crate::result::IntervalRow;

/// How often the spinner turns.
const TICK: Duration = Duration::from_millis(100);

/// Where a run is, and what its last interval saw.
pub struct Progress {
    bar: ProgressBar,
    paint: Paint,
    title: String,
    primary: String,
    /// Warm-up and measured window together.
    length: Duration,
    /// The warm-up of the run under way.
    warmup: Duration,
    word: &'static str,
}

impl Progress {
    /// Draws on stderr.
    pub fn new(title: String, primary: String, length: Duration, paint: Paint) -> Progress {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        Progress { bar, paint, title, primary, length, warmup: Duration::ZERO, word: "" }
    }

    /// A stage begins.
    pub fn stage(&mut self, stage: Stage) {
        self.word = match stage {
            Stage::Found => "making topics and finding coordinators",
            Stage::Prepare => "connecting",
            Stage::WarmUp { .. } => "warming up",
            Stage::Measure { .. } => "measuring",
            Stage::Finish => "waiting for what is outstanding",
        };
        match stage {
            Stage::WarmUp { .. } | Stage::Measure { .. } => {
                match stage {
                    Stage::WarmUp { length } => self.warmup = length,
                    // The run that confirms what a search found is longer than those before it.
                    Stage::Measure { length } => self.length = self.warmup + length,
                    _ => {}
                }
                let (plain, painted) = ("{wide_bar}\n  {msg}", "{wide_bar:.cyan/dim}\n  {msg}");
                let bar = if self.paint.is_enabled() { painted } else { plain };
                self.bar.set_style(style(&format!("{{spinner}} {{prefix}}  {bar}")));
                self.bar.set_length(milliseconds(self.length));
                self.show_head(self.bar.position());
                if self.bar.position() == 0 {
                    self.bar.set_message("");
                }
            }
            Stage::Found | Stage::Prepare | Stage::Finish => {
                if stage == Stage::Found {
                    // A search has one run after the other.
                    self.bar.reset();
                    self.warmup = Duration::ZERO;
                }
                self.bar.set_style(style("{spinner} {prefix}  {msg} {elapsed}"));
                self.bar.set_prefix(self.paint.bold(&self.title));
                self.bar.set_message(self.word);
            }
        }
        self.bar.enable_steady_tick(TICK);
    }

    /// An interval is over.
    pub fn interval(&mut self, row: &IntervalRow) {
        let moment = Moment::of(row, &self.primary);
        let position =
            milliseconds(Duration::try_from_secs_f64(row.at_s.max(0.0)).unwrap_or(self.length).min(self.length));
        self.bar.set_position(position);
        let errors = format!("errors {}", moment.errors);
        let errors = if moment.errors > 0 { self.paint.bad(&errors) } else { errors };
        let latencies: Vec<String> = moment
            .latencies()
            .into_iter()
            .take(3)
            .map(|(name, value)| format!("{} {value:>7}", self.paint.dim(name)))
            .collect();
        self.show_head(position);
        self.bar.set_message(format!("{:>10}  {}  {errors}", moment.rate(), latencies.join("  ")));
    }

    /// Says something that stays, above the lines that stay in place.
    pub fn say(&self, text: &str) {
        self.bar.println(text);
    }

    /// Takes the lines away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn show_head(&self, position: u64) {
        let left = milliseconds(self.length).saturating_sub(position).div_ceil(1_000);
        let (at, of) = (position as f64 / 1_000.0, self.length.as_secs_f64());
        let title = self.paint.bold(&self.title);
        self.bar.set_prefix(format!("{title}  {}  {at:.0} s of {of:.0} s, {} left", self.word, span(left)));
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("a constant template that a test draws").progress_chars("━╸─")
}

fn milliseconds(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

/// `45 s`, `2 min 5 s`, `1 h 3 min`
pub fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}
