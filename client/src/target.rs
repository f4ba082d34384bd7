//! What one executor knows of the system under load.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_protocol::messages::{ApiKey, ApiVersionsRequest};
use kafka_protocol::protocol::{Request, StrBytes};
use ringgate_runtime::{BufferPool, TcpStream};

use super::deadlines::Deadlines;
use super::frames::Heads;
use super::metadata::Topic;
use super::permits::Permits;
use super::sasl::Login;
use super::tls::{Tls, Trust};
use super::transport::Transport;
use super::versions::Versions;
use super::{Address, CallError, ClientError, Connection, Options};
use crate::limits::CONTROL_CONNECTIONS;

/// ApiVersions, and Kafka's code for a version of it that it does not have.
const UNSUPPORTED_VERSION: i16 = 35;

/// What one executor knows of the system under load; a handle.
#[derive(Clone)]
pub struct Target(pub(super) Rc<Inner>);

pub(super) struct Inner {
    pub(super) bootstrap: Vec<Address>,
    pub(super) timeout: Duration,
    pinned: BTreeMap<i16, i16>,
    trust: Option<Trust>,
    login: Option<Login>,
    in_flight: usize,
    client_id: &'static str,
    pool: Rc<BufferPool>,
    deadlines: Deadlines,
    versions: RefCell<Rc<Versions>>,
    /// Local addresses to connect from, in turn; none is the kernel's choice.
    sources: Vec<IpAddr>,
    next_source: Cell<usize>,
    /// What names came to.
    resolved: RefCell<HashMap<Address, SocketAddr>>,
    /// Connections for questions of the client's own that nobody uses now.
    control: RefCell<Vec<Connection>>,
    control_permits: Permits,
    pub(super) topics: RefCell<HashMap<String, Rc<Topic>>>,
    pub(super) about: RefCell<BTreeMap<String, String>>,
}

/// How long the steps of a connection took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Steps {
    /// The TCP handshake.
    pub tcp: Duration,
    /// The TLS handshake, with TLS.
    pub tls: Option<Duration>,
    /// The SASL exchange, with SASL.
    pub sasl: Option<Duration>,
}

impl Target {
    /// Asks the bootstrap addresses, one after the other, until one answers ApiVersions and Metadata.
    ///
    /// # Errors
    /// None does; says of each why.
    pub async fn reach(options: &Options) -> Result<Target, ClientError> {
        let bootstrap = options.bootstrap.iter().map(|text| text.parse()).collect::<Result<Vec<Address>, _>>();
        let target = Target(Rc::new(Inner {
            bootstrap: bootstrap.map_err(ClientError)?,
            timeout: options.request_timeout,
            pinned: options.api_versions.clone(),
            trust: options.security.tls.as_ref().map(Trust::new).transpose()?,
            login: options.security.sasl.clone().map(Login::new),
            in_flight: options.in_flight,
            client_id: options.client_id,
            pool: Rc::default(),
            deadlines: Deadlines::start(options.request_timeout),
            versions: RefCell::default(),
            sources: options.source_ips.clone(),
            next_source: Cell::new(0),
            resolved: RefCell::default(),
            control: RefCell::default(),
            control_permits: Permits::new(CONTROL_CONNECTIONS),
            topics: RefCell::default(),
            about: RefCell::new(about(options)),
        }));
        let mut refused = Vec::new();
        for address in &target.0.bootstrap {
            match target.introduce(address).await {
                Ok(()) => return Ok(target),
                Err(error) => refused.push(format!("{address}: {error}")),
            }
        }
        Err(ClientError(format!("no bootstrap server can be used: {}", refused.join("; "))))
    }

    /// Learns from one broker what it speaks and who else is there.
    async fn introduce(&self, address: &Address) -> Result<(), CallError> {
        let (mut connection, _) = self.open(address).await?;
        let versions = self.ask_versions(&mut connection).await?;
        self.0.about.borrow_mut().insert("api_versions".into(), versions.describe());
        if let Some(login) = &self.0.login {
            login.log_in(&mut connection, &versions).await?;
        }
        *self.0.versions.borrow_mut() = Rc::new(versions);
        self.describe_cluster(&mut connection).await?;
        self.0.control.borrow_mut().push(connection);
        Ok(())
    }

