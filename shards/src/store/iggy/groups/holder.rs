//! The lease, carried out: taken at the start, renewed while the gateway runs, given back at its end.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::super::limits::LEASE_CALL_TIMEOUT;
use super::super::{Clients, Lane};
use super::lease::{Process, Step};
use super::{Lease, Owner, SideMessage, side_topic};

/// The partition of the side topic whose messages decide who has the lease.
pub(super) const LEASE_PARTITION: u16 = 0;

/// Chooses the client that writes leases: another one than writes the groups of that partition, if there are two.
const LEASE_CLIENT: u64 = LEASE_PARTITION as u64 + 1;

/// What everybody in the gateway sees of the lease.
#[derive(Debug, Clone)]
pub(crate) struct Holding(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    start: Instant,
    /// Ms since `start`; 0: not held.
    valid_until_ms: AtomicU64,
    term: AtomicU64,
    end: watch::Sender<End>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    No,
    /// It is to be given back.
    Wanted,
    Released,
    /// Somebody else has it, by this name.
    Lost(String),
}

impl Holding {
    pub(super) fn new() -> Holding {
        let end = watch::channel(End::No).0;
        let valid_until_ms = AtomicU64::new(0);
        Holding(Arc::new(Shared { start: Instant::now(), valid_until_ms, term: AtomicU64::new(0), end }))
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.0.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Until when groups may be answered, if that is still to come.
    pub(crate) fn valid_until(&self) -> Option<Instant> {
        let until = self.0.start + Duration::from_millis(self.0.valid_until_ms.load(Ordering::Acquire));
        (Instant::now() < until).then_some(until)
    }

    /// Whether groups may be answered.
    pub(crate) fn is_valid(&self) -> bool {
        self.valid_until().is_some()
    }

    /// The lease's number, which later ones exceed.
    pub(super) fn term(&self) -> u64 {
        self.0.term.load(Ordering::Acquire)
    }

    fn publish(&self, lease: &Lease) {
        if let Some(term) = lease.term() {
            self.0.term.store(term, Ordering::Release);
        }
        self.0.valid_until_ms.store(lease.valid_until_ms().unwrap_or(0), Ordering::Release);
    }

    fn ends(&self, end: End) {
        self.0.valid_until_ms.store(0, Ordering::Release);
        self.0.end.send_replace(end);
    }

    /// Who has the lease, once this gateway has lost it.
    pub(crate) fn lost_to(&self) -> Option<String> {
        match &*self.0.end.borrow() {
            End::Lost(owner) => Some(owner.clone()),
            End::No | End::Wanted | End::Released => None,
        }
    }
}

/// Takes the lease. `Err` is the name of who has it.
pub(super) async fn take(clients: &Clients, lease: &mut Lease, holding: &Holding) -> Result<(), String> {
    let mut said = false;
    while !holding.is_valid() {
        if let Some(owner) = lease.other_holder().filter(|_| !said) {
            said = true;
            tracing::info!(owner = owner.name, "another gateway has the lease: waiting whether it renews it");
        }
        match step(clients, lease, holding).await {
            None => {}
            Some(End::Lost(owner)) => return Err(owner),
            Some(End::No | End::Wanted | End::Released) => return Err("nobody: it was given back".into()),
        }
    }
    Ok(())
}

/// Renews the lease until it is lost or given back. `lost` is called when it is lost, and groups are answered no more.
pub(super) async fn keep(clients: Arc<Clients>, mut lease: Lease, holding: Holding, lost: impl Fn()) {
    let mut wanted = holding.0.end.subscribe();
    let end = loop {
        if *wanted.borrow_and_update() == End::Wanted {
            lease.release();
        }
        if let Some(end) = step(&clients, &mut lease, &holding).await {
            break end;
        }
    };
    let is_lost = matches!(end, End::Lost(_));
    holding.ends(end);
    if is_lost {
        lost();
    }
}

/// Does the next thing; how it ended, when it did.
async fn step(clients: &Clients, lease: &mut Lease, holding: &Holding) -> Option<End> {
    let deadline = Instant::now() + LEASE_CALL_TIMEOUT;
    match lease.poll(holding.now_ms(), is_gone) {
        Step::Read { from } => {
            let read = side_topic::read(clients, LEASE_PARTITION, from, deadline).await;
            let read = read.inspect_err(|failure| tracing::warn!(%failure, "the lease cannot be looked at"));
            lease.handle_read(holding.now_ms(), read.ok().as_ref().map(|read| &read.messages[..]));
        }
        Step::Append(record) => {
            let payload = SideMessage::Lease(record).encode();
            let appended = side_topic::append(clients, LEASE_PARTITION, LEASE_CLIENT, &[payload], deadline).await;
            let appended = appended.inspect_err(|why| tracing::warn!(?why, "the lease cannot be written"));
            lease.handle_appended(holding.now_ms(), appended.ok().flatten());
        }
        Step::Wait(until_ms) => {
            let mut wanted = holding.0.end.subscribe();
            let wait = Duration::from_millis(until_ms.saturating_sub(holding.now_ms()));
            let is_wanted = async {
                let _ = wanted.wait_for(|end| *end == End::Wanted).await;
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = is_wanted, if *holding.0.end.borrow() == End::No => {}
            }
        }
        Step::Refused(owner) => return Some(End::Lost(owner.name)),
        Step::Released => return Some(End::Released),
    }
    holding.publish(lease);
    None
}

/// Ends what [`keep`] does, from a thread that waits for it.
pub(super) fn release(lane: &Lane, holding: &Holding, timeout: Duration) -> bool {
    holding.0.valid_until_ms.store(0, Ordering::Release);
    let is_held = holding.0.end.send_if_modified(|end| {
        let is_held = *end == End::No;
        if is_held {
            *end = End::Wanted;
        }
        is_held
    });
    if !is_held {
        return false;
    }
    let mut end = holding.0.end.subscribe();
    let released = lane.call_from_thread(move |_| async move {
        let _ = end.wait_for(|end| matches!(end, End::Released | End::Lost(_))).await;
        Ok(())
    });
    matches!(released.recv_timeout(timeout), Ok(Ok(())))
}

/// This run of the gateway.
pub(super) fn me(gateway: &str) -> Owner {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = format!("{gateway}, process {} on host {}", std::process::id(), host.trim());
    Owner { id: uuid::Uuid::new_v4().as_u128(), name, process: this_process() }
}

fn this_process() -> Option<Process> {
    let pid = std::process::id();
    Some(Process { boot: boot()?, pid_namespace: pid_namespace()?, pid, started: started(pid)? })
}

fn boot() -> Option<u128> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    uuid::Uuid::parse_str(boot.trim()).ok().map(|boot| boot.as_u128())
}

fn pid_namespace() -> Option<u64> {
    fs::metadata("/proc/self/ns/pid").ok().map(|namespace| namespace.ino())
}

/// When a process that has not ended started; `None` where there is none.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may have anything in it.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    let started = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(started)
}

/// Whether the holder's process has ended for sure: it ran where this one can see it, and is not there.
fn is_gone(owner: &Owner) -> bool {
    let Some(process) = owner.process else { return false };
    let is_seen = boot() == Some(process.boot) && pid_namespace() == Some(process.pid_namespace);
    is_seen && fs::exists("/proc/self/stat").unwrap_or(false) && started(process.pid) != Some(process.started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_gone_when_it_has_ended_and_not_before() {
        let own = me("gateway 1");
        assert!(!is_gone(&own));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process { pid: child.id(), started: started(child.id()).unwrap(), ..own.process.unwrap() };
        let other = Owner { process: Some(process), ..own.clone() };
        assert!(!is_gone(&other));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_gone(&other));
        let elsewhere = Process { boot: 1, ..process };
        assert!(!is_gone(&Owner { process: Some(elsewhere), ..own }), "it may run on another machine");
    }
}
