//! What the host must allow, found out before an executor would panic over it.

use std::io;

use crate::limits::MEMLOCK_BYTES_MIN;

/// The CPUs that this process may run on, in order.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    // SAFETY: `cpu_set_t` is plain old data for which all zeroes is a valid value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is writable memory of the size given.
    if unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let most = 8 * size_of_val(&set);
    // SAFETY: `cpu` is below the number of bits in the set.
    Ok((0..most).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

/// Tries what every executor needs.
///
/// # Errors
/// What is missing, and what to do about it.
pub fn check_host() -> io::Result<()> {
    check_io_uring()?;
    check_memlock()
}

/// Tries to make a ring.
///
/// # Errors
/// Why there is none, and what to do about it.
pub fn check_io_uring() -> io::Result<()> {
    // The kernel's `io_uring_params`: 120 bytes, all zero for a plain ring.
    let mut params = [0u64; 15];
    // SAFETY: the kernel reads and writes 120 bytes at `params`, which is that large and 8-byte aligned.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 8, params.as_mut_ptr()) };
    if ring >= 0 {
        // SAFETY: the descriptor has just been made by the kernel and nobody else knows it.
        unsafe { libc::close(ring as i32) };
        return Ok(());
    }
    let error = io::Error::last_os_error();
    let fix = match error.raw_os_error() {
        Some(libc::ENOSYS) => "the kernel has no io_uring: Linux 5.8 or newer is needed",
        Some(libc::EPERM) => {
            "io_uring is forbidden here: set the sysctl kernel.io_uring_disabled=0, or in a container allow \
             the io_uring_* system calls in its seccomp profile (docker: --security-opt seccomp=unconfined)"
        }
        Some(libc::ENOMEM) => "not enough locked memory: raise `ulimit -l` (systemd: LimitMEMLOCK=infinity)",
        Some(libc::EMFILE | libc::ENFILE) => "no file descriptors left: raise `ulimit -n`",
        _ => "io_uring_setup failed",
    };
    Err(io::Error::new(error.kind(), format!("{fix} ({error})")))
}

fn check_memlock() -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable memory of the right type.
    if unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if limit.rlim_cur < MEMLOCK_BYTES_MIN {
        return Err(io::Error::other(format!(
            "locked memory is limited to {} bytes, {MEMLOCK_BYTES_MIN} are needed: raise `ulimit -l` (systemd: \
             LimitMEMLOCK=infinity; docker: --ulimit memlock=-1)",
            limit.rlim_cur
        )));
    }
    Ok(())
}

/// Has a write past the limit of file sizes (`ulimit -f`) fail like any other, as one to a full disk does;
/// the signal would end the process.
pub fn survive_file_size_limit() {
    // SAFETY: to ignore a signal installs no code.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
