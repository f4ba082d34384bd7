//! Tables that grow a piece at a time: a `HashMap` or `Slab` of some ten thousand entries takes a millisecond and
//! more to move them all, for whoever happens to come next.

mod map;
mod slab;

pub use map::PiecedMap;
pub use slab::PiecedSlab;
