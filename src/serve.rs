//! `ringgate serve`: open the store, take the ports, bring the shards up, and take everything down again.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use ringgate_runtime::{BoundListener, BufferPool, Executors, FileThreads, Notified, Notifier, notifier};
use ringgate_shards::Mailroom;
use ringgate_shards::controller::CONTROLLER;
use ringgate_shards::open_files::OpenFiles;
use ringgate_shards::start::Seed;
use ringgate_shards::store::embedded::files::DiskFiles;
use ringgate_shards::store::embedded::{Engine, Opened};
use ringgate_shards::store::iggy::{OpenGroupsError, OpenIggy, OpenIggyError};
use ringgate_shards::waiters::Waiters;

use crate::admin;
use crate::admin::api::Hosts;
use crate::api::ApiSettings;
use crate::api::fetch_sessions::FetchSessions;
use crate::cli::{self, OtherPorts, banner};
use crate::config::Config;
use crate::desks::{Desks, Here};
use crate::held::Held;
use crate::iggy;
use crate::limits::{CONNECTION_LINES_MAX, CONNECTION_LINES_PERIOD, SHARE_OF_LEASE_AT_STOP};
use crate::net::accept::{ConnectionCount, Front, Speaks, accept};
use crate::net::advertise::Advertised;
use crate::net::budget::InFlightBytes;
use crate::net::connection::{Door, Shared};
use crate::net::listeners::{self, Bound, Presentation};
use crate::net::log_budget::LogBudget;
use crate::readiness::Readiness;
use crate::ready_file;
use crate::scrape::{Scrapes, Source};
use crate::watch::Watch;

/// What one shard's thread is given.
struct ShardParts {
    seed: Seed,
    /// Told when all shards are up, so that nobody is asked for what it has not opened yet.
    go: Notified,
    listeners: Vec<(Advertised, Door, BoundListener)>,
    /// Its socket on the port of the Iggy listener.
    iggy: Option<BoundListener>,
}

/// What every shard's thread is given.
#[derive(Clone)]
struct Common {
    config: Arc<Config>,
    api: ApiSettings,
    counts: Arc<ConnectionCount>,
    desks: Arc<Desks>,
    readiness: Arc<Readiness>,
    iggy: Option<Arc<iggy::Gateway>>,
    /// Told when the shard is up.
    up: mpsc::Sender<()>,
}

/// Why the gateway does not serve, or serves no longer.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another gateway coordinates the groups of this Iggy, or has come to.
    #[error("{0}")]
    LeaseHeld(String),
    /// The host refuses what a setting asks for.
    #[error("{0}")]
    Refused(String),
    /// Anything else.
    #[error(transparent)]
    Failed(#[from] io::Error),
}

impl From<OpenIggyError> for ServeError {
    fn from(error: OpenIggyError) -> ServeError {
        match error {
            OpenIggyError::Groups(OpenGroupsError::HeldBy(_)) => ServeError::LeaseHeld(error.to_string()),
            error => ServeError::Failed(io::Error::other(error)),
        }
    }
}

