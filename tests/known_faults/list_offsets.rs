//! ListOffsets.
