//! How many bytes the connections of a shard hold of requests: of those that are not answered, and of frames that
//! have not come whole.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use ringgate_shards::waiters::Waiters;

use crate::limits::SMALL_FRAME_BYTES;

/// A count with a bound above which connections stop reading.
///
/// Frames that have not come whole count as far as they have come. Where the bound is met, the one of them that
/// began first is still read, so that there is always one that gets through (or is closed after `frame_timeout`); it
/// counts for nobody but the large ones. The last quarter is for small frames alone: large ones that are slow to come do
/// not keep anybody's heartbeat out. The bound is passed by that one frame and a quarter at most.
pub struct InFlightBytes {
    held: Cell<usize>,
    most: usize,
    unfinished: Cell<usize>,
    /// Bytes of each frame that has not come whole and is read as soon as it may be, in the order in which they began.
    frames: RefCell<BTreeMap<u64, usize>>,
    next: Cell<u64>,
    waiting: Waiters,
}

/// A connection's frame that has not come whole, if it has one.
#[derive(Debug, Default)]
pub struct Unfinished {
    bytes: usize,
    /// Its number among those that are read as soon as they may be.
    number: Option<u64>,
}

impl InFlightBytes {
    /// Nothing held, `most` bytes at the most (one frame may pass it).
    pub fn new(most: usize) -> InFlightBytes {
        InFlightBytes {
            held: Cell::new(0),
            most,
            unfinished: Cell::new(0),
            frames: RefCell::default(),
            next: Cell::new(0),
            waiting: Waiters::default(),
        }
    }

    /// Bytes of unanswered requests now.
    pub fn held(&self) -> usize {
        self.held.get()
    }

    /// Bytes of frames that have not come whole.
    pub fn unfinished(&self) -> usize {
        self.unfinished.get()
    }

    /// Whether another whole frame may be taken up.
    pub fn has_room(&self) -> bool {
        self.held.get() < self.most
    }

    /// Whether the connection with this frame may be read from.
    pub fn may_read(&self, frame: &Unfinished) -> bool {
        let room = self.room();
        if frame.number.is_some() && frame.number == room.first {
            room.for_first
        } else if frame.bytes > SMALL_FRAME_BYTES {
            room.for_large
        } else {
            room.for_small
        }
    }

    fn room(&self) -> Room {
        let first = self.frames.borrow().first_key_value().map(|(number, bytes)| (*number, *bytes));
        let all = self.held.get() + self.unfinished.get();
        let others = all - first.map_or(0, |(_, bytes)| bytes);
        let for_whole = self.has_room();
        Room {
            for_whole,
            // While there is little to be answered, which may take its time, nothing else would make room for it.
            for_first: for_whole && (self.held.get() < self.most / 4 || others < self.most),
            for_large: for_whole && all < self.most - self.most / 4,
            for_small: for_whole && others < self.most,
            first: first.map(|(number, _)| number),
        }
    }

    /// Those who wait for room.
    pub fn waiting(&self) -> &Waiters {
        &self.waiting
    }

    /// A request was read.
    pub fn add(&self, bytes: usize) {
        self.held.set(self.held.get() + bytes);
    }

    /// A request was answered, or holds its bytes no longer.
    pub fn remove(&self, bytes: usize) {
        debug_assert!(self.held.get() >= bytes);
        self.changed(|| self.held.set(self.held.get() - bytes));
    }

    /// So many bytes are here of a frame that has not come whole; with 0 there is none.
    pub fn set_unfinished(&self, frame: &mut Unfinished, bytes: usize) {
        if bytes == 0 && frame.bytes == 0 {
            return;
        }
        self.changed(|| {
            let mut frames = self.frames.borrow_mut();
            let number = frame.number.take().unwrap_or_else(|| self.next.replace(self.next.get() + 1));
            if bytes == 0 {
                frames.remove(&number);
            } else {
                frame.number = Some(number);
                frames.insert(number, bytes);
            }
            self.unfinished.set(self.unfinished.get() + bytes - frame.bytes);
            frame.bytes = bytes;
        });
    }

    /// Its connection reads again.
    pub fn stand_in_line(&self, frame: &mut Unfinished) {
        let bytes = frame.bytes;
        self.set_unfinished(frame, bytes);
    }

    /// Its connection does not read for reasons of its own: nobody waits for that frame. It counts all the same, and is
    /// the last in the line when it goes on.
    pub fn step_aside(&self, frame: &mut Unfinished) {
        if let Some(number) = frame.number.take() {
            self.changed(|| self.frames.borrow_mut().remove(&number));
        }
    }

    /// Wakes who may read after this and could not before.
    fn changed<T>(&self, change: impl FnOnce() -> T) {
        let before = self.room();
        change();
        let now = self.room();
        let gained = !before.for_whole && now.for_whole
            || !before.for_large && now.for_large
            || !before.for_small && now.for_small
            || !before.for_first && now.for_first;
        // Where large ones are read, it was already.
        let another_is_first = now.for_first && !now.for_large && now.first.is_some() && now.first != before.first;
        if gained || another_is_first {
            self.waiting.wake_all();
        }
    }
}

/// Who may be read from.
struct Room {
    for_whole: bool,
    for_first: bool,
    for_large: bool,
    for_small: bool,
    /// The unfinished frame that began first.
    first: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 16 * SMALL_FRAME_BYTES;

