//! The embedded engine: one copy on one disk, crash-safe.
