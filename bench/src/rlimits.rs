//! The process's limits on locked memory and open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limits to the hard ones, as far as the system lets it; the limit of open files then in force.
pub fn raise() -> u64 {
    raised(Resource::Memlock);
    raised(Resource::Nofile)
}

fn raised(resource: Resource) -> u64 {
    let limit = getrlimit(resource);
    if limit.current != limit.maximum {
        // Refused only by a security module; what is then in force is read back.
        let _ = setrlimit(resource, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    // `None` is unlimited.
    getrlimit(resource).current.unwrap_or(u64::MAX)
}