/// Serves until a signal says to stop.
///
/// # Errors
/// What kept the gateway from starting. Once it serves, failures are answered to clients or end the
/// process.
pub fn run(config: Config) -> Result<(), ServeError> {
    let config = Arc::new(config);
    ringgate_runtime::survive_file_size_limit();
    ringgate_runtime::check_host()?;
    let _held = Held::of(&config).map_err(ServeError::Refused)?;
    let embedded = match &config.iggy {
        Some(_) => None,
        None => Some(open_embedded(&config)?),
    };
    let partitions = embedded.as_ref().map_or(0, |opened| opened.engine.catalogue().partition_count());
    crate::rlimits::enough_for_partitions(config.open_files, config.own_open_files(), partitions)
        .map_err(io::Error::other)?;
    let to_share = config.open_files.saturating_sub(config.own_open_files());
    let open_files = Arc::new(OpenFiles::new(usize::try_from(to_share).unwrap_or(usize::MAX), partitions));
    let presentation = presentation(&config);
    let mut bound = Vec::new();
    for address in &config.listen {
        bound.push(listeners::bind(*address, &presentation)?);
    }
    let (iggy_address, iggy_sockets) = match config.iggy_listen {
        Some(address) => {
            let (address, sockets) = listeners::bind_shared(address, config.shards, config.incoming_cpus())?;
            (Some(address), sockets)
        }
        None => (None, Vec::new()),
    };

    // The executors come before every other thread.
    let mut executors = Executors::start(&config.executors())?;
    ringgate_runtime::give_memory_back();
    let signals = signals()?;
    let files = FileThreads::start(config.file_threads)?;
    let desks = Arc::new(Desks::new(usize::from(config.shards)));
    let scrapes = Arc::new(Scrapes::new(desks.clone(), executors.guard().stats().to_vec(), files.clone()));
    let counts =
        Arc::new(ConnectionCount::new(open_files.clone(), config.max_connections, config.max_connections_per_ip));
    let readiness = Arc::new(Readiness::new(config.shards));
    // Before the store is waited for, so that the port can say so.
    let admin = match config.admin_listen {
        Some(address) => {
            let (scrapes, counts, readiness) = (scrapes, counts.clone(), readiness.clone());
            let watch = Watch::new(desks.clone(), scrapes.clone(), counts.clone(), readiness.clone(), config.watch());
            let watch = Arc::new(watch);
            let limits_met = Arc::new(admin::LimitsMet::default());
            let source = Source::new(scrapes, counts, readiness, watch.clone(), limits_met.clone());
            let hosts = Hosts::new(config.admin_hosts.as_deref().unwrap_or_default());
            let api = admin::api::router(watch.clone(), Arc::new(hosts));
            Some((admin::start(address, Arc::new(source), limits_met, api, watch.clone().run())?, watch))
        }
        None => None,
    };
    let (iggy, made_password) = match iggy_address {
        Some(_) => {
            let given = config.iggy_root_password.as_ref().map(|password| password.0.as_str());
            let opened = iggy::password::open(&config.data, given)?;
            (Some(Arc::new(iggy::Gateway::start(opened.password)?)), opened.made)
        }
        None => (None, None),
    };
    let settings = config.shard_settings();
    let capacity = config.mailbox_capacity;
    let mut lease = None;
    let (cluster_id, (mailroom, seeds)) = match (embedded, &config.iggy) {
        (Some(Opened { engine, stores, .. }), _) => {
            let seeds = ringgate_shards::start::seeds(&engine, stores, &settings, &files, capacity, &open_files);
            (engine.cluster_id().to_string(), seeds)
        }
        (None, Some(iggy)) => {
            let gateway = format!("gateway {}", config.gateway_id);
            let (go_on, lost) = (|| signals.has_come().is_none(), signals.sender());
            let lost = move || {
                // Nobody hears it when the gateway has ended.
                let _ = lost.send(LEASE_LOST);
            };
            let iggy = match OpenIggy::open(iggy.clone(), config.shards, &gateway, go_on, lost) {
                Err(OpenIggyError::Stopped) => return Ok(()),
                opened => opened?,
            };
            lease = Some(iggy.lease());
            let cluster_id = iggy.cluster_id();
            (cluster_id, ringgate_shards::start::iggy_seeds(iggy, &settings, &files, capacity, &open_files))
        }
        (None, None) => return Err(io::Error::other("there is no store").into()),
    };
    readiness.store_is_open();
    let advertised: Vec<_> = bound.iter().map(|b| (b.bootstrap, b.advertised.clone())).collect();
    if let Some((_, watch)) = &admin {
        watch.serves(config.about(&cluster_id, &advertised));
    }
    let (up, ups) = mpsc::channel();
    let common = Common {
        api: config.api_settings(&cluster_id),
        counts,
        desks,
        readiness: readiness.clone(),
        iggy,
        config: config.clone(),
        up,
    };
    let (go, waiting): (Vec<Notifier>, Vec<Notified>) = seeds.iter().map(|_| notifier()).unzip();
    let mut parts: Vec<Option<ShardParts>> = parts(seeds, waiting, bound, iggy_sockets).into_iter().map(Some).collect();
    executors.run(|shard| {
        let parts = parts[usize::from(shard)].take();
        let common = common.clone();
        move || async move {
            if let Some(parts) = parts {
                serve_shard(parts, common).await;
            }
        }
    });
    drop(common);
    if ups.iter().take(usize::from(config.shards)).count() < usize::from(config.shards) {
        return Err(io::Error::other("a shard ended while it was started").into());
    }
    go.iter().for_each(Notifier::notify);

    let admin_address = admin.as_ref().map(|(admin, _)| admin.local_addr());
    let others = OtherPorts { iggy: iggy_address, made_password: made_password.as_deref(), admin: admin_address };
    cli::print(&banner(&config, &advertised, &others, &cluster_id))?;
    drop(made_password);
    if let Some(path) = &config.ready_file {
        ready_file::write(path, &advertised, iggy_address)?;
    }
    tracing::info!(shards = config.shards, "serving");

    let stop = signals.wait();
    readiness.stops();
    tracing::info!(signal = stop, "stopping");
    stop_within(&mailroom, config.shutdown_timeout, signals);
    executors.join();
    if let Some((admin, _)) = admin {
        admin.stop();
    }
    if let Some(path) = &config.ready_file {
        // It says that the gateway serves, which is no longer so.
        let _ = std::fs::remove_file(path);
    }
    if let Some(lease) = lease {
        if let Some(owner) = lease.lost_to() {
            return Err(ServeError::LeaseHeld(format!("the lease was lost: {owner} coordinates the groups now")));
        }
        if !lease.release(config.shutdown_timeout / SHARE_OF_LEASE_AT_STOP) {
            tracing::warn!("the lease could not be given back; the next gateway waits until it is over");
        }
    }
    tracing::info!("stopped");
    Ok(())
}