    async fn ask_versions(&self, connection: &mut Connection) -> Result<Versions, CallError> {
        let request = ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str(self.0.client_id))
            .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")));
        // 3 is what every broker since 2.4 has; the answer of an older one is of version 0 (KIP-511).
        let version = self.0.pinned.get(&ApiVersionsRequest::KEY).copied().unwrap_or(3);
        let body = super::frames::body(version, &request)?;
        let mut body = connection.call_raw(ApiVersionsRequest::KEY, version, vec![body]).await?;
        let mut version = version;
        if body.first_chunk::<2>().is_some_and(|code| i16::from_be_bytes(*code) == UNSUPPORTED_VERSION) {
            version = 0;
            body = connection.call_raw(ApiVersionsRequest::KEY, version, vec![Bytes::new()]).await?;
        }
        let answer = super::decode::<ApiVersionsRequest>(body, version)?;
        if answer.error_code != 0 {
            return Err(CallError::Kafka { code: answer.error_code, what: "ApiVersions".into() });
        }
        Ok(Versions::new(&answer.api_keys, &self.0.pinned))
    }

    /// The version of an API that is used: the pinned one, or the highest that both sides have.
    ///
    /// # Errors
    /// There is none; names the API.
    pub fn version(&self, api: ApiKey) -> Result<i16, CallError> {
        self.version_up_to(api, i16::MAX)
    }

    /// As [`Target::version`], for a caller that itself knows versions up to `most` only.
    ///
    /// # Errors
    /// As [`Target::version`].
    pub fn version_up_to(&self, api: ApiKey, most: i16) -> Result<i16, CallError> {
        self.0.versions.borrow().of(api, most)
    }

    /// Whether the target has the API in any version.
    pub fn has(&self, api: ApiKey) -> bool {
        self.0.versions.borrow().has(api)
    }

    /// What the target says it is: cluster id, brokers, versions.
    pub fn about(&self) -> BTreeMap<String, String> {
        self.0.about.borrow().clone()
    }

    /// Where the run was told to begin.
    pub fn bootstrap(&self) -> &[Address] {
        &self.0.bootstrap
    }

    /// How long an answer may take.
    pub fn request_timeout(&self) -> Duration {
        self.0.timeout
    }

    /// Connects to a broker, ready for requests.
    ///
    /// # Errors
    /// It cannot be reached within the request timeout, or does not let this client in.
    pub async fn connect(&self, broker: &Address) -> Result<Connection, CallError> {
        self.connect_timed(broker).await.map(|(connection, _)| connection)
    }

    /// As [`Target::connect`], and says how long each step took.
    ///
    /// # Errors
    /// As [`Target::connect`].
    pub async fn connect_timed(&self, broker: &Address) -> Result<(Connection, Steps), CallError> {
        let (mut connection, mut steps) = self.open(broker).await?;
        if let Some(login) = &self.0.login {
            let began = Instant::now();
            let versions = self.0.versions.borrow().clone();
            login.log_in(&mut connection, &versions).await?;
            steps.sasl = Some(began.elapsed());
        }
        Ok((connection, steps))
    }

    /// A connection on which nobody is known yet.
    async fn open(&self, broker: &Address) -> Result<(Connection, Steps), CallError> {
        let address = self.resolve(broker).await?;
        let deadline = self.0.deadlines.slot();
        let began = Instant::now();
        let due = began + self.0.timeout;
        let stream = deadline.bound(due, self.dial(address)).await?;
        let stream = stream.map_err(|error| match error.kind() {
            io::ErrorKind::AddrNotAvailable => CallError::NoLocalAddress(format!("{broker}: {error}")),
            _ => CallError::ConnectFailed(format!("{broker}: {error}")),
        })?;
        let mut steps = Steps { tcp: began.elapsed(), ..Steps::default() };
        let transport = match &self.0.trust {
            None => Transport::Plain(stream),
            Some(trust) => {
                let began = Instant::now();
                let shaken = Tls::shake_hands(stream, &broker.host, trust, &self.0.pool);
                let tls = deadline.bound(began + self.0.timeout, shaken).await??;
                steps.tls = Some(began.elapsed());
                Transport::Tls(Box::new(tls))
            }
        };
        let heads = Heads::of(self.0.client_id);
        let (pool, in_flight) = (self.0.pool.clone(), self.0.in_flight);
        Ok((Connection::new(transport, broker.clone(), pool, deadline, in_flight, heads), steps))
    }

    async fn dial(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let sources = &self.0.sources;
        let Some(&source) = sources.get(self.0.next_source.get()) else {
            return TcpStream::connect(address).await;
        };
        self.0.next_source.set((self.0.next_source.get() + 1) % sources.len());
        TcpStream::connect_from(source, address).await
    }

    /// A name's first address. Names are looked up once, on a thread of their own: that may take seconds.
    async fn resolve(&self, broker: &Address) -> Result<SocketAddr, CallError> {
        if let Some(address) = self.0.resolved.borrow().get(broker) {
            return Ok(*address);
        }
        let address = match broker.host.parse() {
            Ok(ip) => SocketAddr::new(ip, broker.port),
            Err(_) => {
                let (tell, told) = ringgate_runtime::oneshot();
                let name = (broker.host.clone(), broker.port);
                let failed = |why: String| CallError::ConnectFailed(format!("{broker} cannot be looked up: {why}"));
                let look_up = move || {
                    let found = name.to_socket_addrs().map(|mut all| all.next()).map_err(|error| error.to_string());
                    // Nobody may be waiting any more.
                    let _ = tell.send(found);
                };
                let thread = std::thread::Builder::new().name("look-up".into()).spawn(look_up);
                thread.map_err(|error| failed(error.to_string()))?;
                let found = told.await.map_err(|gone| failed(gone.to_string()))?;
                found.map_err(failed)?.ok_or_else(|| failed("it has no address".into()))?
            }
        };
        self.0.resolved.borrow_mut().insert(broker.clone(), address);
        Ok(address)
    }

    /// Asks some broker, over a connection that is kept for questions like this.
    ///
    /// # Errors
    /// None answers.
    pub async fn ask<R: Request>(&self, version: i16, request: &R) -> Result<R::Response, CallError> {
        let _permit = self.0.control_permits.take().await;
        let kept = self.0.control.borrow_mut().pop();
        if let Some(mut connection) = kept {
            // A broker closes what is idle for long, and one that was restarted has closed everything.
            match connection.call(version, request).await {
                Ok(answer) => {
                    self.0.control.borrow_mut().push(connection);
                    return Ok(answer);
                }
                Err(CallError::Disconnected) => {}
                Err(error) => return Err(error),
            }
        }
        let mut last = CallError::Disconnected;
        for address in &self.0.bootstrap {
            match self.connect(address).await {
                Ok(mut connection) => {
                    let answer = connection.call(version, request).await?;
                    self.0.control.borrow_mut().push(connection);
                    return Ok(answer);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// How connections are secured, for whoever reports it.
fn about(options: &Options) -> BTreeMap<String, String> {
    let mut about = BTreeMap::new();
    if let Some(tls) = &options.security.tls {
        let checked =
            if tls.insecure { "any certificate was taken (--tls-insecure)" } else { "the certificate was checked" };
        about.insert("tls".into(), checked.into());
    }
    about
}
