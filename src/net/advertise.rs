//! Which nodes clients are told of.
//!
//! In `shards` mode every shard is a Kafka node with a port of its own, so that a stock client walks to
//! the owning core by itself; in `gateway` mode there is one node.

use std::net::SocketAddr;

use ringgate_group::route::ShardId;

/// How the gateway presents itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advertise {
    /// A node for each shard.
    Shards,
    /// One node.
    Gateway,
}

/// A Kafka node as Metadata and FindCoordinator name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// `gateway_id x 1000 + shard`.
    pub id: i32,
    /// Where clients connect.
    pub host: String,
    /// Where clients connect.
    pub port: u16,
}

/// What one listener advertises.
#[derive(Debug, Clone)]
pub struct Advertised {
    /// How the gateway presents itself.
    pub mode: Advertise,
    /// This gateway among others, from 0.
    pub gateway_id: u16,
    /// The name that clients use; `None`: the address that the client's connection was accepted on.
    pub host: Option<String>,
    /// The port that clients use in `gateway` mode, when it is not the listener's own.
    pub gateway_port: Option<u16>,
    /// The port that all shards share.
    pub bootstrap_port: u16,
    /// The shards' own ports, in order; empty in `gateway` mode.
    pub shard_ports: Vec<u16>,
}

impl Advertised {
    /// All nodes, as a client sees them whose connection was accepted at `local`.
    pub fn nodes(&self, local: SocketAddr) -> Vec<Node> {
        match self.mode {
            Advertise::Gateway => vec![self.node_of(ShardId(0), local)],
            Advertise::Shards => {
                (0..self.shard_ports.len()).map(|shard| self.node_of(ShardId(shard as u16), local)).collect()
            }
        }
    }

    /// The node that serves what this shard owns.
    pub fn node_of(&self, shard: ShardId, local: SocketAddr) -> Node {
        let host = self.host.clone().unwrap_or_else(|| local.ip().to_canonical().to_string());
        let port = match self.mode {
            Advertise::Gateway => self.gateway_port.unwrap_or(self.bootstrap_port),
            Advertise::Shards => self.shard_ports[usize::from(shard.0)],
        };
        Node { id: self.id_of(shard), host, port }
    }

    /// The id of the node that serves what this shard owns.
    pub fn id_of(&self, shard: ShardId) -> i32 {
        let base = i32::from(self.gateway_id) * 1000;
        match self.mode {
            Advertise::Gateway => base,
            Advertise::Shards => base + i32::from(shard.0),
        }
    }

    /// The shard whose node has this id: in `gateway` mode the first stands for all.
    pub fn shard_of(&self, id: i32) -> Option<ShardId> {
        let nodes = if self.mode == Advertise::Gateway { 1 } else { self.shard_ports.len() };
        let nth = usize::try_from(id.checked_sub(self.id_of(ShardId(0)))?).ok()?;
        (nth < nodes).then_some(ShardId(nth as u16))
    }

    /// The controller: shard 0's node.
    pub fn controller(&self, local: SocketAddr) -> Node {
        self.node_of(ShardId(0), local)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advertised(mode: Advertise) -> Advertised {
        Advertised {
            mode,
            gateway_id: 3,
            host: None,
            gateway_port: None,
            bootstrap_port: 9092,
            shard_ports: vec![9093, 9094],
        }
    }

    #[test]
    fn shards_mode_names_a_node_for_each_shard_at_the_address_the_client_reached() {
        let nodes = advertised(Advertise::Shards).nodes("10.0.0.7:9092".parse().unwrap());
        let seen: Vec<_> = nodes.iter().map(|n| (n.id, n.host.as_str(), n.port)).collect();
        assert_eq!(seen, [(3000, "10.0.0.7", 9093), (3001, "10.0.0.7", 9094)]);
    }

    #[test]
    fn a_node_is_found_by_its_id() {
        for (mode, there) in [(Advertise::Shards, vec![0, 1]), (Advertise::Gateway, vec![0])] {
            let advertised = advertised(mode);
            let found: Vec<u16> = [i32::MIN, -1, 0, 2999, 3000, 3001, 3002, i32::MAX]
                .iter()
                .filter_map(|&id| advertised.shard_of(id))
                .map(|s| s.0)
                .collect();
            assert_eq!(found, there);
        }
    }

    #[test]
    fn gateway_mode_names_one_node() {
        let nodes = advertised(Advertise::Gateway).nodes("[::1]:9092".parse().unwrap());
        assert_eq!(nodes, [Node { id: 3000, host: "::1".into(), port: 9092 }]);
    }

    #[test]
    fn an_ipv4_client_of_a_dual_stack_socket_is_told_an_ipv4_address() {
        let nodes = advertised(Advertise::Gateway).nodes("[::ffff:10.0.0.7]:9092".parse().unwrap());
        assert_eq!(nodes[0].host, "10.0.0.7");
    }
}
