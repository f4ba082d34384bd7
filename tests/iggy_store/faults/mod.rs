//! Faults between a gateway and its Iggy server, while clients produce, fetch, commit and rebalance: nothing that was
//! acknowledged is lost, nothing of an idempotent producer comes twice, and clients go on by themselves.

mod commit;
mod fetch;
mod gateway_dies;
mod produce;
mod rebalance;
mod waiting;
pub mod writing;

use std::time::Duration;

use crate::common::faulty_links::FaultyLinks;
use crate::common::gateway::{Gateway, Options};
use crate::common::librdkafka::create_topic;
use crate::common::partition::unknown;
use crate::common::raw::Raw;
use crate::common::{LIVENESS, eventually};

const NOT_LEADER_OR_FOLLOWER: i16 = 6;

/// What the gateway waits for Iggy at most.
const IGGY_TIMEOUT: Duration = Duration::from_secs(2);

/// What happens to the links, or to the server behind them.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Every link is cut, and new ones come about at once.
    Cut,
    /// Every link is cut, and for a while there are no new ones.
    Refused,
    /// Nothing gets through for less than the gateway's deadline.
    ShortStall,
    /// Nothing gets through for longer than the gateway's deadline.
    LongStall,
    /// The server sees the end of every link, and its last answers get through.
    HalfClosed,
    /// What was asked happens, and the links break before anybody hears of it.
    AnswersLost,
    /// The server dies, and another process takes its place.
    ServerKilled,
}

impl Fault {
    pub const ALL: [Fault; 7] = [
        Fault::Cut,
        Fault::Refused,
        Fault::ShortStall,
        Fault::LongStall,
        Fault::HalfClosed,
        Fault::AnswersLost,
        Fault::ServerKilled,
    ];
}

/// A gateway, faulty links, and the Iggy server behind these.
pub struct Rig {
    pub gateway: Gateway,
    pub links: FaultyLinks,
    pub server: Gateway,
}

impl Rig {
    /// With this topic.
    pub async fn start(topic: &str, partitions: i32) -> Rig {
        let mut rig = Rig::start_patient(topic, partitions).await;
        rig.hurry();
        rig
    }

    /// With this topic, and with a gateway that waits for Iggy longer than a loaded machine takes: what is still to be
    /// set up must go well. To be followed by [`Rig::hurry`].
    pub async fn start_patient(topic: &str, partitions: i32) -> Rig {
        let server = Gateway::start(Options::new(1).iggy());
        let links = FaultyLinks::to(server.iggy());
        let gateway = Gateway::start(Rig::options(&links, LIVENESS));
        create_topic(&gateway, topic, partitions).await;
        Rig { gateway, links, server }
    }

    /// From now on the gateway waits for Iggy for [`IGGY_TIMEOUT`]: another one takes its place.
    pub fn hurry(&mut self) {
        self.gateway.kill9();
        tokio::task::block_in_place(|| self.start_gateway_again());
    }

    fn options(links: &FaultyLinks, timeout: Duration) -> Options {
        Options::new(2).on_iggy_at(links.address()).set("iggy-timeout", format!("{}s", timeout.as_secs()))
    }

    /// Another gateway takes the place of one that died.
    pub fn start_gateway_again(&mut self) {
        self.gateway.restart(Rig::options(&self.links, IGGY_TIMEOUT));
    }

    /// The server's process dies, and another takes its place.
    pub fn restart_server(&mut self) {
        self.server.kill9();
        self.server.restart(Options::new(1).iggy());
    }

    /// Waits until the gateway knows again where partitions end, as a client does that is told to try again: the SDK
    /// may wait for seconds before it dials a server anew that was away.
    pub async fn until_read_again(&self, topic: &str, partitions: i32) {
        let bootstrap = self.gateway.bootstrap();
        for partition in (0..partitions).map(|partition| unknown(topic).partition(partition)) {
            eventually("the end of a partition is known again", || {
                let answer = tokio::task::block_in_place(|| partition.lookup(&mut Raw::connect(bootstrap), 9, -1).0);
                assert!([0, NOT_LEADER_OR_FOLLOWER].contains(&answer), "{answer}");
                answer == 0
            })
            .await;
        }
    }

    /// A fault from its begin to its end. There must be something on the way all the time.
    pub async fn strike(&mut self, fault: Fault) {
        // How long a fault lasts is part of it.
        let lasts = |time| tokio::time::sleep(time);
        match fault {
            Fault::Cut => self.links.cut(),
            Fault::Refused => {
                self.links.refuse(true);
                self.links.cut();
                lasts(IGGY_TIMEOUT / 2).await;
                self.links.refuse(false);
            }
            Fault::ShortStall => {
                self.links.stall(true);
                lasts(IGGY_TIMEOUT / 4).await;
                self.links.stall(false);
            }
            Fault::LongStall => {
                self.links.stall(true);
                lasts(IGGY_TIMEOUT * 2).await;
                self.links.stall(false);
            }
            Fault::HalfClosed => self.links.half_close(),
            Fault::AnswersLost => {
                let before = self.links.lost();
                self.links.lose_answers(10);
                eventually("ten answers are lost", || self.links.lost() >= before + 10).await;
            }
            Fault::ServerKilled => tokio::task::block_in_place(|| self.restart_server()),
        }
    }
}
