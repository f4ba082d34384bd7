//! What OffsetFetch tells of offsets that there are and of those that there are not.

use super::{ALL_TOPICS_SINCE, OFFSET_FETCH, fetch, plain};
use crate::common::gateway::{Gateway, Options};
use crate::common::group::{Member, commit};
use crate::common::librdkafka::create_topic;
use crate::common::partition::versions;
use crate::common::raw::Raw;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k086_what_was_never_committed_is_minus_one_and_no_error() {
    let gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "t", 2).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    commit(&mut raw, "some", "t", &[(1, 5)]);
    Member::consumer(&mut raw, "none", &["t"]);
    let doors = gateway.nodes().iter().map(|node| node.addr).chain([gateway.bootstrap()]);
    for mut raw in doors.map(Raw::connect) {
        for version in versions(OFFSET_FETCH) {
            for (group, offset) in [("some", 5), ("none", -1), ("absent", -1), ("", -1)] {
                let (code, told) = fetch(&mut raw, version, group, Some(&[("t", &[0, 1, 99]), ("nowhere", &[0])]));
                let expected = [plain("t", 0, -1), plain("t", 1, offset), plain("t", 99, -1), plain("nowhere", 0, -1)];
                assert_eq!((code, &told[..]), (0, &expected[..]), "version {version}, group {group:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k091_all_offsets_of_a_group_are_told_whether_it_is_empty_active_or_unknown() {
    let mut gateway = Gateway::start(Options::new(2));
    create_topic(&gateway, "t", 3).await;
    create_topic(&gateway, "u", 1).await;
    let mut raw = Raw::connect(gateway.bootstrap());
    for group in ["active", "emptied"] {
        let member = Member::consumer(&mut raw, group, &["t"]);
        assert_eq!(member.commit(&mut raw, "t", &[(0, 5), (2, 6)]), [0, 0]);
        assert_eq!(member.commit(&mut raw, "u", &[(0, 7)]), [0]);
        if group == "emptied" {
            member.leave(&mut raw);
        }
    }
    commit(&mut raw, "simple", "t", &[(1, 8)]);
    for _ in 0..2 {
        let mut raw = Raw::connect(gateway.bootstrap());
        for version in versions(OFFSET_FETCH) {
            let whole = [plain("t", 0, 5), plain("t", 2, 6), plain("u", 0, 7)];
            for (group, expected) in
                [("active", &whole[..]), ("emptied", &whole), ("simple", &[plain("t", 1, 8)]), ("absent", &[])]
            {
                if version >= ALL_TOPICS_SINCE {
                    let (code, mut told) = fetch(&mut raw, version, group, None);
                    told.sort();
                    assert_eq!((code, &told[..]), (0, expected), "version {version}, {group}");
                }
                // A list of none asks for none.
                assert_eq!(fetch(&mut raw, version, group, Some(&[])), (0, vec![]), "version {version}, {group}");
            }
        }
        gateway.kill9();
        gateway.restart(Options::new(3));
    }
}
