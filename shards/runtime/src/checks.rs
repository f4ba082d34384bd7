//! What the host must allow, found out before an executor would panic over it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::limits::MEMLOCK_BYTES_MIN;
use crate::memory::despite_a_moments_lack;

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

/// Tries to make a ring, asks it what it can do, and enters it: each is a system call that may be forbidden by itself.
///
/// # Errors
/// Why there is none, or what it cannot do, and what to do about it.
pub fn check_io_uring() -> io::Result<()> {
    let error = match despite_a_moments_lack(small_ring) {
        Ok(ring) => {
            check_operations(&ring)?;
            return check_enter(&ring);
        }
        Err(error) => error,
    };
    let fix = match error.raw_os_error() {
        Some(libc::ENOSYS) => "the kernel has no io_uring: Linux 5.8 or newer is needed",
        Some(libc::EPERM) => {
            "io_uring is forbidden here: set the sysctl kernel.io_uring_disabled=0, or in a container allow \
             the io_uring_* system calls in its seccomp profile (docker: --security-opt seccomp=unconfined)"
        }
        Some(libc::ENOMEM) => {
            "not enough memory, or locked memory: free some, or raise `ulimit -l` (systemd: LimitMEMLOCK=infinity)"
        }
        Some(libc::EMFILE | libc::ENFILE) => "no file descriptors left: raise `ulimit -n`",
        _ => "io_uring_setup failed",
    };
    Err(io::Error::new(error.kind(), format!("{fix} ({error})")))
}

fn small_ring() -> io::Result<OwnedFd> {
    // The kernel's `io_uring_params`: 120 bytes, all zero for a plain ring.
    let mut params = [0u64; 15];
    // SAFETY: the kernel reads and writes 120 bytes at `params`, which is that large and 8-byte aligned.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 8, params.as_mut_ptr()) };
    if ring < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor has just been made by the kernel and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(ring as i32) })
}

/// What the runtime asks of a ring, by the kernel's numbers: it ends the process where one is missing.
const OPERATIONS: [(u8, &str); 23] = [
    (0, "NOP"),
    (1, "READV"),
    (2, "WRITEV"),
    (3, "FSYNC"),
    (4, "READ_FIXED"),
    (5, "WRITE_FIXED"),
    (6, "POLL_ADD"),
    (7, "POLL_REMOVE"),
    (9, "SENDMSG"),
    (10, "RECVMSG"),
    (11, "TIMEOUT"),
    (12, "TIMEOUT_REMOVE"),
    (13, "ACCEPT"),
    (15, "LINK_TIMEOUT"),
    (16, "CONNECT"),
    (17, "FALLOCATE"),
    (18, "OPENAT"),
    (19, "CLOSE"),
    (21, "STATX"),
    (22, "READ"),
    (23, "WRITE"),
    (26, "SEND"),
    (27, "RECV"),
];

/// As many as the kernel tells of at most: their numbers are bytes.
const OPERATIONS_MAX: usize = 256;

/// The kernel's number of the question what a ring can do.
const IORING_REGISTER_PROBE: libc::c_uint = 8;

/// Of an operation: it can be done.
const IO_URING_OP_SUPPORTED: u16 = 1;

/// The kernel's `io_uring_probe_op`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Operation {
    number: u8,
    _reserved: u8,
    flags: u16,
    _reserved_too: u32,
}

/// The kernel's `io_uring_probe`, with room for all operations.
#[repr(C)]
struct Probe {
    last: u8,
    count: u8,
    _reserved: u16,
    _reserved_too: [u32; 3],
    operations: [Operation; OPERATIONS_MAX],
}

const _: () = assert!(size_of::<Operation>() == 8 && size_of::<Probe>() == 16 + 8 * OPERATIONS_MAX);

