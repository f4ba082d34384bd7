//! Rings when the kernel has no memory for them.

use std::io;
use std::thread::sleep;

use crate::limits::{MEMORY_PAUSE, MEMORY_TRIES};

/// Makes a ring, or what has rings. A ring's memory is of whole pages that the kernel looks for only among those that
/// are free right now: on a machine whose memory is full of cached files it may fail, and do as well a moment later, when
/// the kernel has given some up. So a lack of memory is taken for true only when it lasts.
///
/// # Errors
/// The last one; any other than a lack of memory at once.
pub(crate) fn despite_a_moments_lack<T>(mut make: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut pause = MEMORY_PAUSE;
    for _ in 1..MEMORY_TRIES {
        match make() {
            Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => sleep(pause),
            done => return done,
        }
        pause *= 2;
    }
    make()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lack(number: i32) -> io::Result<u32> {
        Err(io::Error::from_raw_os_error(number))
    }

    #[test]
    fn a_lack_of_memory_that_passes_is_got_over() {
        let mut tries = 0;
        let made = despite_a_moments_lack(|| {
            tries += 1;
            if tries < 3 { lack(libc::ENOMEM) } else { Ok(7) }
        });
        assert_eq!((made.ok(), tries), (Some(7), 3));
    }

    #[test]
    fn one_that_lasts_is_told_and_so_is_anything_else_at_once() {
        for (number, expected) in [(libc::ENOMEM, MEMORY_TRIES), (libc::EPERM, 1)] {
            let mut tries = 0;
            let made = despite_a_moments_lack(|| {
                tries += 1;
                lack(number)
            });
            assert_eq!((made.unwrap_err().raw_os_error(), tries), (Some(number), expected));
        }
    }
}
