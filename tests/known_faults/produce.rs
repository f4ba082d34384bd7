//! Produce.
