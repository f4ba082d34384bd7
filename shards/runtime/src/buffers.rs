//! Where reads put their bytes.

use std::cell::RefCell;
use std::io;
use std::os::fd::RawFd;

use bytes::BytesMut;

use crate::limits::{BUFFER_BLOCK_BYTES, BUFFER_ROOM_MIN};

/// The read buffers of one shard. Each read gives away a part of the current block: small reads share a
/// block, which is freed when the last of its parts is. So what is kept for long must be copied out.
/// A connection that waits holds no part at all.
#[derive(Default)]
pub struct BufferPool {
    block: RefCell<BytesMut>,
}

impl BufferPool {
    /// A pool without a block; the first read allocates one.
    pub fn new() -> BufferPool {
        BufferPool::default()
    }

    /// Reads what is there. `WouldBlock` when that is nothing; an empty buffer at the end of the stream.
    pub(crate) fn read(&self, socket: RawFd) -> io::Result<BytesMut> {
        let mut block = self.block.borrow_mut();
        if block.capacity() - block.len() < BUFFER_ROOM_MIN {
            *block = BytesMut::with_capacity(BUFFER_BLOCK_BYTES);
        }
        debug_assert!(block.is_empty());
        let room = block.spare_capacity_mut();
        // SAFETY: `room` is memory that this function may write, of the length given; the kernel writes at
        // most that much.
        let read = unsafe { libc::recv(socket, room.as_mut_ptr().cast(), room.len(), libc::MSG_DONTWAIT) };
        if read < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has written `read` bytes at the start of the spare capacity.
        unsafe { block.set_len(read as usize) };
        Ok(block.split())
    }
}
