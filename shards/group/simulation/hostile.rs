//! Clients that nobody should have to deal with: requests at random, many of them in the name of others.

use bytes::Bytes;
use ringgate_group::request::*;
use ringgate_group::{PartitionSet, Request, Response, Text};

use super::client::{Client, Io, Line, Seen, Sent, Status, Wake};
use super::wire::subscription;

/// Sends what it likes.
pub struct Hostile {
    group: Text,
    over: bool,
}

impl Hostile {
    pub fn new(group: Text) -> Hostile {
        Hostile { group, over: false }
    }

    /// Somebody, perhaps with another generation.
    fn victim(io: &mut Io<'_>) -> Seen {
        let mut seen = match io.knowledge.seen.len() as u64 {
            0 => Seen {
                group: "c0".into(),
                member_id: "nobody".into(),
                instance: None,
                generation: 1,
                topics: Vec::new(),
            },
            known => io.knowledge.seen[io.random.below(known) as usize].clone(),
        };
        if io.random.percent(30) {
            seen.generation += io.random.below(4) as i32 - 2;
        }
        if io.random.percent(10) {
            seen.member_id = Text::EMPTY;
        }
        if io.random.percent(10) {
            seen.instance = Some("stranger".into());
        }
        seen
    }

    fn join(io: &mut Io<'_>, victim: Seen) -> Request {
        let topics = [Text::from(*io.random.of(&["c-a", "c-b", "elsewhere"]))];
        let metadata = match io.random.percent(50) {
            // What a static member subscribes to is not looked at when it starts again (KIP-345): whoever subscribes in
            // its name decides what it has until the next rebalance, and the end of the day could not be told.
            _ if victim.instance.is_some() => subscription(&victim.topics, &[]),
            true => subscription(&topics, &[]),
            false => Bytes::from_static(b"\x00\x01garbage"),
        };
        let name = *io.random.of(&["range", "cooperative-sticky", "mine"]);
        Request::Join(JoinGroupRequest {
            api_version: io.random.between(0, 9) as i16,
            group_id: victim.group,
            member_id: victim.member_id,
            group_instance_id: victim.instance,
            protocol_type: (*io.random.of(&["consumer", "connect", ""])).into(),
            protocols: vec![Protocol { name: name.into(), metadata }],
            session_timeout_ms: *io.random.of(&[-1, 0, 6_000, 9_000, i32::MAX]),
            rebalance_timeout_ms: *io.random.of(&[-1, 0, 500, 10_000, i32::MAX]),
            client_id: "x".repeat(io.random.below(400) as usize).into(),
            client_host: "/127.0.0.2".into(),
        })
    }

    fn commit(io: &mut Io<'_>, victim: Seen) -> Request {
        let topic = *io.random.of(&["c-a", "c-b"]);
        let committed_offset = io.next_offset();
        Request::OffsetCommit(OffsetCommitRequest {
            api_version: io.random.between(2, 9) as i16,
            group_id: victim.group,
            generation_id_or_member_epoch: victim.generation,
            member_id: victim.member_id,
            group_instance_id: victim.instance,
            retention_time_ms: -1,
            topics: vec![CommitTopic {
                name: topic.into(),
                topic_id: io.catalogue.id_of(topic),
                partitions: vec![CommitPartition {
                    partition_index: io.random.below(6) as i32,
                    committed_offset,
                    committed_leader_epoch: -1,
                    committed_metadata: io.random.percent(10).then(|| "m".repeat(5_000).into()),
                }],
            }],
        })
    }

