//! What the listener says of itself and of who asks.

use iggy_binary_protocol::WireEncode;
use iggy_binary_protocol::responses::clients::{ClientDetailsResponse, ClientResponse};
use iggy_binary_protocol::responses::system::{ClusterMetadataResponse, ClusterNodeResponse};

use super::super::frames::Answer;
use super::super::link::Link;
use super::sign_in::ROOT_USER_ID;

/// The one node.
pub const REPLICA: u8 = 0;
const LEADER: u8 = 0;
const HEALTHY: u8 = 0;
const TCP: u8 = 1;

/// One node: this gateway, at the address that the client reached.
pub fn metadata(link: &Link) -> Answer {
    let node = ClusterNodeResponse {
        replica_id: REPLICA,
        name: "ringgate".into(),
        ip: link.local.ip().to_canonical().to_string(),
        tcp_port: link.local.port(),
        quic_port: 0,
        http_port: 0,
        websocket_port: 0,
        role: LEADER,
        status: HEALTHY,
    };
    Answer::read(ClusterMetadataResponse { name: "single-node".into(), nodes: vec![node] }.to_bytes())
}

/// The client that asks. Its number is the lower half of the one that it chose, as far as the field goes.
pub fn me(link: &Link) -> Answer {
    let client = link.bound().map_or(0, |identity| identity.client as u32);
    let client = ClientResponse {
        client_id: client,
        user_id: ROOT_USER_ID,
        transport: TCP,
        address: link.peer.to_string(),
        consumer_groups_count: 0,
    };
    Answer::read(ClientDetailsResponse { client, consumer_groups: Vec::new() }.to_bytes())
}