    fn with(frames: &[usize]) -> (InFlightBytes, Vec<Unfinished>) {
        let in_flight = InFlightBytes::new(MOST);
        let frames = frames.iter().map(|bytes| {
            let mut frame = Unfinished::default();
            in_flight.set_unfinished(&mut frame, *bytes);
            frame
        });
        let frames = frames.collect();
        (in_flight, frames)
    }

    #[test]
    fn of_large_frames_that_fill_three_quarters_only_the_first_is_read_and_small_ones_still_are() {
        let (in_flight, frames) = with(&[MOST / 4, MOST / 4, MOST / 4, 1]);
        let read: Vec<bool> = frames.iter().map(|frame| in_flight.may_read(frame)).collect();
        assert_eq!(read, [true, false, false, true]);
        assert!(in_flight.may_read(&Unfinished::default()));
    }

    #[test]
    fn where_all_is_used_the_first_frame_goes_on_then_the_next_and_nobody_else() {
        let (in_flight, mut frames) = with(&[MOST / 2, MOST, 1]);
        assert!(in_flight.may_read(&frames[0]) && !in_flight.may_read(&frames[1]) && !in_flight.may_read(&frames[2]));
        assert!(!in_flight.may_read(&Unfinished::default()));
        // It grows past the bound, and is a request at last.
        in_flight.set_unfinished(&mut frames[0], MOST);
        assert!(in_flight.may_read(&frames[0]));
        in_flight.set_unfinished(&mut frames[0], 0);
        in_flight.add(MOST);
        assert!(!in_flight.may_read(&frames[1]), "unanswered requests fill it");
        in_flight.remove(MOST);
        assert!(in_flight.may_read(&frames[1]));
        assert_eq!((in_flight.held(), in_flight.unfinished()), (0, MOST + 1));
    }

    #[test]
    fn however_far_the_first_large_frame_has_come_small_ones_are_read_and_other_large_ones_are_not() {
        let (in_flight, frames) = with(&[MOST, 3 * MOST / 4, 1]);
        let read: Vec<bool> = frames.iter().map(|frame| in_flight.may_read(frame)).collect();
        assert_eq!(read, [true, false, true]);
        assert!(in_flight.may_read(&Unfinished::default()));
        let (in_flight, frames) = with(&[MOST, 1]);
        assert!(in_flight.may_read(&frames[0]) && in_flight.may_read(&frames[1]));
    }

    #[test]
    fn the_next_frame_waits_where_whole_ones_and_others_fill_the_bound() {
        let (in_flight, frames) = with(&[1, 3 * MOST / 4]);
        in_flight.add(MOST / 4);
        assert!(!in_flight.may_read(&frames[0]), "whole ones and others fill it");
        in_flight.remove(1);
        assert!(in_flight.may_read(&frames[0]), "nothing else might make room");
        let (in_flight, frames) = with(&[1, 2 * MOST]);
        assert!(in_flight.may_read(&frames[0]));
    }

    #[test]
    fn a_frame_whose_connection_does_not_read_is_not_waited_for_and_counts_all_the_same() {
        let (in_flight, mut frames) = with(&[MOST / 2, MOST / 2]);
        in_flight.step_aside(&mut frames[0]);
        assert!(in_flight.may_read(&frames[1]) && !in_flight.may_read(&frames[0]));
        assert_eq!(in_flight.unfinished(), MOST);
        in_flight.stand_in_line(&mut frames[0]);
        assert!(in_flight.may_read(&frames[1]), "it is the last in the line");
        in_flight.set_unfinished(&mut frames[1], 0);
        assert!(in_flight.may_read(&frames[0]));
        in_flight.step_aside(&mut frames[0]);
        in_flight.set_unfinished(&mut frames[0], 0);
        assert_eq!(in_flight.unfinished(), 0);
    }

    #[test]
    fn who_waits_is_woken_for_room_and_when_its_frame_is_the_first() {
        let (in_flight, mut frames) = with(&[MOST, MOST, MOST, MOST]);
        let woken = std::sync::Arc::new(Woken::default());
        let waker = std::task::Waker::from(woken.clone());
        let waiter = in_flight.waiting().waiter();
        let cx = std::task::Context::from_waker(&waker);
        let mut expect = |what: &str, times: usize, change: &mut dyn FnMut(&mut [Unfinished])| {
            waiter.register(&cx);
            change(&mut frames);
            assert_eq!(woken.0.swap(0, std::sync::atomic::Ordering::Relaxed), times, "{what}");
        };
        expect("more of the same", 0, &mut |frames| in_flight.set_unfinished(&mut frames[0], MOST + 1));
        expect("not the first", 0, &mut |frames| in_flight.set_unfinished(&mut frames[1], 0));
        expect("the third is the first", 1, &mut |frames| in_flight.set_unfinished(&mut frames[0], 0));
        expect("the fourth is, and there is room for small ones", 1, &mut |frames| {
            in_flight.set_unfinished(&mut frames[2], 0);
        });
        expect("a whole one leaves none", 0, &mut |_| in_flight.add(MOST));
        expect("it is answered", 1, &mut |_| in_flight.remove(MOST));
        expect("there is room for large ones", 1, &mut |frames| in_flight.set_unfinished(&mut frames[3], 0));
        expect("there was room", 0, &mut |_| {
            in_flight.add(1);
            in_flight.remove(1);
        });
    }

    #[derive(Default)]
    struct Woken(std::sync::atomic::AtomicUsize);

    impl std::task::Wake for Woken {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
}
