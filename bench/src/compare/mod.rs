//! Two targets under the same load: alternating runs, paired ratios, and no winner inside the noise.
//!
//! [`conduct`] makes the runs: pairs of A and A for the noise floor, then pairs of A and B, each run in a process of its
//! own with the user's hooks around it. [`judge()`] says what may be said of them, [`page`] shows it. What must stay
//! true: nobody is named better where the interval spans 1 or reaches into what A does against itself, where runs were invalid
//! or pairs too few.

mod child;
mod conduct;
mod hook;
mod judge;
mod model;
mod plan;
mod reach;
mod table;

pub use conduct::{Compared, Failed, Turn, Watcher, conduct};
pub use judge::{CONFIDENCE, EFFECT_MIN, PAIRS_MIN, judge};
pub use model::{Better, ComparedMetric, ComparedRun, Comparison, Outcome, Purpose, SCHEMA, Side, Which};
pub use plan::{Order, Plan, Target};
pub use reach::Sign;
pub(crate) use table::is_shown;
pub use table::{page, side_by_side};
