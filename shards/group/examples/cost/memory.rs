//! Bytes that a member, an offset and a group take in the coordinator: what was asked of the allocator, and what the process has of it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::fleet::Fleet;

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it came; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LIVE.fetch_add(size, Relaxed);
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// What there may be more of.
const KINDS: [(&str, &str); 7] = [
    ("classic", "members of a classic group"),
    ("consumer", "members of a consumer group"),
    ("shared-out", "partitions that a consumer group shares out"),
    ("names", "topics, of 16 characters, that a consumer group's member names"),
    ("pending", "member ids that have not joined"),
    ("offsets", "partitions committed by one group"),
    ("groups", "groups that have committed one partition"),
];

/// Sizes of the plateaus. Tables double, so each is as full as the others.
const PLATEAUS: [usize; 4] = [12_500, 25_000, 50_000, 100_000];

/// Bytes of the process at a plateau.
#[derive(Clone, Copy)]
struct Bytes {
    asked: usize,
    resident: usize,
}

/// Prints, for each kind, what one more of it takes from each plateau to the next.
pub fn table() -> Result<(), String> {
    println!("| More | From, to | Asked of the allocator, bytes each | Resident, bytes each |");
    println!("| --- | --- | ---: | ---: |");
    for (kind, title) in KINDS {
        let mut before: Option<(usize, Bytes)> = None;
        for members in PLATEAUS {
            let now = plateau(kind, members)?;
            if let Some((fewer, was)) = before {
                let more = members - fewer;
                let slope = |was: usize, now: usize| (now.saturating_sub(was)) / more;
                let (asked, resident) = (slope(was.asked, now.asked), slope(was.resident, now.resident));
                println!("| {title} | {fewer} to {members} | {asked} | {resident} |");
            }
            before = Some((members, now));
        }
    }
    Ok(())
}

fn plateau(kind: &str, members: usize) -> Result<Bytes, String> {
    let this = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let output = Command::new(this).args(["grow", kind, &members.to_string()]).output();
    let output = output.map_err(|error| format!("cannot run this program: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let mut numbers = said.split_whitespace().map_while(|word| word.parse().ok());
    match (output.status.success(), numbers.next(), numbers.next()) {
        (true, Some(asked), Some(resident)) => Ok(Bytes { asked, resident }),
        _ => Err(format!("{kind} with {members}: {said}{}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Makes so many and prints what the process holds then: its clients forgotten, the coordinator alone.
pub fn grow(kind: &str, count: usize) -> Result<(), String> {
    let mut fleet = match kind {
        "classic" => Fleet::classic(count),
        "consumer" => Fleet::consumers(count),
        "shared-out" => Fleet::shared_out(count),
        "names" => Fleet::names(count),
        "pending" => Fleet::pending(count),
        "offsets" => Fleet::offsets(count),
        "groups" => Fleet::groups(count),
        _ => return Err(format!("there is no group of kind {kind}")),
    };
    fleet.forget_clients();
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| format!("/proc/self/status: {error}"))?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    let resident: usize = resident.and_then(|kib| kib.trim().parse().ok()).ok_or("/proc/self/status has no VmRSS")?;
    println!("{} {}", LIVE.load(Relaxed), resident * 1024);
    drop(fleet);
    Ok(())
}
