//! Simulated days of a gateway: some on which all must hold, and some for every fault that is put in on purpose.

#[path = "../../simulation/mod.rs"]
mod simulation;

mod days;
mod mutations;
