//! From settings to what each shard takes with it.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use ringgate_group::route::{Route, ShardId};

use super::clients::{is_refusal, refusal};
use super::controller::{Controller, catalogue};
use super::groups::{self, GroupLog, Holding, Loaded, OpenGroups, OpenGroupsError};
use super::shard::IggyStore;
use super::topics::{self, Cluster};
use super::{Clients, Failure, IggySettings, Lane};
use crate::catalogue::Catalogue;
use crate::store::embedded::data_dir::cluster_id_text;
use crate::topic_config::TopicDefaults;

/// Lanes to an Iggy that was there when they were made.
pub struct OpenIggy {
    settings: Arc<IggySettings>,
    lanes: Vec<Lane>,
    cluster: Cluster,
    /// The topics that the start has found.
    seen: Vec<topics::Seen>,
    groups: OpenGroups,
}

/// The right to coordinate groups, which is given back at the end.
pub struct IggyLease {
    lane: Lane,
    holding: Holding,
}

impl IggyLease {
    /// Gives it back, so that the next gateway need not wait for it to end. Whether that was done in time.
    pub fn release(&self, timeout: Duration) -> bool {
        groups::release(&self.lane, &self.holding, timeout)
    }

    /// Who has it, once it was lost.
    pub fn lost_to(&self) -> Option<String> {
        self.holding.lost_to()
    }
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum OpenIggyError {
    /// It does not take us, and would not if asked again.
    #[error("Iggy at {servers} refuses the gateway: {why} ({failure})")]
    Refused {
        /// Whom was asked.
        servers: String,
        /// What to do about it.
        why: &'static str,
        /// Iggy's code.
        failure: String,
    },
    /// Whoever waited does so no longer.
    #[error("the gateway was stopped while it waited for Iggy")]
    Stopped,
    /// Groups are not coordinated here.
    #[error(transparent)]
    Groups(#[from] OpenGroupsError),
    /// No thread is to be had.
    #[error("no thread for Iggy: {0}")]
    Thread(#[from] io::Error),
}

/// How often somebody who waits for Iggy is asked whether to go on.
const LOOK: Duration = Duration::from_millis(50);

/// The longest pause between two attempts to begin.
const PAUSE_LONGEST: Duration = Duration::from_secs(5);

impl OpenIggy {
    /// Reaches Iggy for so many shards, sees what topics there are, takes the lease and reads what is kept of groups.
    /// Blocks until Iggy is there: a gateway that cannot reach it has nothing to serve. `go_on` is asked meanwhile;
    /// `lost` is called once another gateway has taken the lease, which may happen at any time. `gateway` is what
    /// operators know this one by.
    ///
    /// # Errors
    /// Iggy refuses the gateway, another one holds the lease, or `go_on` says no.
    pub fn open(
        settings: IggySettings,
        shards: u16,
        gateway: &str,
        go_on: impl Fn() -> bool,
        lost: impl Fn() + Send + 'static,
    ) -> Result<OpenIggy, OpenIggyError> {
        let settings = Arc::new(settings);
        let lanes = (0..shards).map(|shard| Lane::start(&format!("iggy-{shard}"), settings.clone()));
        let lanes = lanes.collect::<io::Result<Vec<Lane>>>()?;
        let mut pause = LOOK;
        let (cluster, seen) = loop {
            match first_look(&lanes[0], settings.timeout, &go_on)? {
                Ok(found) => break found,
                Err(failure) if is_refusal(failure) => {
                    let servers = settings.servers.join(",");
                    let (why, failure) = (refusal(failure), failure.to_string());
                    return Err(OpenIggyError::Refused { servers, why, failure });
                }
                Err(failure) => {
                    tracing::warn!(servers = settings.servers.join(","), %failure, "waiting for Iggy");
                    wait(pause, &go_on)?;
                    pause = (pause * 2).min(PAUSE_LONGEST);
                }
            }
        };
        let route = Route::new(shards);
        let groups = match groups::open(&lanes[0], gateway, route, settings.timeout, go_on, lost) {
            Err(OpenGroupsError::Stopped) => return Err(OpenIggyError::Stopped),
            opened => opened?,
        };
        Ok(OpenIggy { seen, settings, lanes, cluster, groups })
    }

    /// The cluster's id in Kafka's form, which is the same for every gateway of this Iggy.
    pub fn cluster_id(&self) -> String {
        cluster_id_text(self.cluster.id)
    }

    /// The lease, to be given back at the end.
    pub fn lease(&self) -> IggyLease {
        IggyLease { lane: self.lanes[0].clone(), holding: self.groups.holding.clone() }
    }

    /// What each shard takes with it.
    pub(crate) fn into_shards(self, defaults: TopicDefaults) -> Vec<IggyShard> {
        let OpenIggy { settings, lanes, cluster, seen, groups } = self;
        let catalogue = Arc::new(catalogue(1, seen, defaults));
        let OpenGroups { holding, loaded } = groups;
        let shard = |(nth, (lane, loaded))| IggyShard {
            settings: settings.clone(),
            lane,
            groups: (holding.clone(), loaded),
            catalogue: catalogue.clone(),
            controller: (nth == 0).then(|| cluster.clone()),
        };
        lanes.into_iter().zip(loaded).enumerate().map(shard).collect()
    }
}

fn wait(pause: Duration, go_on: impl Fn() -> bool) -> Result<(), OpenIggyError> {
    let until = Instant::now() + pause;
    while Instant::now() < until {
        if !go_on() {
            return Err(OpenIggyError::Stopped);
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

type Found = (Cluster, Vec<topics::Seen>);

fn first_look(
    lane: &Lane,
    timeout: Duration,
    go_on: impl Fn() -> bool,
) -> Result<Result<Found, Failure>, OpenIggyError> {
    let deadline = Instant::now() + timeout;
    let answer = lane.call_from_thread(move |clients: Arc<Clients>| async move {
        let cluster = topics::cluster(&clients, deadline).await?;
        let seen = topics::seen(&clients, &cluster, deadline).await?;
        Ok((cluster, seen))
    });
    loop {
        match answer.recv_timeout(LOOK) {
            Ok(found) => return Ok(found),
            Err(RecvTimeoutError::Disconnected) => return Ok(Err(Failure::UNANSWERED)),
            Err(RecvTimeoutError::Timeout) if !go_on() => return Err(OpenIggyError::Stopped),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// What one shard's thread is given.
pub(crate) struct IggyShard {
    settings: Arc<IggySettings>,
    lane: Lane,
    groups: (Holding, Loaded),
    pub(crate) catalogue: Arc<Catalogue>,
    /// Of the shard that looks topics up.
    controller: Option<Cluster>,
}

impl IggyShard {
    /// The store and the log of groups, on their shard's thread.
    pub(crate) fn into_store(self, shard: ShardId, tail_cache_bytes: usize) -> (Rc<IggyStore>, GroupLog) {
        let controller = self.controller.map(|cluster| Controller::new(cluster, self.catalogue));
        let (holding, loaded) = self.groups;
        let log = GroupLog::new(self.lane.clone(), self.settings.clone(), shard, holding, loaded);
        (IggyStore::new(self.lane, self.settings, tail_cache_bytes, controller), log)
    }
}
