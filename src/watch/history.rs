//! The last half hour, in memory of a fixed size.

use std::collections::{HashMap, VecDeque};

use ringgate_group::Text;

use super::census::Census;
use crate::limits::{GROUP_HISTORIES_MAX, GROUP_HISTORY_STEP, HISTORY_POINTS, WATCH_STEP};

/// One moment. What is not known is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Point {
    /// Requests a second.
    pub requests: Option<f64>,
    /// Of requests that do not wait for others, in ms.
    pub p99: Option<f64>,
    /// Of all groups.
    pub lag: Option<u64>,
    /// That are open.
    pub connections: Option<u64>,
    /// The longest of all shards, in ms.
    pub loop_lag: Option<f64>,
    /// Records a second.
    pub records_in: Option<f64>,
    /// The part of a CPU that each shard uses.
    pub shard_cpu: Vec<Option<f64>>,
}

/// Points at even steps; where none was taken, as while the process was suspended, there is one that knows nothing.
#[derive(Debug, Default)]
pub struct History {
    points: VecDeque<Point>,
    last_ms: i64,
}

/// [`WATCH_STEP`] in ms.
pub const STEP_MS: i64 = WATCH_STEP.as_millis() as i64;

impl History {
    /// A point that was taken now.
    pub fn push(&mut self, at_ms: i64, point: Point) {
        if !self.points.is_empty() {
            let steps = ((at_ms - self.last_ms) + STEP_MS / 2) / STEP_MS;
            for _ in 1..steps.clamp(1, HISTORY_POINTS as i64) {
                self.put(Point::default());
            }
        }
        self.put(point);
        self.last_ms = at_ms;
    }

    fn put(&mut self, point: Point) {
        if self.points.len() == HISTORY_POINTS {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    /// When the first point was taken, in ms since the epoch.
    pub fn from_ms(&self) -> Option<i64> {
        let steps = self.points.len().checked_sub(1)?;
        Some(self.last_ms - steps as i64 * STEP_MS)
    }

    /// The points, the oldest first.
    pub fn points(&self) -> impl Iterator<Item = &Point> + Clone {
        self.points.iter()
    }
}

/// [`GROUP_HISTORY_STEP`] in ms.
pub const GROUP_STEP_MS: i64 = GROUP_HISTORY_STEP.as_millis() as i64;

/// Points of a group's history: half an hour.
pub const GROUP_POINTS: usize =
    HISTORY_POINTS * WATCH_STEP.as_millis() as usize / GROUP_HISTORY_STEP.as_millis() as usize;

/// The lags of the groups that lag the most, and of those that somebody looked at.
#[derive(Debug, Default)]
pub struct GroupHistories {
    groups: HashMap<Text, GroupHistory>,
    last_ms: Option<i64>,
}

/// The lags of one group.
#[derive(Debug, Default)]
pub struct GroupHistory {
    lags: VecDeque<Option<u64>>,
    asked_ms: i64,
}

impl GroupHistories {
    /// Takes a point of each group, when its time has come.
    pub fn push(&mut self, census: &Census) {
        if self.last_ms.is_some_and(|last| census.at_ms - last < GROUP_STEP_MS - STEP_MS / 2) {
            return;
        }
        self.last_ms = Some(census.at_ms);
        let span_ms = GROUP_STEP_MS * GROUP_POINTS as i64;
        self.groups.retain(|name, history| {
            let is_wanted = census.at_ms - history.asked_ms < span_ms || history.lags.iter().any(|lag| *lag > Some(0));
            is_wanted && census.group(name.as_str()).is_some()
        });
        for group in census.by_lag() {
            if self.groups.len() >= GROUP_HISTORIES_MAX {
                break;
            }
            if !self.groups.contains_key(&group.group) {
                self.groups.insert(group.group.clone(), GroupHistory::default());
            }
        }
        for (name, history) in &mut self.groups {
            if history.lags.len() == GROUP_POINTS {
                history.lags.pop_front();
            }
            history.lags.push_back(census.group(name.as_str()).and_then(|group| group.lag));
        }
    }

    /// When the first point of this group was taken, in ms since the epoch, and its points; they are taken from now on
    /// where there are none and there is room.
    pub fn asked(&mut self, group: &Text, now_ms: i64) -> Option<(i64, Vec<Option<u64>>)> {
        if !self.groups.contains_key(group) && self.groups.len() < GROUP_HISTORIES_MAX {
            self.groups.insert(group.clone(), GroupHistory::default());
        }
        let history = self.groups.get_mut(group)?;
        history.asked_ms = now_ms;
        let steps = history.lags.len().checked_sub(1)?;
        Some((self.last_ms? - steps as i64 * GROUP_STEP_MS, history.lags.iter().copied().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(connections: u64) -> Point {
        Point { connections: Some(connections), ..Point::default() }
    }

    #[test]
    fn the_newest_points_are_kept_and_their_beginning_is_known() {
        let mut history = History::default();
        assert_eq!(history.from_ms(), None);
        for n in 0..HISTORY_POINTS as i64 + 10 {
            history.push(n * STEP_MS, point(n as u64));
        }
        assert_eq!(history.points().count(), HISTORY_POINTS);
        assert_eq!(history.points().next(), Some(&point(10)));
        assert_eq!(history.from_ms(), Some(10 * STEP_MS));
    }

    #[test]
    fn steps_that_were_missed_know_nothing() {
        let mut history = History::default();
        history.push(0, point(1));
        history.push(3 * STEP_MS + 100, point(2));
        assert_eq!(
            history.points().cloned().collect::<Vec<_>>(),
            [point(1), Point::default(), Point::default(), point(2)]
        );
        history.push(i64::from(u32::MAX) * STEP_MS, point(3));
        assert_eq!(history.points().count(), HISTORY_POINTS);
        history.push(0, point(4));
        assert_eq!(history.points().count(), HISTORY_POINTS, "a clock that goes back adds one point");
    }
}
