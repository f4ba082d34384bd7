//! Records that are told apart, and the account of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use krafka::{ConsumerRecord, Headers};

use crate::day::{Outcome, check, equal, eventually};

/// What a producer gives and a consumer must give back.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    pub headers: Headers,
}

impl Sent {
    /// The record for krafka.
    pub fn to(&self, topic: &str) -> krafka::Record {
        let mut record = krafka::Record::new(topic, self.value.clone().unwrap_or_default());
        if self.value.is_none() {
            record = record.without_value();
        }
        if let Some(key) = &self.key {
            record = record.key(key.clone());
        }
        for (name, value) in &self.headers {
            record = match value {
                Some(value) => record.header(name, value.clone()),
                None => record.null_header(name),
            };
        }
        record
    }
}

/// Records with all that is odd about keys, values and headers. They differ where they can.
pub fn records(label: &str, count: usize) -> Vec<Sent> {
    let header = |name: &str, value: &[u8]| (name.to_owned(), Some(Bytes::copy_from_slice(value)));
    (0..count)
        .map(|n| {
            let mut value = format!("{label}-{n}-").into_bytes();
            value.extend(0..(n % 256) as u8);
            let mut record = Sent {
                key: Some(format!("{label}-key-{n}").into()),
                value: Some(value.into()),
                headers: vec![header("n", n.to_string().as_bytes()), header("label", label.as_bytes())],
            };
            match n % 10 {
                1 => record.key = None,
                2 => record.value = Some(Bytes::new()),
                3 => record.value = None,
                4 => {
                    record.headers = vec![
                        header("again", b"1"),
                        header("other", &[0, 255]),
                        header("again", b"2"),
                        header("again", b"1"),
                    ];
                }
                5 => record.key = Some(Bytes::new()),
                6 => record.headers.clear(),
                7 => record.headers = vec![header("empty", b""), header("ключ", "значение".as_bytes())],
                8 => record.headers = vec![("null".to_owned(), None)],
                _ => {}
            }
            record
        })
        .collect()
}

/// Where a record is: partition and offset.
pub type Place = (i32, i64);

/// What was acknowledged on a topic.
#[derive(Default)]
pub struct Account {
    pub sent: BTreeMap<Place, Sent>,
}

impl Account {
    pub fn acknowledge(&mut self, place: Place, record: Sent) -> Outcome {
        check!(place.1 >= 0, "acknowledged without an offset: {record:?}");
        check!(!self.sent.contains_key(&place), "{place:?} was given twice");
        self.sent.insert(place, record);
        Ok(())
    }

    /// The next offset of each partition.
    pub fn ends(&self) -> BTreeMap<i32, i64> {
        self.sent.keys().map(|(partition, offset)| (*partition, offset + 1)).collect()
    }
}

/// What consumers read of a topic: everything must come once, in order, as it was sent. Members add from tasks of
/// their own; what is wrong is said by the step that waits for the reading.
#[derive(Clone, Default)]
pub struct Reading(Arc<Mutex<Read>>);

#[derive(Default)]
struct Read {
    seen: BTreeMap<Place, Sent>,
    /// The last offset that a member read of a partition.
    last: BTreeMap<(String, i32), i64>,
    wrong: Vec<String>,
}

impl Reading {
    fn read(&self) -> MutexGuard<'_, Read> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, reader: &str, got: ConsumerRecord) {
        let mut read = self.read();
        let place = (got.partition, got.offset);
        if read.last.insert((reader.to_owned(), got.partition), got.offset).is_some_and(|last| last >= got.offset) {
            read.wrong.push(format!("{place:?} was read out of order"));
        }
        let record = Sent { key: got.key, value: got.value, headers: got.headers };
        if read.seen.insert(place, record).is_some() {
            read.wrong.push(format!("{place:?} was read twice"));
        }
    }

    pub fn blame(&self, wrong: String) {
        self.read().wrong.push(wrong);
    }

    fn check_good(&self) -> Outcome {
        let read = self.read();
        check!(read.wrong.is_empty(), "{}", read.wrong.join("; "));
        Ok(())
    }

    /// Waits until all that was acknowledged is read, and nothing else.
    pub async fn complete(&self, what: &str, account: &Account) -> Outcome {
        check!(!account.sent.is_empty(), "{what}: nothing was acknowledged that could be read");
        eventually(what, async || {
            self.check_good()?;
            Ok(account.sent.keys().all(|place| self.read().seen.contains_key(place)))
        })
        .await?;
        for (place, got) in &self.read().seen {
            let sent = account.sent.get(place);
            check!(sent == Some(got), "{what}: {place:?} is {got:?}, sent was {sent:?}");
        }
        Ok(())
    }

    /// The offsets after what was read.
    pub fn next(&self) -> BTreeMap<i32, i64> {
        self.read().seen.keys().map(|(partition, offset)| (*partition, offset + 1)).collect()
    }

    /// Waits for a record of each partition, the first of which must be at `offsets`.
    pub async fn begins_at(&self, offsets: &BTreeMap<i32, i64>) -> Outcome {
        let firsts = || -> BTreeMap<i32, i64> { self.read().seen.keys().rev().copied().collect() };
        eventually("a record of each partition", async || {
            self.check_good()?;
            Ok(firsts().len() == offsets.len())
        })
        .await?;
        equal("first offsets", &firsts(), offsets)
    }
}
