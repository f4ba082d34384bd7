//! Records: their bytes, and that no bytes harm their reader.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use ringgate_group::record::{
    GroupMetadata, MemberMetadata, OffsetKey, OffsetValue, RECORD_VERSION, Record, RecordError,
};
use ringgate_group::request::Protocol;
use ringgate_group::{Text, route::Route};

fn encode(record: &Record) -> Vec<u8> {
    let mut payload = Vec::new();
    record.encode(&mut payload);
    payload
}

fn key() -> OffsetKey {
    OffsetKey { group_id: "g".into(), topic: "t".into(), partition: 258 }
}

#[test]
fn the_bytes_of_an_offset_are_as_they_were() {
    let value = OffsetValue {
        offset: 1,
        leader_epoch: -1,
        metadata: "m".into(),
        commit_timestamp_ms: 2,
        topic_id: 3,
        expire_timestamp_ms: -1,
    };
    let mut expected = Vec::new();
    expected.extend(b"\x01\x00g\x01\x00t\x02\x01\x00\x00");
    expected.extend(b"\x01\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff");
    expected.extend(b"\x01\x00\x00\x00m\x02\x00\x00\x00\x00\x00\x00\x00");
    expected.extend(b"\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00");
    expected.extend(b"\xff\xff\xff\xff\xff\xff\xff\xff");
    let record = Record::Offset { key: key(), value };
    assert_eq!((record.kind(), record.version()), (3, 1));
    assert_eq!(encode(&record), expected);
}

#[test]
fn the_bytes_of_a_group_are_as_they_were() {
    let member = MemberMetadata {
        member_id: "m".into(),
        group_instance_id: None,
        client_id: "c".into(),
        client_host: Text::EMPTY,
        session_timeout_ms: 1,
        rebalance_timeout_ms: 2,
        protocols: Arc::new([Protocol { name: "p".into(), metadata: Bytes::from_static(b"xy") }]),
        assignment: Bytes::from_static(b"z"),
    };
    let group = GroupMetadata {
        group_id: "g".into(),
        protocol_type: "consumer".into(),
        generation: 5,
        protocol_name: Some("p".into()),
        leader: Some("m".into()),
        state_timestamp_ms: 6,
        members: vec![member],
    };
    let mut expected = Vec::new();
    expected.extend(b"\x01\x00g\x08\x00consumer\x05\x00\x00\x00\x01\x00p\x01\x00m");
    expected.extend(b"\x06\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00");
    expected.extend(b"\x01\x00m\xff\xff\x01\x00c\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00");
    expected.extend(b"\x01\x00\x01\x00p\x02\x00\x00\x00xy\x01\x00\x00\x00z");
    let record = Record::Group(group);
    assert_eq!(record.kind(), 1);
    assert_eq!(encode(&record), expected);
}

#[test]
fn a_tombstone_has_the_key_of_what_it_ends_and_keys_of_others_differ() {
    let group = Record::Group(GroupMetadata { group_id: "g".into(), ..Default::default() });
    let gone = Record::GroupTombstone { group_id: "g".into() };
    assert_eq!(group.key(), gone.key());
    assert!(gone.is_tombstone() && !group.is_tombstone());
    let offset = Record::OffsetTombstone { key: key() };
    assert_ne!(offset.key(), gone.key());
    // Where one text ends and the next begins is part of the key.
    let keys = [("a", "bc"), ("ab", "c"), ("abc", "")].map(|(group_id, topic)| {
        let key = OffsetKey { group_id: group_id.into(), topic: topic.into(), partition: 0 };
        Record::OffsetTombstone { key }.key()
    });
    assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2]);
    assert_eq!(Route::new(7).group(offset.group_id().as_str()), Route::new(7).group("g"));
}

#[test]
fn unknown_kinds_and_later_versions_are_refused_by_name() {
    let error = Record::decode(9, RECORD_VERSION, b"").unwrap_err();
    assert_eq!(error, RecordError::Unknown { kind: 9, version: RECORD_VERSION });
    assert!(Record::decode(1, RECORD_VERSION + 1, b"").is_err());
    assert!(Record::decode(1, 0, b"").is_err());
}

