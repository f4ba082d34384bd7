//! What is asked of the kernel for as long as the gateway serves: memory that stays, and CPUs that wake at once.
//!
//! Both are settings that somebody made: where the kernel refuses, the gateway does not start, and says what to do.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use crate::config::Config;

/// Whoever has it open has the kernel keep to the delay, in microseconds, that was written to it.
const CPU_LATENCY: &str = "/dev/cpu_dma_latency";

/// Held until it is dropped; locked memory until the process ends.
#[derive(Debug)]
pub struct Held {
    _cpu_latency: Option<File>,
}

impl Held {
    /// Asks for what is set.
    ///
    /// # Errors
    /// The setting, the kernel's reason, and what to do about it.
    pub fn of(config: &Config) -> Result<Held, String> {
        if config.lock_memory {
            lock_memory()?;
        }
        let cpu_latency = match config.hold_cpu_latency {
            true => Some(hold_cpu_latency().map_err(|error| cpu_latency_refused(&error))?),
            false => None,
        };
        Ok(Held { _cpu_latency: cpu_latency })
    }
}

fn hold_cpu_latency() -> io::Result<File> {
    let mut held = OpenOptions::new().write(true).open(CPU_LATENCY)?;
    held.write_all(&0i32.to_ne_bytes())?;
    Ok(held)
}

fn cpu_latency_refused(error: &io::Error) -> String {
    let fix = match error.kind() {
        io::ErrorKind::NotFound => {
            "this kernel does not choose idle states, or the container was not given the file (docker: --device \
             /dev/cpu_dma_latency)"
        }
        io::ErrorKind::PermissionDenied => {
            "only root may write it unless it is given away: `chown USER /dev/cpu_dma_latency` before the start; systemd: \
             the lines of ringgate.service.d/latency.conf (`ringgate doctor files --profile latency`)"
        }
        _ => "the kernel did not take it",
    };
    format!("hold_cpu_latency = true: {CPU_LATENCY} cannot be held ({error}): {fix}; or hold_cpu_latency = false")
}

/// Pages stay from when they are first used. Without `ONFAULT` all that was ever reserved would be filled at once, which
/// is a gigabyte for the allocator alone.
fn lock_memory() -> Result<(), String> {
    let limit = getrlimit(Resource::Memlock).current;
    let may_pass = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    enough_locked_memory(limit, may_pass)?;
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT).map_err(|errno| {
        let error = io::Error::from(errno);
        format!(
            "lock_memory = true: the kernel does not lock it ({error}): {LOCK_FIX}, and a seccomp profile that allows mlockall; \
             or lock_memory = false"
        )
    })
}

const LOCK_FIX: &str = "`ulimit -Hl unlimited`, systemd: LimitMEMLOCK=infinity, docker: --ulimit memlock=-1";

/// Address space counts, used or not, and what no longer fits is refused in the middle of a request: under a limit,
/// however high, a gateway would start and then fall.
fn enough_locked_memory(limit: Option<u64>, may_pass: bool) -> Result<(), String> {
    match limit {
        Some(bytes) if !may_pass => Err(format!(
            "lock_memory = true: locked memory is limited to {bytes} bytes, and must be unlimited, since all that is mapped \
             counts, used or not: {LOCK_FIX}; or lock_memory = false"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_limit_of_locked_memory_is_too_low_for_whoever_may_not_pass_it() {
        assert!(enough_locked_memory(None, false).is_ok());
        assert!(enough_locked_memory(Some(8 << 20), true).is_ok(), "CAP_IPC_LOCK");
        for limit in [512 << 10, 8 << 20, 64 << 30] {
            let refusal = enough_locked_memory(Some(limit), false).unwrap_err();
            for part in ["lock_memory = true", &limit.to_string(), "LimitMEMLOCK=infinity", "--ulimit memlock=-1"] {
                assert!(refusal.contains(part), "{part} in {refusal}");
            }
        }
    }

    #[test]
    fn a_refusal_of_the_device_says_what_it_means() {
        for (error, part) in [
            (io::ErrorKind::NotFound, "--device /dev/cpu_dma_latency"),
            (io::ErrorKind::PermissionDenied, "chown USER /dev/cpu_dma_latency"),
            (io::ErrorKind::InvalidInput, "the kernel did not take it"),
        ] {
            let refusal = cpu_latency_refused(&error.into());
            assert!(refusal.contains(part) && refusal.contains("or hold_cpu_latency = false"), "{refusal}");
        }
    }
}
