//! Going through the frames of one file, and saying of each gap what it is.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::Report;
use crate::store::embedded::files::{self, File, Files, Open};
use crate::store::embedded::frame::{self, Frame, Scanner, Step, Tail};
use crate::store::embedded::limits::{SCAN_CHUNK_BYTES, VERIFY_BREAKS_PER_FILE, VERIFY_WHOLE_FRAME_BYTES};

/// What is known of a file before it is looked at.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::store::embedded) struct Expected {
    /// Bytes from the start that were on disk once: a gap there is damage.
    pub(in crate::store::embedded) lasting: u64,
    /// It was being written to: behind `lasting`, a crash may have torn its tail.
    pub(in crate::store::embedded) is_last: bool,
}

/// How far the look at a file came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::store::embedded) struct Walked {
    /// Bytes in the file.
    pub(in crate::store::embedded) len: u64,
    /// Whole frames.
    pub(in crate::store::embedded) frames: u64,
    /// Something in it is damaged or cannot be read, so that nothing follows from what is missing.
    pub(in crate::store::embedded) is_broken: bool,
}

/// Shows every whole frame of a file to `visit` and reports what is none. Holds one frame, or one chunk of
/// small ones, at a time.
pub(in crate::store::embedded) fn walk(
    report: &mut Report,
    files: &dyn Files,
    path: &Path,
    expected: Expected,
    mut visit: impl FnMut(&mut Report, &Frame),
) -> Walked {
    let mut walked = Walked::default();
    if let Err(error) = try_walk(report, files, path, expected, &mut walked, &mut visit) {
        report.damage(path, None, format!("it cannot be read: {error}"));
        walked.is_broken = true;
    }
    walked
}

fn try_walk(
    report: &mut Report,
    files: &dyn Files,
    path: &Path,
    expected: Expected,
    walked: &mut Walked,
    visit: &mut impl FnMut(&mut Report, &Frame),
) -> io::Result<()> {
    let file = files.open(path, Open::Read)?;
    walked.len = file.len()?;
    let mut scanner = Scanner::new(file.clone(), 0, walked.len);
    let mut breaks = 0;
    loop {
        let at = match step(&file, &mut scanner, walked.len)? {
            Step::End => return Ok(()),
            Step::Frame(frame) => {
                walked.frames += 1;
                visit(report, &frame);
                continue;
            }
            Step::Broken(at) => at,
        };
        let left = walked.len - at;
        match scanner.tail()? {
            Tail::Torn if expected.is_last && at >= expected.lasting => {
                let what = format!("a write that was not finished, {left} bytes: the next start cuts it off");
                report.note(path, Some(at), what);
                return Ok(());
            }
            Tail::Torn => {
                walked.is_broken = true;
                report.damage(path, Some(at), format!("no whole frame, and none found in the {left} bytes from here"));
                return Ok(());
            }
            Tail::Damaged { resumes_at } => {
                walked.is_broken = true;
                report.damage(path, Some(at), format!("no whole frame; the next one is at {resumes_at}"));
                breaks += 1;
                if breaks == VERIFY_BREAKS_PER_FILE {
                    report.damage(path, Some(resumes_at), "too much damage: the rest was not looked at");
                    return Ok(());
                }
                scanner = Scanner::new(file.clone(), resumes_at, walked.len);
            }
        }
    }
}

/// As [`Scanner::step`]; but of a frame that claims to be large the CRC is looked at first, since the claim
/// may be what is damaged.
fn step(file: &Arc<dyn File>, scanner: &mut Scanner, end: u64) -> io::Result<Step> {
    let at = scanner.position();
    match scanner.next_len()? {
        Some(len) if len > VERIFY_WHOLE_FRAME_BYTES && !is_sound_on_disk(&**file, at, len, end)? => {
            Ok(Step::Broken(at))
        }
        _ => scanner.step(),
    }
}

fn is_sound_on_disk(file: &dyn File, at: u64, len: usize, end: u64) -> io::Result<bool> {
    if len as u64 > end - at {
        return Ok(false);
    }
    let header = files::read(file, at, frame::HEADER_BYTES)?;
    let Some(says) = header.get(4..8) else { return Ok(false) };
    let (mut crc, mut position, end) = (0, at + 8, at + len as u64);
    while position < end {
        let chunk = files::read(file, position, (end - position).min(SCAN_CHUNK_BYTES as u64) as usize)?;
        if chunk.is_empty() {
            return Ok(false);
        }
        crc = crc32c::crc32c_append(crc, &chunk);
        position += chunk.len() as u64;
    }
    Ok(says == crc.to_le_bytes())
}