    fn consumer(io: &mut Io<'_>, victim: Seen) -> Request {
        let group_id = match io.random.percent(50) {
            true => victim.group,
            false if io.knowledge.consumer_groups.is_empty() => victim.group,
            false => io.random.of(&io.knowledge.consumer_groups).clone(),
        };
        Request::ConsumerGroupHeartbeat(Box::new(ConsumerGroupHeartbeatRequest {
            api_version: 1,
            group_id,
            member_id: format!("hostile-{}", io.random.below(3)).into(),
            member_epoch: *io.random.of(&[-3, -2, -1, 0, 0, 0, 1, 2, 7, i32::MAX]),
            instance_id: io.random.percent(20).then(|| "hostile".into()),
            rebalance_timeout_ms: *io.random.of(&[-1, 0, 5_000, i32::MAX]),
            subscribed_topic_names: Some(vec!["k-a".into(), "nowhere".into()]),
            subscribed_topic_regex: io.random.percent(20).then(|| (*io.random.of(&["k-.*", "(", ""])).into()),
            server_assignor: io.random.percent(20).then(|| (*io.random.of(&["range", "best"])).into()),
            topic_partitions: io.random.percent(80).then_some(PartitionSet::EMPTY),
            ..ConsumerGroupHeartbeatRequest::default()
        }))
    }

    fn request(io: &mut Io<'_>) -> Request {
        let victim = Hostile::victim(io);
        match io.random.below(14) {
            0..3 => Hostile::join(io, victim),
            3 => Request::Sync(SyncGroupRequest {
                api_version: 3,
                group_id: victim.group,
                generation_id: victim.generation,
                assignments: vec![Assignment { member_id: victim.member_id.clone(), assignment: "bogus".into() }],
                member_id: victim.member_id,
                group_instance_id: victim.instance,
                protocol_type: None,
                protocol_name: None,
            }),
            4 | 5 => Request::Heartbeat(HeartbeatRequest {
                group_id: victim.group,
                generation_id: victim.generation,
                member_id: victim.member_id,
                group_instance_id: victim.instance,
            }),
            6 => Request::Leave(LeaveGroupRequest {
                api_version: io.random.between(0, 5) as i16,
                group_id: victim.group,
                members: vec![LeavingMember { member_id: victim.member_id, group_instance_id: victim.instance }],
            }),
            7 | 8 => Hostile::commit(io, victim),
            9 => Request::DescribeGroup(DescribeGroupRequest { api_version: 5, group_id: victim.group }),
            10 => Request::ListGroups(ListGroupsRequest::default()),
            11 => Request::DeleteGroup(DeleteGroupRequest { group_id: victim.group }),
            12 => Request::OffsetDelete(OffsetDeleteRequest {
                group_id: victim.group,
                topics: vec![DeleteTopicOffsets { name: "c-a".into(), partition_indexes: vec![0, 1] }],
            }),
            _ => Hostile::consumer(io, victim),
        }
    }
}

impl Client for Hostile {
    fn name(&self) -> String {
        "hostile".to_owned()
    }

    fn group(&self) -> Text {
        self.group.clone()
    }

    fn begin(&mut self, io: &mut Io<'_>, in_ms: u64) {
        io.wake_in_ms(in_ms, Wake::Come);
    }

    fn woken(&mut self, io: &mut Io<'_>, _: Wake) {
        if self.over {
            return;
        }
        let ms = io.random.between(50, 3_000);
        io.wake_in_ms(ms, Wake::Come);
        if !io.connected {
            io.connect = true;
        }
        for _ in 0..io.random.between(1, 4) {
            let request = Hostile::request(io);
            io.send(Sent::Other, request);
        }
        match io.random.below(20) {
            0 => io.line = Some(Line::Close),
            1 => io.line = Some(Line::Vanish),
            _ => {}
        }
    }

    fn answered(&mut self, _: &mut Io<'_>, _: Sent, _: Response) {}

    fn disconnected(&mut self, _: &mut Io<'_>) {}

    fn calm(&mut self, io: &mut Io<'_>) {
        self.over = true;
        io.line = Some(Line::Close);
    }

    fn farewell(&mut self, _: &mut Io<'_>) {}

    fn status(&self) -> Option<Status> {
        None
    }
}
