//! The process's limits on locked memory and open files.
//!
//! Soft limits are raised to the hard ones before anything else starts: services and shells often set the
//! former low for programs that never asked.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use ringgate_shards::limits::CONNECTIONS_KEPT;

use crate::limits::OPEN_FILES_MIN;

const FIX: &str = "raise the hard limit (`ulimit -Hn`, systemd: LimitNOFILE=1048576, docker: --ulimit \
                   nofile=1048576:1048576)";

/// Raises both and returns the limit of open files then in force. Locked memory is checked, with io_uring
/// itself, by [`ringgate_runtime::check_host`].
///
/// # Errors
/// Too few open files, with what to do about it.
pub fn raise() -> Result<u64, String> {
    raised(Resource::Memlock);
    let open_files = raised(Resource::Nofile);
    enough_open_files(open_files).map(|()| open_files)
}

/// The soft limit after it was raised as far as it goes.
fn raised(resource: Resource) -> u64 {
    let limit = getrlimit(resource);
    if limit.current != limit.maximum {
        // Refused only by a security module; what is then in force is read back.
        let _ = setrlimit(resource, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    // `None` is unlimited.
    getrlimit(resource).current.unwrap_or(u64::MAX)
}

fn enough_open_files(limit: u64) -> Result<(), String> {
    if limit >= OPEN_FILES_MIN {
        return Ok(());
    }
    Err(format!("the limit of open files is {limit}, at least {OPEN_FILES_MIN} are needed: {FIX}"))
}

/// Whether the partitions that a data directory holds can be opened under a limit, `own` open files of the
/// gateway's own and a few connections beside them.
///
/// # Errors
/// How many are needed, and what to do about it: the limit was higher when the topics were made.
pub fn enough_for_partitions(limit: u64, own: u64, partitions: usize) -> Result<(), String> {
    let needed = own + CONNECTIONS_KEPT as u64 + partitions as u64;
    if limit >= needed {
        return Ok(());
    }
    Err(format!(
        "the limit of open files is {limit}, and the data directory holds {partitions} partitions, each with an open \
         file: at least {needed} are needed: {FIX}; or start under the former limit and delete topics"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_limits_are_the_hard_ones_afterwards() {
        let open_files = raise().unwrap();
        for resource in [Resource::Memlock, Resource::Nofile] {
            let limit = getrlimit(resource);
            assert_eq!(limit.current, limit.maximum);
        }
        assert_eq!(open_files, getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX));
    }

    #[test]
    fn partitions_that_a_lowered_limit_does_not_carry_are_refused_with_the_fix() {
        assert!(enough_for_partitions(2_000, 519, 2_000 - 519 - CONNECTIONS_KEPT).is_ok());
        let refusal = enough_for_partitions(2_000, 519, 2_001 - 519 - CONNECTIONS_KEPT).unwrap_err();
        for part in ["2000", "2001", "1418 partitions", "LimitNOFILE", "delete topics"] {
            assert!(refusal.contains(part), "{part} in {refusal}");
        }
    }

    #[test]
    fn too_few_open_files_are_refused_with_the_fix() {
        assert!(enough_open_files(1024).is_ok());
        let refusal = enough_open_files(1023).unwrap_err();
        for part in ["1023", "1024", "ulimit -Hn", "LimitNOFILE"] {
            assert!(refusal.contains(part), "{part} in {refusal}");
        }
    }
}
