//! The requests of one connection between their reading and their answers: order, read-ahead, pauses and
//! waits as one pure value, without I/O, clock or runtime.
//!
//! [`Pipeline`] is what a connection's loop asks: may it read, what may start, which responses go out.
//! [`rules`] says which request may start behind which other. What must stay true: responses leave in the
//! order in which requests were read; every request starts once and is answered at most once; and reading
//! ahead shows a client nothing that it would not see if its requests ran one after another, but for what
//! [`rules`] lists.

pub mod rules;
mod state;

pub use rules::RequestKind;
pub use state::{Pipeline, RequestId};
