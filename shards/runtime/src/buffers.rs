//! Where reads put their bytes.

use std::cell::RefCell;
use std::io;
use std::os::fd::RawFd;

use bytes::BytesMut;

use crate::limits::{BUFFER_BLOCK_BYTES, BUFFER_ROOM_MIN};

/// The read buffers of one shard. Each read gives away a part of the current block of 64 KiB: small reads
/// share a block, which is freed, or used again, when the last of its parts is dropped. So a few bytes
/// may hold a whole block, and what is kept for long must be copied out. A connection that waits holds
/// no part at all.
#[derive(Debug, Default)]
pub struct BufferPool {
    block: RefCell<BytesMut>,
}

impl BufferPool {
    /// A pool without a block; the first read allocates one.
    pub fn new() -> BufferPool {
        BufferPool::default()
    }

    /// Reads what is there; the flag says whether that filled the room, so that more may be there.
    /// `WouldBlock` when nothing is; an empty buffer at the end of the stream.
    pub(crate) fn read(&self, socket: RawFd) -> io::Result<(BytesMut, bool)> {
        let mut block = self.block.borrow_mut();
        if block.capacity() < BUFFER_ROOM_MIN && !block.try_reclaim(BUFFER_BLOCK_BYTES) {
            *block = BytesMut::with_capacity(BUFFER_BLOCK_BYTES);
        }
        debug_assert!(block.is_empty());
        let filled = receive(socket, &mut block)?;
        Ok((block.split(), filled))
    }
}

/// Reads what is there behind what the buffer holds, at most as much as it has room for; whether that
/// filled the room.
pub(crate) fn receive(socket: RawFd, buffer: &mut BytesMut) -> io::Result<bool> {
    let room = buffer.spare_capacity_mut();
    let most = room.len();
    // SAFETY: `room` is memory that this function may write, of the length given; the kernel writes at
    // most that much.
    let read = unsafe { libc::recv(socket, room.as_mut_ptr().cast(), most, libc::MSG_DONTWAIT) };
    let Ok(read) = usize::try_from(read) else { return Err(io::Error::last_os_error()) };
    // SAFETY: the kernel has initialized the first `read` bytes of the spare capacity.
    unsafe { buffer.set_len(buffer.len() + read) };
    Ok(read == most)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn small_reads_share_a_block_and_a_block_that_nobody_holds_is_used_again() {
        let (mut near, far) = UnixStream::pair().expect("a socket pair");
        let pool = BufferPool::new();
        let mut read = |byte: u8, length: usize| {
            near.write_all(&vec![byte; length]).expect("room in the socket");
            let (bytes, filled) = pool.read(far.as_raw_fd()).expect("bytes to read");
            assert!(!filled);
            assert_eq!(bytes, vec![byte; length]);
            bytes
        };
        let first = read(1, 100);
        let second = read(2, 100);
        let block = first.as_ptr();
        assert_eq!(second.as_ptr() as usize - block as usize, 100);
        let most_of_it = read(3, BUFFER_BLOCK_BYTES - BUFFER_ROOM_MIN);
        drop((first, most_of_it));
        let other = read(4, 100);
        assert!((other.as_ptr() as usize).abs_diff(block as usize) >= BUFFER_BLOCK_BYTES, "a part is still held");
        assert_eq!(second, vec![2; 100]);
    }

    #[test]
    fn a_read_of_nothing_would_block_and_the_end_is_empty() {
        let (near, far) = UnixStream::pair().expect("a socket pair");
        let pool = BufferPool::new();
        let error = pool.read(far.as_raw_fd()).expect_err("nothing there");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(near);
        let (bytes, _) = pool.read(far.as_raw_fd()).expect("the end");
        assert!(bytes.is_empty());
    }
}