fn check_operations(ring: &OwnedFd) -> io::Result<()> {
    // SAFETY: the struct is plain old data, and the kernel wants it zeroed.
    let mut probe: Probe = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most a head and `OPERATIONS_MAX` operations at `probe`, which has that much room.
    let done = unsafe {
        libc::syscall(
            libc::SYS_io_uring_register,
            ring.as_raw_fd(),
            IORING_REGISTER_PROBE,
            &raw mut probe,
            OPERATIONS_MAX as libc::c_uint,
        )
    };
    if done < 0 {
        let error = io::Error::last_os_error();
        let fix = match error.raw_os_error() {
            Some(libc::EPERM) => "allow io_uring_register in the seccomp profile as well",
            _ => "Linux 5.8 or newer is needed",
        };
        let told = format!("io_uring does not tell what it can do here: {fix} ({error})");
        return Err(io::Error::new(error.kind(), told));
    }
    let told = &probe.operations[..usize::from(probe.count)];
    let missing = missing(|number| {
        told.iter().any(|operation| operation.number == number && operation.flags & IO_URING_OP_SUPPORTED != 0)
    });
    if missing.is_empty() {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        format!(
            "this kernel's io_uring cannot do {}: Linux 5.8 or newer, and not cut down, is needed",
            missing.join(", ")
        ),
    ))
}

/// Enters a ring that has nothing to do.
fn check_enter(ring: &OwnedFd) -> io::Result<()> {
    let nothing = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: nothing is submitted or waited for, and there is no set of signals: the kernel reads no memory of ours.
    let done = unsafe { libc::syscall(libc::SYS_io_uring_enter, ring.as_raw_fd(), 0u32, 0u32, 0u32, nothing, 0usize) };
    if done >= 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    let told = format!("io_uring cannot be used here: allow io_uring_enter in the seccomp profile as well ({error})");
    Err(io::Error::new(error.kind(), told))
}

/// The names of those operations that cannot be done.
fn missing(can: impl Fn(u8) -> bool) -> Vec<&'static str> {
    OPERATIONS.iter().filter(|(number, _)| !can(*number)).map(|(_, name)| *name).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_that_can_do_all_is_enough_and_what_it_cannot_do_is_named() {
        assert!(missing(|_| true).is_empty());
        assert_eq!(missing(|number| number != 13 && number != 27), ["ACCEPT", "RECV"]);
        // The tests of this crate run executors, so this host has what they need.
        check_io_uring().unwrap();
    }

    /// Has a system call fail on this thread from now on, as a seccomp profile without it does.
    fn forbid(call: libc::c_long) {
        let step = |code: u32, if_not: u8, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: if_not, k };
        let mut steps = [
            // Loads the call's number, skips the refusal if it is another one's.
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
            step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, call as u32),
            step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
            step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        // SAFETY: neither touches memory but the filter, which is a whole one; both concern this thread alone.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter), 0);
        }
    }

    #[test]
    fn each_call_that_is_forbidden_is_named() {
        for (call, name) in [
            (libc::SYS_io_uring_setup, "io_uring is forbidden here"),
            (libc::SYS_io_uring_register, "allow io_uring_register in the seccomp profile"),
            (libc::SYS_io_uring_enter, "allow io_uring_enter in the seccomp profile"),
        ] {
            let tried = std::thread::spawn(move || {
                forbid(call);
                check_io_uring()
            });
            let error = tried.join().unwrap().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            assert!(error.to_string().contains(name), "{error}");
        }
    }

    #[test]
    fn operations_have_the_kernels_numbers() {
        let numbered = |name: &str| OPERATIONS.iter().find(|(_, known)| *known == name).map(|(number, _)| *number);
        let known = [("POLL_ADD", 6), ("ACCEPT", 13), ("CONNECT", 16), ("STATX", 21), ("SEND", 26), ("RECV", 27)];
        for (name, number) in known {
            assert_eq!(numbered(name), Some(number), "{name}");
        }
        assert!(OPERATIONS.is_sorted());
    }
}
