//! Consumer groups: who coordinates them, and how members come, stay and go.

mod coordinators;
mod joining;
mod members;
mod protocols;
mod rebalancing;
mod static_members;