#[test]
fn a_count_of_members_that_cannot_be_there_allocates_nothing_for_them() {
    let mut payload = encode(&Record::Group(GroupMetadata { group_id: "g".into(), ..Default::default() }));
    let count = payload.len() - 4;
    payload[count..].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(Record::decode(1, 1, &payload), Err(RecordError::Damaged { kind: 1 }));
}

fn text() -> impl Strategy<Value = Text> + Clone {
    ".{0,20}".prop_map(Text::from)
}

fn blob() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..50).prop_map(Bytes::from)
}

prop_compose! {
    fn member()(
        ids in (text(), prop::option::of(text()), text(), text()),
        timeouts in any::<(i32, i32)>(),
        protocols in prop::collection::vec((text(), blob()), 0..4),
        assignment in blob(),
    ) -> MemberMetadata {
        MemberMetadata {
            member_id: ids.0,
            group_instance_id: ids.1,
            client_id: ids.2,
            client_host: ids.3,
            session_timeout_ms: timeouts.0,
            rebalance_timeout_ms: timeouts.1,
            protocols: protocols.into_iter().map(|(name, metadata)| Protocol { name, metadata }).collect(),
            assignment,
        }
    }
}

fn record() -> impl Strategy<Value = Record> {
    let key = (text(), text(), any::<i32>()).prop_map(|(group_id, topic, partition)| OffsetKey {
        group_id,
        topic,
        partition,
    });
    let value = (any::<(i64, i32, i64, u128, i64)>(), text()).prop_map(|(numbers, metadata)| OffsetValue {
        offset: numbers.0,
        leader_epoch: numbers.1,
        metadata,
        commit_timestamp_ms: numbers.2,
        topic_id: numbers.3,
        expire_timestamp_ms: numbers.4,
    });
    let names = (text(), text(), prop::option::of(text()), prop::option::of(text()));
    let group =
        (names, any::<(i32, i64)>(), prop::collection::vec(member(), 0..4)).prop_map(|(names, numbers, members)| {
            Record::Group(GroupMetadata {
                group_id: names.0,
                protocol_type: names.1,
                generation: numbers.0,
                protocol_name: names.2,
                leader: names.3,
                state_timestamp_ms: numbers.1,
                members,
            })
        });
    prop_oneof![
        group,
        text().prop_map(|group_id| Record::GroupTombstone { group_id }),
        (key.clone(), value).prop_map(|(key, value)| Record::Offset { key, value }),
        key.prop_map(|key| Record::OffsetTombstone { key }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(record in record()) {
        let payload = encode(&record);
        prop_assert_eq!(Record::decode(record.kind(), record.version(), &payload), Ok(record.clone()));
        prop_assert!(payload.len() <= record.size_hint() + 64);
    }

    #[test]
    fn every_shorter_or_longer_payload_is_damaged(record in record()) {
        let mut payload = encode(&record);
        let damaged = Err(RecordError::Damaged { kind: record.kind() });
        for end in 0..payload.len() {
            prop_assert_eq!(&Record::decode(record.kind(), 1, &payload[..end]), &damaged);
        }
        payload.push(0);
        prop_assert_eq!(&Record::decode(record.kind(), 1, &payload), &damaged);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(
        record in record(), at in any::<prop::sample::Index>(), by in any::<u8>(), noise in blob(), kind in 0u8..6,
    ) {
        let mut payload = encode(&record);
        let at = at.index(payload.len());
        payload[at] ^= by;
        if let Ok(read) = Record::decode(record.kind(), 1, &payload) {
            prop_assert_eq!(encode(&read), payload);
        }
        if let Ok(read) = Record::decode(kind, 1, &noise) {
            prop_assert_eq!(encode(&read), noise.to_vec());
        }
    }
}
