//! Produce.

mod acks;
mod idempotence;
mod record_shapes;
mod timestamps;
mod wrong_batches;

use crate::common::partition::versions;

/// Every version of Produce that is served. DESIGN: versions 0 to 2 are only advertised.
fn produce_versions() -> std::ops::RangeInclusive<i16> {
    versions(0)
}
