//! Finding a record by its timestamp, for ListOffsets.

use bytes::Bytes;

use super::walk::Records;
use super::{BatchHeader, HEADER_BYTES, RecordError};

/// Bytes of a batch that [`first_at_or_after`] looks through between its own checks.
const STEP: usize = 1 << 20;

/// Looks in a stored batch for the first record whose timestamp is at least the one that is wanted. Works in
/// slices, like the walk. Meant for batches that were walked before they were stored.
pub struct TimeSearch {
    state: State,
}

enum State {
    Looking(Box<Records>),
    Done(Result<Option<(i32, i64)>, RecordError>),
}

impl TimeSearch {
    /// A search in the batch at the start of `batch` for `timestamp` in ms. Under LogAppendTime every record
    /// has the batch's time.
    pub fn new(batch: &Bytes, timestamp: i64) -> TimeSearch {
        TimeSearch { state: State::new(batch, timestamp).unwrap_or_else(|error| State::Done(Err(error))) }
    }

    /// Goes on for about `budget` bytes. `None`: there is more to do. Else the record's offset delta and
    /// timestamp, if there is such a record.
    pub fn step(&mut self, budget: usize) -> Option<Result<Option<(i32, i64)>, RecordError>> {
        let mut budget = budget.max(1);
        loop {
            let records = match &mut self.state {
                State::Looking(records) => records,
                State::Done(result) => return Some(std::mem::replace(result, Ok(None))),
            };
            if records.parser.found.is_none() {
                match records.advance(&mut budget, usize::MAX) {
                    Ok(None) if records.parser.found.is_none() => {
                        if budget == 0 {
                            return None;
                        }
                        continue;
                    }
                    Ok(_) => {}
                    Err(error) => {
                        self.state = State::Done(Err(error));
                        continue;
                    }
                }
            }
            self.state = State::Done(Ok(records.parser.found));
        }
    }
}

impl State {
    fn new(batch: &Bytes, timestamp: i64) -> Result<State, RecordError> {
        let header = BatchHeader::parse(batch).ok_or_else(|| RecordError::Corrupt("no batch of format 2".into()))?;
        if header.is_log_append_time() {
            let found = (header.max_timestamp >= timestamp).then_some((0, header.max_timestamp));
            return Ok(State::Done(Ok(found)));
        }
        let compression = header.compression().ok_or(RecordError::UnknownCompression(header.attributes & 7))?;
        let payload = batch.slice(HEADER_BYTES..header.size.min(batch.len()));
        let mut records = Records::new(header, compression, payload)?;
        records.parser.search = Some(timestamp);
        Ok(State::Looking(Box::new(records)))
    }
}

/// A whole [`TimeSearch`] in one go; blocks for as long as decompression takes.
///
/// # Errors
/// The batch cannot be read as far as the record.
pub fn first_at_or_after(batch: &Bytes, timestamp: i64) -> Result<Option<(i32, i64)>, RecordError> {
    let mut search = TimeSearch::new(batch, timestamp);
    loop {
        if let Some(found) = search.step(STEP) {
            return found;
        }
    }
}
