//! Where offsets are to go: values, no broker.

use std::collections::BTreeMap;

use crate::offsets::ByPartition;

/// What is known of a partition before its offset is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// What is committed.
    pub current: Option<i64>,
    /// The first offset that can be read.
    pub start: i64,
    /// The next that will be written.
    pub end: i64,
}

/// Where a partition's offset is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    /// At the log's start.
    Earliest,
    /// At its end.
    Latest,
    /// There.
    Offset(i64),
    /// So far from where it is.
    Shift(i64),
    /// Where it is.
    Current,
    /// At the record that was looked up; `None` when there is none so late.
    Found(Option<i64>),
}

/// A partition whose offset is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its topic.
    pub topic: String,
    /// Its number.
    pub partition: i32,
    /// What is known of it.
    pub known: Known,
    /// The new offset.
    pub new: i64,
    /// Why it is not what was asked for.
    pub note: Option<&'static str>,
}

impl Step {
    /// How far it goes.
    pub fn delta(&self) -> Option<i64> {
        Some(self.new - self.known.current?)
    }
}

/// The new offset, within what the log has, and a note when it is not what was asked for.
///
/// # Errors
/// There is no offset to shift.
pub fn place(aim: Aim, known: Known) -> Result<(i64, Option<&'static str>), String> {
    let Known { current, start, end } = known;
    let wanted = match aim {
        Aim::Earliest => start,
        Aim::Latest => end,
        Aim::Offset(offset) => offset,
        Aim::Shift(by) => match current {
            Some(current) => current.saturating_add(by),
            None => return Err("nothing is committed that could be shifted".into()),
        },
        Aim::Current => match current {
            Some(current) => current,
            None => return Ok((end, Some("nothing is committed: the end"))),
        },
        Aim::Found(Some(offset)) => offset,
        Aim::Found(None) => return Ok((end, Some("no record is so late: the end"))),
    };
    Ok(if wanted < start {
        (start, Some("moved up to the log's start"))
    } else if wanted > end {
        (end, Some("moved back to the log's end"))
    } else {
        (wanted, None)
    })
}

/// Reads a file of offsets: lines of `TOPIC,PARTITION,OFFSET`, as Kafka's tool exports them; empty lines and those that
/// begin with `#` are no lines.
///
/// # Errors
/// The line that is none, and why.
pub fn read_offsets(text: &str) -> Result<ByPartition<i64>, String> {
    let mut all: ByPartition<i64> = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why: &str| format!("line {number}: {line:?}: {why}");
        let fields: Vec<&str> = line.split(',').map(|field| field.trim().trim_matches('"')).collect();
        let [topic, partition, offset] = fields[..] else {
            return Err(wrong("TOPIC,PARTITION,OFFSET is wanted"));
        };
        let partition: Option<i32> = partition.parse().ok().filter(|partition| *partition >= 0);
        let offset: Option<i64> = offset.parse().ok().filter(|offset| *offset >= 0);
        let (Some(partition), Some(offset)) = (partition, offset) else {
            return Err(wrong("partition and offset are whole numbers, 0 or more"));
        };
        if topic.is_empty() {
            return Err(wrong("a topic is wanted"));
        }
        if all.entry(topic.into()).or_default().insert(partition, offset).is_some() {
            return Err(wrong("the partition was there before"));
        }
    }
    if all.is_empty() { Err("no line has an offset".into()) } else { Ok(all) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Known = Known { current: Some(50), start: 10, end: 100 };

    #[test]
    fn an_offset_is_put_where_it_is_wanted_and_no_further_than_the_log_goes() {
        for (aim, new) in [
            (Aim::Earliest, 10),
            (Aim::Latest, 100),
            (Aim::Offset(70), 70),
            (Aim::Shift(-20), 30),
            (Aim::Shift(50), 100),
            (Aim::Current, 50),
            (Aim::Found(Some(42)), 42),
        ] {
            assert_eq!(place(aim, KNOWN), Ok((new, None)), "{aim:?}");
        }
        for (aim, new, says) in [
            (Aim::Offset(9), 10, "start"),
            (Aim::Offset(101), 100, "end"),
            (Aim::Shift(i64::MIN), 10, "start"),
            (Aim::Shift(i64::MAX), 100, "end"),
            (Aim::Found(None), 100, "no record"),
        ] {
            let (placed, note) = place(aim, KNOWN).expect("a place");
            assert_eq!(placed, new, "{aim:?}");
            assert!(note.is_some_and(|note| note.contains(says)), "{aim:?}: {note:?}");
        }
        // Retention has moved the log's start past what is committed.
        let behind = Known { current: Some(3), ..KNOWN };
        assert_eq!(place(Aim::Current, behind), Ok((10, Some("moved up to the log's start"))));
    }

    #[test]
    fn what_is_not_committed_cannot_be_shifted_and_is_at_the_end_otherwise() {
        let new = Known { current: None, ..KNOWN };
        assert!(place(Aim::Shift(1), new).is_err());
        assert_eq!(place(Aim::Current, new).map(|(offset, _)| offset), Ok(100));
    }

    #[test]
    fn a_file_of_offsets_is_read_and_a_wrong_line_is_named() {
        let read = read_offsets("orders,0,17\n\n# a comment\n \"orders\",1,0\npayments, 3 ,5\n").expect("offsets");
        assert_eq!(read["orders"], BTreeMap::from([(0, 17), (1, 0)]));
        assert_eq!(read["payments"], BTreeMap::from([(3, 5)]));
        for (text, says) in [
            ("", "no line"),
            ("orders,0,17\norders,0", "line 2"),
            ("orders,0,17\norders,0,18", "before"),
            ("orders,-1,17", "whole numbers"),
            ("orders,0,x", "whole numbers"),
            (",0,1", "topic"),
            ("g,orders,0,17", "TOPIC,PARTITION,OFFSET"),
        ] {
            let error = read_offsets(text).expect_err(text);
            assert!(error.contains(says), "{error}");
        }
    }
}
