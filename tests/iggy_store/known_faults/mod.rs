//! Faults that users reported of Iggy's SDK and server, in what a Kafka client sees of a gateway on Iggy.

mod deadlines;
mod offsets;
mod records;
mod restarts;
mod sizes;
