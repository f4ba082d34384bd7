//! An echo of length-prefixed frames, or answers of a fixed size, with nothing in it but the runtime.

use std::rc::Rc;

use bytes::{Buf, Bytes, BytesMut};
use ringgate_runtime::{Budget, BufferPool, TcpListener, TcpStream};

/// A frame is refused above this size, in bytes.
const FRAME_MAX: usize = 16 << 20;

/// Accepts and serves until the shard ends. The frames of `fixed` go back for frames, in turn; without any, the frame
/// itself.
pub async fn serve(listener: TcpListener, fixed: Vec<Bytes>) {
    let pool = Rc::new(BufferPool::new());
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (pool, fixed) = (pool.clone(), fixed.clone());
                ringgate_runtime::spawn(async move {
                    // A connection that breaks is over, like one that ends.
                    let _ = answer(&stream, &pool, &fixed).await;
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

/// Answers every frame (`u32` big-endian length, then as many bytes), all that are complete at once.
async fn answer(stream: &TcpStream, pool: &BufferPool, fixed: &[Bytes]) -> std::io::Result<()> {
    let mut held = BytesMut::new();
    let mut budget = Budget::new();
    let mut turns = fixed.iter().cycle();
    while let Some(bytes) = stream.recv(pool).await? {
        budget.spend(bytes.len());
        if held.is_empty() {
            held = bytes;
        } else {
            held.extend_from_slice(&bytes);
        }
        let complete = complete_frames(&held)?;
        if complete.bytes > 0 {
            let frames: Bytes = held.split_to(complete.bytes).freeze();
            if held.is_empty() {
                // So that an idle connection holds no part of a block.
                held = BytesMut::new();
            }
            let answers = match fixed {
                [] => vec![frames],
                _ => turns.by_ref().take(complete.frames).cloned().collect(),
            };
            stream.send(answers).await?;
        }
        budget.turn().await;
    }
    Ok(())
}

/// The complete frames at the front of what was read.
struct Complete {
    frames: usize,
    bytes: usize,
}

fn complete_frames(held: &[u8]) -> std::io::Result<Complete> {
    let (mut rest, mut frames) = (held, 0);
    while let Some(mut length) = rest.get(..4) {
        let size = length.get_u32() as usize;
        if size > FRAME_MAX {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        let Some(after) = rest.get(4 + size..) else { break };
        rest = after;
        frames += 1;
    }
    Ok(Complete { frames, bytes: held.len() - rest.len() })
}
