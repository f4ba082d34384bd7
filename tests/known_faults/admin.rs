//! Admin APIs: topics, settings, groups.
