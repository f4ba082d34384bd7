//! Instructions of one member's operations, as callgrind counts them.

use std::process::Command;

use crate::fleet::{Fleet, consumer_join};

/// How many members the groups have.
const SIZES: [usize; 3] = [10, 1_000, 100_000];
/// An operation is done by so many members at most, whose mean is what counts.
const REPEATED_MAX: usize = 500;

const OPERATIONS: [(&str, &str); 10] = [
    ("heartbeat", "Heartbeat"),
    ("commit", "OffsetCommit of one partition"),
    ("sync", "SyncGroup of a follower in a stable group"),
    ("rejoin", "JoinGroup, unchanged, of a follower in a stable group"),
    ("rejoin-preparing", "JoinGroup of a member in a group that prepares a rebalance"),
    ("join-preparing", "JoinGroup of a member that is new there"),
    ("leave-preparing", "LeaveGroup there"),
    ("consumer-heartbeat", "ConsumerGroupHeartbeat without news"),
    ("consumer-commit", "OffsetCommit of one partition in a consumer group"),
    ("consumer-join", "ConsumerGroupHeartbeat of a new member"),
];

/// Prints a row for each operation, with a column for each size.
pub fn table() -> Result<(), String> {
    let columns = SIZES.map(|size| format!(" {size} members |")).concat();
    println!("| Operation |{columns}\n| --- |{}", " ---: |".repeat(SIZES.len()));
    for (operation, title) in OPERATIONS {
        let mut row = format!("| {title} |");
        for members in SIZES {
            row += &format!(" {} |", instructions(operation, members)?);
        }
        println!("{row}");
    }
    Ok(())
}

/// Mean instructions of an operation.
fn instructions(operation: &str, members: usize) -> Result<u64, String> {
    let this = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*Fleet*counted*"])
        .arg(this)
        .args(["count", operation, &members.to_string()])
        .output()
        .map_err(|error| format!("cannot run valgrind: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let failed = || format!("{operation} with {members} members failed:\n{said}");
    if !output.status.success() {
        return Err(failed());
    }
    let collected = said.lines().find_map(|line| line.split("Collected : ").nth(1)).ok_or_else(failed)?;
    let collected: u64 = collected.trim().parse().map_err(|_| failed())?;
    let repeated: u64 = String::from_utf8_lossy(&output.stdout).trim().parse().map_err(|_| failed())?;
    if collected == 0 { Err(failed()) } else { Ok(collected / repeated) }
}

/// Does an operation in a group of this size, under valgrind's eyes, and prints how often.
pub fn count(operation: &str, members: usize) -> Result<(), String> {
    let mut fleet = match operation.starts_with("consumer") {
        true => Fleet::consumers(members),
        false => Fleet::classic(members),
    };
    let is_preparing = operation.ends_with("preparing");
    if is_preparing {
        fleet.prepare_rebalance();
    }
    if operation == "consumer-join" {
        // Targets are made for all members, and not more often than every second: this one has that done.
        fleet.ask(0, consumer_join(2 * members));
    }
    // Neither the leader nor the last of the others, with whose join the rebalance would be over. Members that come
    // must not make it a group of another size.
    let repeated = match operation {
        "join-preparing" | "consumer-join" => (members / 10).clamp(1, REPEATED_MAX),
        _ => (members - 2).min(REPEATED_MAX),
    };
    let stride = (members - 2) / repeated;
    for k in 0..repeated {
        let n = 1 + k * stride;
        let request = match operation {
            "heartbeat" => fleet.heartbeat(n),
            "commit" | "consumer-commit" => fleet.commit(n, n),
            "sync" => fleet.sync(n, false),
            "rejoin" | "rejoin-preparing" => fleet.join_unchanged(n),
            "join-preparing" => fleet.first_join(),
            "leave-preparing" => fleet.leave(n),
            "consumer-heartbeat" => fleet.consumer_heartbeat(n, false),
            "consumer-join" => consumer_join(members + k),
            _ => return Err(format!("there is no operation {operation}")),
        };
        fleet.counted(n, request);
    }
    let parks = is_preparing && operation != "leave-preparing";
    let before = usize::from(operation == "consumer-join");
    assert_eq!(fleet.all_answered_well(), before + if parks { 0 } else { repeated });
    println!("{repeated}");
    Ok(())
}