fn open_embedded(config: &Config) -> io::Result<Opened> {
    let opened = Engine::open(Arc::new(DiskFiles), &config.data, config.engine()).map_err(io::Error::other)?;
    if let Some(before) = opened.report.switched_from_shards {
        tracing::info!(before, now = config.shards, "groups and offsets were brought to the present number of shards");
    }
    Ok(opened)
}

fn presentation(config: &Config) -> Presentation {
    Presentation {
        mode: config.advertise,
        gateway_id: config.gateway_id,
        shards: config.shards,
        advertised_host: config.advertised_host.clone(),
        advertised_port: config.advertised_port,
        incoming_cpus: config.incoming_cpus().to_vec(),
    }
}

fn parts(
    seeds: Vec<Seed>,
    waiting: Vec<Notified>,
    bound: Vec<Bound>,
    iggy_sockets: Vec<BoundListener>,
) -> Vec<ShardParts> {
    let seeds = seeds.into_iter().zip(waiting);
    let mut parts: Vec<ShardParts> =
        seeds.map(|(seed, go)| ShardParts { seed, go, listeners: Vec::new(), iggy: None }).collect();
    for (part, socket) in parts.iter_mut().zip(iggy_sockets) {
        part.iggy = Some(socket);
    }
    for Bound { advertised, shared, own, .. } in bound {
        for (shard, listener) in shared.into_iter().enumerate() {
            parts[shard].listeners.push((advertised.clone(), Door::Bootstrap, listener));
        }
        for (shard, listener) in own.into_iter().enumerate() {
            let door = Door::Shard(ringgate_group::route::ShardId(shard as u16));
            parts[shard].listeners.push((advertised.clone(), door, listener));
        }
    }
    parts
}

