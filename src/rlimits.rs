//! The process's limits on locked memory and open files.
//!
//! Soft limits are raised to the hard ones before anything else starts: services and shells often set the
//! former low for programs that never asked.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::limits::OPEN_FILES_MIN;

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
    Err(format!(
        "the limit of open files is {limit}, at least {OPEN_FILES_MIN} are needed: raise the hard limit (`ulimit -Hn`, \
         systemd: LimitNOFILE=1048576, docker: --ulimit nofile=1048576:1048576)"
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
    fn too_few_open_files_are_refused_with_the_fix() {
        assert!(enough_open_files(1024).is_ok());
        let refusal = enough_open_files(1023).unwrap_err();
        for part in ["1023", "1024", "ulimit -Hn", "LimitNOFILE"] {
            assert!(refusal.contains(part), "{part} in {refusal}");
        }
    }
}
