//! A Kafka listener that answers by a function: blocking threads, one per connection.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{
    ApiKey, ApiVersionsResponse, BrokerId, MetadataRequest, MetadataResponse, RequestHeader,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

/// A request that came.
pub struct Asked {
    pub api: ApiKey,
    pub version: i16,
    pub correlation: i32,
    pub body: Bytes,
}

impl Asked {
    /// The request itself.
    pub fn read<R: Decodable>(&self) -> R {
        R::decode(&mut self.body.clone(), self.version).expect("a request")
    }

    /// The frame of an answer to it.
    pub fn answer(&self, answer: &impl Encodable) -> Does {
        self.answer_of(self.version, answer)
    }

    /// As [`Asked::answer`], in another version.
    pub fn answer_of(&self, version: i16, answer: &impl Encodable) -> Does {
        let mut frame = BytesMut::new();
        frame.put_i32(0);
        frame.put_i32(self.correlation);
        if self.api.response_header_version(version) >= 1 {
            frame.put_u8(0);
        }
        answer.encode(&mut frame, version).expect("an answer");
        let length = frame.len() as i32 - 4;
        frame[..4].copy_from_slice(&length.to_be_bytes());
        Does::Send(frame.freeze())
    }
}

/// What the peer does about a request.
pub enum Does {
    /// Sends these bytes.
    Send(Bytes),
    /// Says nothing.
    Nothing,
    /// Closes the connection.
    Close,
}

/// Starts a listener; gives its address. It lives as long as the process.
pub fn listen(does: impl Fn(Asked) -> Does + Send + Sync + 'static) -> String {
    listen_under(None, does)
}

/// As [`listen`], under TLS if there is a configuration of it.
pub fn listen_under(
    tls: Option<Arc<rustls::ServerConfig>>,
    does: impl Fn(Asked) -> Does + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let does = Arc::new(does);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let (does, tls) = (does.clone(), tls.clone());
            std::thread::spawn(move || match tls {
                None => serve(stream, &*does),
                Some(config) => {
                    let session = rustls::ServerConnection::new(config).expect("a session");
                    serve(rustls::StreamOwned::new(session, stream), &*does);
                }
            });
        }
    });
    address
}

fn serve(mut stream: impl Read + Write, does: &dyn Fn(Asked) -> Does) {
    loop {
        let mut length = [0; 4];
        if stream.read_exact(&mut length).is_err() {
            return;
        }
        let mut frame = vec![0; i32::from_be_bytes(length) as usize];
        if stream.read_exact(&mut frame).is_err() {
            return;
        }
        let mut body = Bytes::from(frame);
        let (key, version) = ((&body[..2]).get_i16(), (&body[2..4]).get_i16());
        let api = ApiKey::try_from(key).expect("a known API");
        let header = RequestHeader::decode(&mut body, api.request_header_version(version)).expect("a header");
        let asked = Asked { api, version, correlation: header.correlation_id, body };
        match does(asked) {
            Does::Send(bytes) => {
                if stream.write_all(&bytes).and_then(|()| stream.flush()).is_err() {
                    return;
                }
            }
            Does::Nothing => {}
            Does::Close => return,
        }
    }
}

/// Answers ApiVersions with all that the codec has, and Metadata: one broker at `address`, every topic that is
/// asked for with two partitions.
pub fn introduce(asked: &Asked, address: &str) -> Option<Does> {
    match asked.api {
        ApiKey::ApiVersions => {
            let all = ApiKey::iter().map(|key| {
                let versions = key.valid_versions();
                ApiVersion::default()
                    .with_api_key(key as i16)
                    .with_min_version(versions.min)
                    .with_max_version(versions.max)
            });
            Some(asked.answer(&ApiVersionsResponse::default().with_api_keys(all.collect())))
        }
        ApiKey::Metadata => {
            let request = asked.read::<MetadataRequest>();
            let topics = request.topics.unwrap_or_default().into_iter().map(|topic| {
                let partition = |index| {
                    MetadataResponsePartition::default().with_partition_index(index).with_leader_id(BrokerId(7))
                };
                MetadataResponseTopic::default().with_name(topic.name).with_partitions([1, 0].map(partition).to_vec())
            });
            let (host, port) = address.rsplit_once(':').expect("an address");
            let broker = MetadataResponseBroker::default()
                .with_node_id(BrokerId(7))
                .with_host(StrBytes::from_string(host.into()))
                .with_port(port.parse().expect("a port"));
            let answer = MetadataResponse::default()
                .with_brokers(vec![broker])
                .with_cluster_id(Some(StrBytes::from_static_str("a cluster")))
                .with_controller_id(BrokerId(7))
                .with_topics(topics.collect());
            Some(asked.answer(&answer))
        }
        _ => None,
    }
}

/// A listener that introduces itself, and does as it is told about the rest.
pub fn broker(does: impl Fn(Asked) -> Does + Send + Sync + 'static) -> String {
    broker_under(None, does)
}

/// As [`broker`], under TLS if there is a configuration of it.
pub fn broker_under(
    tls: Option<Arc<rustls::ServerConfig>>,
    does: impl Fn(Asked) -> Does + Send + Sync + 'static,
) -> String {
    let own = Arc::new(std::sync::OnceLock::<String>::new());
    let known = own.clone();
    let address = listen_under(tls, move |asked| {
        let address = known.wait();
        introduce(&asked, address).unwrap_or_else(|| does(asked))
    });
    own.set(address.clone()).expect("set once");
    address
}
