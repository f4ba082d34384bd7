//! One process and its threads at a moment, from `/proc/<pid>`.

use std::collections::BTreeMap;
use std::io;

use super::root::{Root, unexpected};

/// What `/proc/<pid>/stat` says, as far as it is of use (proc_pid_stat(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stat {
    /// Its name, at most 15 bytes.
    pub name: String,
    /// `Z` or `X` when it has ended.
    pub state: char,
    /// User CPU time, in clock ticks.
    pub user_ticks: u64,
    /// System CPU time, in clock ticks.
    pub system_ticks: u64,
    /// When it started, in clock ticks since boot: with the id, tells a process from its successors.
    pub started_ticks: u64,
    /// Resident pages, as the kernel counts them on the way: some dozen pages off.
    pub rss_pages: u64,
}

impl Stat {
    pub fn parse(text: &str) -> io::Result<Stat> {
        let wrong = || unexpected("stat", text);
        // The name stands in parentheses and may hold any byte, parentheses too.
        let (before, rest) = text.rsplit_once(')').ok_or_else(wrong)?;
        let (_, name) = before.split_once('(').ok_or_else(wrong)?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The first behind the name is field 3 of the manual.
        let number = |field: usize| fields.get(field - 3).and_then(|text| text.parse().ok()).ok_or_else(wrong);
        Ok(Stat {
            name: name.to_owned(),
            state: fields.first().and_then(|text| text.chars().next()).ok_or_else(wrong)?,
            user_ticks: number(14)?,
            system_ticks: number(15)?,
            started_ticks: number(22)?,
            rss_pages: number(24)?,
        })
    }

    pub fn of_process(root: &Root, pid: u32) -> io::Result<Stat> {
        Stat::parse(&root.text(format!("proc/{pid}/stat"))?)
    }

    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    pub fn rss_bytes(&self) -> u64 {
        self.rss_pages * rustix::param::page_size() as u64
    }
}

/// Seconds in so many clock ticks.
pub(super) fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// A thread's counters since it began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ThreadCounters {
    pub name: String,
    pub cpu_ns: u64,
    /// Time that it was ready and had no CPU; `None` where the kernel does not count it.
    pub run_delay_ns: Option<u64>,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
}

/// A thread: its id and when it started, for ids come back.
pub(super) type ThreadKey = (u32, u64);

/// Every thread's counters. Threads that end meanwhile are left out.
pub(super) fn threads(root: &Root, pid: u32) -> io::Result<BTreeMap<ThreadKey, ThreadCounters>> {
    let mut threads = BTreeMap::new();
    for id in root.names(format!("proc/{pid}/task"))? {
        let Ok(id) = id.parse::<u32>() else { continue };
        let directory = format!("proc/{pid}/task/{id}");
        let Ok(text) = root.text(format!("{directory}/stat")) else { continue };
        let stat = Stat::parse(&text)?;
        let exact = root.text(format!("{directory}/schedstat")).ok().and_then(|text| schedstat(&text));
        let ticks_ns = (seconds(stat.user_ticks + stat.system_ticks) * 1e9) as u64;
        let status = root.text(format!("{directory}/status")).unwrap_or_default();
        let counters = ThreadCounters {
            name: stat.name,
            cpu_ns: exact.map_or(ticks_ns, |(cpu_ns, _)| cpu_ns),
            run_delay_ns: exact.map(|(_, delay_ns)| delay_ns),
            voluntary_switches: status_number(&status, "voluntary_ctxt_switches").unwrap_or(0),
            involuntary_switches: status_number(&status, "nonvoluntary_ctxt_switches").unwrap_or(0),
        };
        threads.insert((id, stat.started_ticks), counters);
    }
    Ok(threads)
}

/// Time on a CPU and time waited for one, in ns.
fn schedstat(text: &str) -> Option<(u64, u64)> {
    let mut fields = text.split_ascii_whitespace().map(|field| field.parse().ok());
    Some((fields.next()??, fields.next()??))
}

/// A number of a `Name:  value` line.
pub(super) fn status_number(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Resident memory to the byte, which the kernel adds up by walking the process's page tables: a millisecond per GB, so
/// it is read at ends of windows and plateaus only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Resident, shared pages whole.
    pub rss_bytes: u64,
    /// Resident, shared pages divided among those that share them.
    pub pss_bytes: u64,
}

/// A process's memory from `smaps_rollup`.
///
/// # Errors
/// It is not there, or is another user's.
pub fn memory(root: &Root, pid: u32) -> io::Result<Memory> {
    let text = root.text(format!("proc/{pid}/smaps_rollup"))?;
    let bytes = |name| status_number(&text, name).map(|kib| kib << 10).ok_or_else(|| unexpected("smaps_rollup", &text));
    Ok(Memory { rss_bytes: bytes("Rss")?, pss_bytes: bytes("Pss")? })
}

/// How many descriptors a process has open.
pub(super) fn descriptors(root: &Root, pid: u32) -> io::Result<u64> {
    let below = format!("proc/{pid}/fd");
    // Since Linux 6.2 the directory's size is their number; to list them takes a lock of the process's table each time.
    let size = std::fs::metadata(root.path(&below))?.len();
    if size > 0 {
        // Where the names may not be listed the size is not told truly either.
        std::fs::read_dir(root.path(&below))?;
        return Ok(size);
    }
    Ok(root.names(&below)?.len() as u64)
}

/// A process's command line, secrets masked.
pub(super) fn command(root: &Root, pid: u32) -> io::Result<String> {
    let text = root.text(format!("proc/{pid}/cmdline"))?;
    let words: Vec<&str> = text.split('\0').filter(|word| !word.is_empty()).collect();
    Ok(super::masked(&words).join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let text =
            "42 (a) (b c) S 1 42 42 0 -1 4194304 1 2 3 4 150 50 7 8 20 0 3 0 9000 1000000 77 18446744073709551615 0";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.name.as_str(), stat.state), ("a) (b c", 'S'));
        assert_eq!((stat.user_ticks, stat.system_ticks, stat.started_ticks, stat.rss_pages), (150, 50, 9000, 77));
        assert!(Stat::parse("42 (cut").is_err());
        assert!(Stat::parse("42 (short) S 1").is_err());
    }

    #[test]
    fn numbers_are_found_by_their_whole_name() {
        let text =
            "Rss:   12 kB\nPss_Dirty: 3 kB\nPss: 4 kB\nnonvoluntary_ctxt_switches:\t5\nvoluntary_ctxt_switches:\t6";
        assert_eq!(status_number(text, "Pss"), Some(4));
        assert_eq!(status_number(text, "voluntary_ctxt_switches"), Some(6));
        assert_eq!(status_number(text, "Swap"), None);
    }

    #[test]
    fn descriptors_of_this_process_are_counted() {
        let root = Root::default();
        let before = descriptors(&root, std::process::id()).unwrap();
        let held: Vec<_> = (0..100).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        let with = descriptors(&root, std::process::id()).unwrap();
        // Other tests of this process open and close a few at the same time.
        assert!(with + 20 >= before + held.len() as u64, "{before} and then {with}");
    }
}
