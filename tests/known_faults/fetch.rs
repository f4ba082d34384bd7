//! Fetch and its sessions.
