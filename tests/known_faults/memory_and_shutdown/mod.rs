//! Memory, connections that go, and the way down.

mod departures;
mod stops;

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::{GroupId, JoinGroupRequest};

use crate::common::raw::string;

/// A first join of version 3, which makes a member of whom it comes from.
const JOIN_VERSION: i16 = 3;

fn join(group: &str, member: &str, session: Duration) -> JoinGroupRequest {
    let metadata = Bytes::from_static(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let protocol = JoinGroupRequestProtocol::default().with_name(string("range")).with_metadata(metadata);
    JoinGroupRequest::default()
        .with_group_id(GroupId(string(group)))
        .with_member_id(string(member))
        .with_session_timeout_ms(session.as_millis() as i32)
        .with_rebalance_timeout_ms(60_000)
        .with_protocol_type(string("consumer"))
        .with_protocols(vec![protocol])
}
