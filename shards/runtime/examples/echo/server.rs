//! An echo of length-prefixed frames, with nothing in it but the runtime.

use std::rc::Rc;

use bytes::{Buf, Bytes, BytesMut};
use ringgate_runtime::{Budget, BufferPool, TcpListener, TcpStream};

/// A frame is refused above this size, in bytes.
const FRAME_MAX: usize = 16 << 20;

/// Accepts and serves until the shard ends.
pub async fn serve(listener: TcpListener) {
    let pool = Rc::new(BufferPool::new());
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let pool = pool.clone();
                ringgate_runtime::spawn(async move {
                    // A connection that breaks is over, like one that ends.
                    let _ = echo(&stream, &pool).await;
                })
                .detach();
            }
            Err(error) => {
                eprintln!("cannot accept: {error}");
                ringgate_runtime::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

/// Sends back every frame (`u32` big-endian length, then as many bytes), all that are complete at once.
async fn echo(stream: &TcpStream, pool: &BufferPool) -> std::io::Result<()> {
    let mut held = BytesMut::new();
    let mut budget = Budget::new();
    while let Some(bytes) = stream.recv(pool).await? {
        budget.spend(bytes.len());
        if held.is_empty() {
            held = bytes;
        } else {
            held.extend_from_slice(&bytes);
        }
        let complete = complete_frames(&held)?;
        if complete > 0 {
            let frames: Bytes = held.split_to(complete).freeze();
            if held.is_empty() {
                // So that an idle connection holds no part of a block.
                held = BytesMut::new();
            }
            stream.send(vec![frames]).await?;
        }
        budget.turn().await;
    }
    Ok(())
}

/// How many bytes the complete frames take.
fn complete_frames(held: &[u8]) -> std::io::Result<usize> {
    let mut rest = held;
    while let Some(mut length) = rest.get(..4) {
        let size = length.get_u32() as usize;
        if size > FRAME_MAX {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        let Some(after) = rest.get(4 + size..) else { break };
        rest = after;
    }
    Ok(held.len() - rest.len())
}
