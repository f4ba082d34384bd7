//! Committed offsets: what is taken, what is kept, what is told, and when they go.
