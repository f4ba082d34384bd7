//! Memory, connections that go, and the way down.
