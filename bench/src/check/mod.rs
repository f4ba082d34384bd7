//! Was what came back what was sent? Pure values: fed with what happened, they tell what was wrong.

mod delivery;
mod ownership;
mod ranges;

pub use delivery::{Delivery, Seen, StreamId};
pub use ownership::Ownership;
