//! The Kafka gateway binary.
fn main() {}