async fn serve_shard(parts: ShardParts, common: Common) {
    ringgate_runtime::time_slices_by(common.config.slice_clock);
    let running = parts.seed.start().await;
    let shard = running.shard().clone();
    // The receiver is gone only when the start has failed, which ends the process.
    let _ = common.up.send(());
    parts.go.notified().await;
    let config = &common.config;
    let front = Rc::new(Front {
        shard: shard.clone(),
        settings: Rc::new(common.api),
        fetch_sessions: Rc::new(RefCell::new(FetchSessions::new(
            shard.id(),
            config.max_fetch_sessions,
            uuid::Uuid::new_v4().as_fields().0,
        ))),
        shared: Rc::new(Shared {
            limits: config.connection_limits(),
            pool: BufferPool::new(),
            in_flight: Rc::new(InFlightBytes::new(config.max_in_flight_bytes)),
            panics: Cell::new(0),
            requests: Rc::default(),
        }),
        unsent: Rc::default(),
        counts: common.counts,
        next_connection: Cell::new(0),
        open_here: Cell::new(0),
        limit_hits: Rc::default(),
        turned_away: LogBudget::new(CONNECTION_LINES_MAX, CONNECTION_LINES_PERIOD),
        closed: LogBudget::new(CONNECTION_LINES_MAX, CONNECTION_LINES_PERIOD),
        all_closed: Waiters::default(),
    });
    let mut accepting = Vec::new();
    for (advertised, door, listener) in parts.listeners {
        let listener = listener.into_listener();
        accepting.push(ringgate_runtime::spawn_as(
            "accept",
            accept(front.clone(), listener, Speaks::Kafka(Rc::new(advertised), door)),
        ));
    }
    let mut sweep = None;
    let iggy = common.iggy.map(|gateway| Rc::new(iggy::Front::new(gateway)));
    if let (Some(socket), Some(iggy)) = (parts.iggy, &iggy) {
        if shard.id() == CONTROLLER {
            let ending = iggy.gateway.clone().end_sessions(shard.clone());
            sweep = Some(ringgate_runtime::spawn_as("iggy_sessions", ending));
        }
        let listener = socket.into_listener();
        let accepting_iggy = accept(front.clone(), listener, Speaks::Iggy(iggy.clone()));
        accepting.push(ringgate_runtime::spawn_as("accept", accepting_iggy));
    }
    let scrapes = ringgate_runtime::spawn_as("scrapes", common.desks.answer(Here { front: front.clone(), iggy }));
    common.readiness.serves(shard.id());
    shard.stopping().await;
    for task in accepting {
        task.await;
    }
    front.all_closed().await;
    running.finish().await;
    scrapes.cancel().await;
    if let Some(sweep) = sweep {
        sweep.cancel().await;
    }
    running.end().await;
}

/// Tells the shards to stop, and ends the process if they do not in time or a second signal says so.
fn stop_within(mailroom: &Mailroom, timeout: Duration, signals: Signals) {
    mailroom.stop();
    let spawned = std::thread::Builder::new().name("deadline".into()).spawn(move || {
        let deadline = Instant::now() + timeout;
        let why = match signals.wait_until(deadline) {
            Some(signal) => format!("a second signal ({signal})"),
            None => format!("shutdown_timeout = {timeout:?} is over"),
        };
        tracing::warn!(why, "ending at once; what was acknowledged is in the store");
        crate::logging::finish();
        std::process::exit(1);
    });
    if let Err(error) = spawned {
        tracing::warn!(%error, "the stop has no deadline");
    }
}

/// How the loss of the lease is told, among signals.
const LEASE_LOST: &str = "the lease was lost";

/// SIGTERM and SIGINT, as events, and what else ends the gateway.
struct Signals {
    come: Mutex<mpsc::Receiver<&'static str>>,
    sender: mpsc::Sender<&'static str>,
}

fn signals() -> io::Result<Signals> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let (sender, receiver) = mpsc::channel();
    let of_signals = sender.clone();
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            let name = if signal == SIGTERM { "SIGTERM" } else { "SIGINT" };
            if of_signals.send(name).is_err() {
                return;
            }
        }
    })?;
    Ok(Signals { come: Mutex::new(receiver), sender })
}

impl Signals {
    /// For what ends the gateway as a signal does.
    fn sender(&self) -> mpsc::Sender<&'static str> {
        self.sender.clone()
    }

    fn wait(&self) -> &'static str {
        self.come.lock().unwrap_or_else(PoisonError::into_inner).recv().unwrap_or("no signal handler")
    }

    /// One that has come, if any; it is told once.
    fn has_come(&self) -> Option<&'static str> {
        self.come.lock().unwrap_or_else(PoisonError::into_inner).try_recv().ok()
    }

    fn wait_until(&self, deadline: Instant) -> Option<&'static str> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.come.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(left).ok()
    }
}
