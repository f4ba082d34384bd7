//! A connection that waits holds no buffer. Alone in its process, since it counts all memory.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{PATIENCE, bind, connect, on_a_shard};
use ringgate_runtime::limits::BUFFER_BLOCK_BYTES;
use ringgate_runtime::{BufferPool, oneshot, spawn};

/// Counts the live allocations that have the size of a block.
struct CountBlocks;

static BLOCKS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on unchanged to the system's allocator; the count touches no memory of it.
unsafe impl GlobalAlloc for CountBlocks {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() == BUFFER_BLOCK_BYTES {
            BLOCKS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if layout.size() == BUFFER_BLOCK_BYTES {
            BLOCKS.fetch_sub(1, Ordering::Relaxed);
        }
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountBlocks = CountBlocks;

#[test]
fn connections_that_wait_hold_no_buffers() {
    const CONNECTIONS: usize = 300;
    let listener = bind();
    let address = listener.local_addr();
    let before = BLOCKS.load(Ordering::Relaxed);
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    on_a_shard(move || async move {
        let listener = listener.into_listener();
        let pool = Rc::new(BufferPool::new());
        let server = spawn({
            let pool = pool.clone();
            async move {
                let mut tasks = Vec::new();
                for _ in 0..CONNECTIONS {
                    let (stream, _) = listener.accept().await.expect("a connection");
                    let pool = pool.clone();
                    tasks.push(spawn(async move {
                        while let Some(bytes) = stream.recv(&pool).await.expect("an open connection") {
                            stream.send(vec![bytes.freeze()]).await.expect("an open connection");
                        }
                    }));
                }
                for task in tasks {
                    task.await;
                }
            }
        });
        let (answered, all_answered) = oneshot();
        std::thread::spawn(move || {
            let mut clients: Vec<_> = (0..CONNECTIONS).map(|_| connect(address)).collect();
            // Each has a block's worth of bytes under way before it falls silent.
            let message = vec![3; BUFFER_BLOCK_BYTES - 1];
            for client in &mut clients {
                client.write_all(&message).expect("an open connection");
                client.read_exact(&mut vec![0; message.len()]).expect("an answer");
            }
            answered.send(()).expect("a shard that waits");
            stopped.recv_timeout(PATIENCE).expect("a shard that has counted");
        });
        all_answered.await.expect("clients that got their bytes");
        let held = BLOCKS.load(Ordering::Relaxed) - before;
        assert!(held <= 2, "{held} blocks are held by {CONNECTIONS} connections that wait");
        stop.send(()).expect("clients that wait");
        server.await;
    });
}
