//! A `ringgate serve` process under test.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};

use super::store::Store;
use super::{LIVENESS, LOOK_AGAIN};

/// The bootstrap port. Below the kernel's ephemeral range, so that no outgoing connection takes it.
const BOOTSTRAP_PORT: u16 = 19_092;
/// The port of the Iggy listener of gateways that have one.
const IGGY_PORT: u16 = 19_090;
/// Held open by the harness while it uses an address.
const LEASE_PORT: u16 = 19_091;

/// `--advertise`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advertise {
    /// Every shard is a node with a port of its own.
    Shards,
    /// One node, one port.
    Gateway,
}

impl Advertise {
    /// The mode of every test that does not choose its own: `RINGGATE_TEST_ADVERTISE` (`shards` or `gateway`),
    /// by default shards. `just full` runs the suite in both.
    pub fn of_this_run() -> Advertise {
        match std::env::var("RINGGATE_TEST_ADVERTISE").as_deref() {
            Err(_) | Ok("shards") => Advertise::Shards,
            Ok("gateway") => Advertise::Gateway,
            Ok(other) => panic!("RINGGATE_TEST_ADVERTISE is {other:?}, allowed are shards and gateway"),
        }
    }
}

/// The gateway's binary: that of this build, or what `RINGGATE_TEST_BINARY` names, a release build for what is
/// measured.
fn binary() -> PathBuf {
    std::env::var_os("RINGGATE_TEST_BINARY").map_or_else(|| env!("CARGO_BIN_EXE_ringgate").into(), PathBuf::from)
}

/// How a gateway is started.
#[derive(Clone, Debug)]
pub struct Options {
    pub shards: usize,
    pub advertise: Advertise,
    /// Where it listens; on the bootstrap port of its own address unless something is here.
    listen: Vec<String>,
    flags: Vec<String>,
    /// The limit of open files, unless it is that of the test.
    open_files: Option<u64>,
    /// Whether it listens for Iggy clients, too.
    iggy: bool,
    store: Store,
    /// Settings of whoever keeps the records: the gateway itself, or the server that it brings along.
    keeping: Vec<(&'static str, String)>,
}

/// The password of the Iggy user of gateways that do not make their own.
pub const IGGY_PASSWORD: &str = "a password of the tests";

impl Options {
    /// `shards` shards, each a node of its own unless [`Advertise::of_this_run`] says otherwise; groups do not
    /// wait for more members before their first rebalance.
    pub fn new(shards: usize) -> Options {
        let flags = vec!["--initial-rebalance-delay=0".into()];
        Options {
            shards,
            advertise: Advertise::of_this_run(),
            listen: Vec::new(),
            flags,
            open_files: None,
            iggy: false,
            store: Store::of_this_run(),
            keeping: Vec::new(),
        }
    }

    /// On the embedded store in every run: no other could pass, and `why` says what the test is about.
    pub fn embedded(self, why: &'static str) -> Options {
        assert!(!why.is_empty());
        Options { store: Store::Embedded, ..self }
    }

    /// On Iggy in every run, whose server the gateway brings along.
    pub fn on_iggy(self) -> Options {
        Options { store: Store::Iggy, ..self }
    }

    /// On the Iggy server at this address.
    pub fn on_iggy_at(self, server: SocketAddr) -> Options {
        Options { store: Store::IggyAt(server), ..self }
    }

    /// On the server that a gateway brings along. The two of them and their clients share a few CPUs with other tests:
    /// what Iggy takes long for there is no fault, unless the test says how long it may.
    fn on_own_server(self, server: &Gateway) -> Options {
        let patient = match self.flags.iter().any(|flag| flag.starts_with("--iggy-timeout=")) {
            true => self,
            false => self.set("iggy-timeout", format!("{}s", LIVENESS.as_secs())),
        };
        patient.on_iggy_at(server.iggy())
    }

    pub fn advertise(mut self, advertise: Advertise) -> Options {
        self.advertise = advertise;
        self
    }

    /// Listens here, too; the first of these takes the place of the gateway's own address.
    pub fn listen(mut self, address: impl std::fmt::Display) -> Options {
        self.listen.push(address.to_string());
        self
    }

    /// Listens for Iggy clients, too, with [`IGGY_PASSWORD`].
    pub fn iggy(self) -> Options {
        Options { iggy: true, store: Store::Embedded, ..self }.set("iggy-root-password", IGGY_PASSWORD)
    }

    /// Without this setting.
    pub fn unset(mut self, name: &str) -> Options {
        self.flags.retain(|flag| !flag.starts_with(&format!("--{name}=")));
        self
    }

    /// Starts it under this limit of open files.
    pub fn open_files(mut self, limit: u64) -> Options {
        self.open_files = Some(limit);
        self
    }

    /// One more setting of whoever keeps the records: the gateway, or its Iggy server when it is the one to look after
    /// retention and the like.
    pub fn set_of_the_store(mut self, name: &'static str, value: impl std::fmt::Display) -> Options {
        self.keeping.push((name, value.to_string()));
        self
    }

    /// Shards go wherever the kernel puts them, beside other tests', unless a test says where.
    fn unpinned(&self) -> Option<&'static str> {
        (!self.flags.iter().any(|flag| flag.starts_with("--cpus="))).then_some("--cpus=none")
    }

    /// The flags of what is set of the store, when that is the gateway's own.
    fn own_keeping(&self) -> Vec<String> {
        match self.store {
            Store::Embedded => self.keeping.iter().map(|(name, value)| format!("--{name}={value}")).collect(),
            Store::Iggy | Store::IggyAt(_) => Vec::new(),
        }
    }

    /// The gateway that is to be the Iggy server of one that is started like this.
    fn server(&self) -> Options {
        self.keeping.iter().fold(Options::new(1).iggy(), |server, (name, value)| server.set(name, value))
    }

    /// One more setting, as `--name=value`, or another value for one that was set before.
    pub fn set(mut self, name: &str, value: impl std::fmt::Display) -> Options {
        self.flags.retain(|flag| !flag.starts_with(&format!("--{name}=")));
        self.flags.push(format!("--{name}={value}"));
        self
    }
}

/// A node that the gateway says it is.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    pub id: i32,
    pub shard: usize,
    pub addr: SocketAddr,
}

/// One listener of a gateway.
#[derive(Clone, Debug)]
pub struct Listener {
    pub bootstrap: SocketAddr,
    pub nodes: Vec<Node>,
}

/// Where a gateway serves: its ready file.
#[derive(Clone, Debug)]
pub struct Ready {
    pub pid: u32,
    /// In the order of the command line, at least one.
    pub listeners: Vec<Listener>,
    /// Where Iggy clients connect.
    pub iggy: Option<SocketAddr>,
}

/// A running gateway, its data directory and its address. All three go when it is dropped.
pub struct Gateway {
    process: Option<Process>,
    ready: Ready,
    options: Options,
    home: tempfile::TempDir,
    ip: Ipv4Addr,
    written: Written,
    /// The gateway whose Iggy listener is this one's store.
    server: Option<Box<Gateway>>,
    _lease: TcpListener,
}

/// What the processes of one gateway wrote, standard output and standard error mixed.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("output")).into_owned()
    }
}

struct Process {
    child: Child,
    readers: Vec<JoinHandle<()>>,
    written: Written,
}

impl Gateway {
    /// Starts a gateway on a data directory and a loopback address of its own; returns when it serves.
    pub fn start(options: Options) -> Gateway {
        let (ip, lease) = lease_address();
        let home = tempfile::tempdir().expect("temporary directory");
        let written = Written::default();
        let (options, server) = match options.store {
            Store::Iggy => {
                let server = Gateway::start(options.server());
                (options.on_own_server(&server), Some(Box::new(server)))
            }
            Store::Embedded | Store::IggyAt(_) => (options, None),
        };
        let mut process = spawn(&options, ip, &data(home.path()), &ready_file(home.path()), &written);
        let ready = process.wait_until_ready(&ready_file(home.path()));
        Gateway { process: Some(process), ready, options, home, ip, written, server, _lease: lease }
    }

    /// The gateway whose Iggy listener is this one's store.
    pub fn server(&mut self) -> &mut Gateway {
        self.server.as_mut().expect("a gateway that brought its Iggy server along")
    }

    /// Starts a gateway that must end; returns how, and what it wrote.
    pub fn start_in_vain(options: &Options) -> (ExitStatus, String) {
        let (ip, _lease) = lease_address();
        let home = tempfile::tempdir().expect("temporary directory");
        start_in_vain(options, ip, &data(home.path()), &ready_file(home.path()))
    }

    /// Starts another gateway on this one's data, at an address of its own. It must end; returns how, and
    /// what it wrote.
    pub fn start_beside_on_the_same_data(&self) -> (ExitStatus, String) {
        let (ip, _lease) = lease_address();
        let elsewhere = tempfile::tempdir().expect("temporary directory");
        start_in_vain(&self.options, ip, &data(self.home.path()), &ready_file(elsewhere.path()))
    }

    /// Starts another gateway at this one's address, on data of its own. It must end; returns how, and
    /// what it wrote.
    pub fn start_beside_at_the_same_address(&self) -> (ExitStatus, String) {
        let elsewhere = tempfile::tempdir().expect("temporary directory");
        start_in_vain(&self.options, self.ip, &data(elsewhere.path()), &ready_file(elsewhere.path()))
    }

    /// Starts a gateway again on the same data and the same ports. The one before must have ended.
    pub fn restart(&mut self, options: Options) {
        assert!(self.process.is_none(), "the gateway still runs");
        let options = self.on_the_same_server(options);
        let home = self.home.path();
        let mut process = spawn(&options, self.ip, &data(home), &ready_file(home), &self.written);
        self.ready = process.wait_until_ready(&ready_file(home));
        self.options = options;
        self.process = Some(process);
    }

    /// Starts a gateway again where it must not start. The one before must have ended; returns how it ended,
    /// and what it wrote.
    pub fn restart_in_vain(&self, options: &Options) -> (ExitStatus, String) {
        assert!(self.process.is_none(), "the gateway still runs");
        let options = &self.on_the_same_server(options.clone());
        let home = self.home.path();
        start_in_vain(options, self.ip, &data(home), &ready_file(home))
    }

    fn on_the_same_server(&self, options: Options) -> Options {
        match (&self.server, options.store) {
            (Some(server), Store::Iggy) => options.on_own_server(server),
            _ => options,
        }
    }

    /// Kills the process as a crash would: nothing is flushed, no connection is closed in order.
    pub fn kill9(&mut self) {
        let mut process = self.process.take().expect("the gateway runs");
        process.child.kill().expect("kill");
        process.end();
    }

    /// Kills it, and its Iggy server if it has one; what they leave must be sound to `ringgate verify`.
    pub fn kill_and_verify(&mut self) {
        self.kill9();
        if let Some(server) = &mut self.server {
            return server.kill_and_verify();
        }
        let verified = Command::new(binary()).arg("verify").arg(self.data()).output().expect("ringgate verify");
        assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    }

    /// Asks the process to stop and returns how it ended.
    pub fn sigterm(&mut self) -> ExitStatus {
        let mut process = self.process.take().expect("the gateway runs");
        let pid = Pid::from_child(&process.child);
        rustix::process::kill_process(pid, Signal::TERM).expect("SIGTERM");
        process.end()
    }

    /// Waits until the process ends by itself; how, and what it wrote.
    pub fn end(&mut self) -> (ExitStatus, String) {
        let mut process = self.process.take().expect("the gateway runs");
        let status = process.end();
        (status, process.written.text())
    }

    /// Asks the process to stop and does not wait for that; [`Gateway::sigterm`] asks again.
    pub fn ask_to_stop(&mut self) {
        let process = self.process.as_ref().expect("the gateway runs");
        let pid = Pid::from_child(&process.child);
        rustix::process::kill_process(pid, Signal::TERM).expect("SIGTERM");
    }

    /// Suspends the process for `time`, as a virtual machine's host may: no connection is lost.
    pub fn suspend(&mut self, time: Duration) {
        self.halt();
        std::thread::sleep(time);
        self.go_on();
    }

    /// Suspends the process until it is told to [`Gateway::go_on`].
    pub fn halt(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a process that was suspended go on.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().expect("the gateway runs");
        rustix::process::kill_process(Pid::from_child(&process.child), signal).expect("a signal");
    }

    /// No file of the process gets past this many bytes: a full disk, as the kernel says it.
    pub fn limit_files(&self, bytes: Option<u64>) {
        let pid = Pid::from_raw(self.ready.pid as i32).expect("a process");
        prlimit(Some(pid), Resource::Fsize, Rlimit { current: bytes, maximum: None }).expect("a limit of file sizes");
    }

    /// Whether the process is still there. A test that sent it something hostile asks.
    pub fn is_alive(&mut self) -> bool {
        let process = self.process.as_mut().expect("the gateway runs");
        process.child.try_wait().expect("wait").is_none()
    }

    /// The data directory, the same after every restart.
    pub fn data(&self) -> PathBuf {
        data(self.home.path())
    }

    /// Resident memory of the process, in KiB.
    pub fn rss(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// The most that it ever was, in KiB.
    pub fn rss_max(&self) -> u64 {
        self.memory("VmHWM:")
    }

    /// Memory that is locked, in KiB.
    pub fn locked(&self) -> u64 {
        self.memory("VmLck:")
    }

    fn memory(&self, what: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.ready.pid)).expect("a live process");
        let line = status.lines().find(|line| line.starts_with(what)).expect("a line of the status");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("KiB")
    }

    /// Descriptors that the process has open, sockets among them.
    pub fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.ready.pid)).expect("a live process").count()
    }

    /// Waits until the gateway has logged a line with all of `parts`, which it does through a thread of its
    /// own, and returns the line.
    pub fn until_logged(&self, parts: &[&str]) -> String {
        let deadline = Instant::now() + LIVENESS;
        loop {
            let written = self.written();
            if let Some(line) = written.lines().find(|line| parts.iter().all(|part| line.contains(part))) {
                return line.to_owned();
            }
            assert!(Instant::now() < deadline, "no line with {parts:?}");
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// The bootstrap address, the same after every restart.
    pub fn bootstrap(&self) -> SocketAddr {
        self.ready.listeners[0].bootstrap
    }

    /// Where Iggy clients connect, the same after every restart.
    pub fn iggy(&self) -> SocketAddr {
        self.ready.iggy.expect("an Iggy listener")
    }

    /// The bootstrap address as clients take it.
    pub fn servers(&self) -> String {
        self.bootstrap().to_string()
    }

    /// The nodes that clients of the first listener are told of.
    pub fn nodes(&self) -> &[Node] {
        &self.ready.listeners[0].nodes
    }

    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The node that a stock client is sent to for what `shard` owns.
    pub fn node_of_shard(&self, shard: usize) -> Node {
        match self.options.advertise {
            Advertise::Gateway => self.nodes()[0],
            Advertise::Shards => *self.nodes().iter().find(|node| node.shard == shard).expect("a node per shard"),
        }
    }

    /// All that the gateway wrote until now, standard output and standard error mixed.
    pub fn written(&self) -> String {
        self.written.text()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.child.kill();
            let _ = process.child.wait();
            for reader in process.readers.drain(..) {
                let _ = reader.join();
            }
        }
        if std::thread::panicking() {
            eprintln!("--- the gateway at {} wrote:\n{}---", self.bootstrap(), self.written());
        }
    }
}

impl Process {
    fn wait_until_ready(&mut self, path: &Path) -> Ready {
        let deadline = Instant::now() + LIVENESS;
        loop {
            if let Ok(text) = std::fs::read(path) {
                let ready = parse_ready(&text);
                assert_eq!(ready.pid, self.child.id(), "the ready file is this process's own");
                return ready;
            }
            let ended = self.child.try_wait().expect("wait");
            if ended.is_some() || Instant::now() > deadline {
                let _ = self.child.kill();
                let status = self.end();
                panic!("the gateway does not serve ({status}), it wrote:\n{}", self.written.text());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Waits for the end of the process; it is killed, and the test fails, when that does not come.
    fn end(&mut self) -> ExitStatus {
        let deadline = Instant::now() + LIVENESS;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                break status;
            }
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                panic!("hung: the gateway does not end, it wrote:\n{}", self.written.text());
            }
            std::thread::sleep(LOOK_AGAIN);
        };
        for reader in self.readers.drain(..) {
            reader.join().expect("reader of the gateway's output");
        }
        status
    }
}

fn start_in_vain(options: &Options, ip: Ipv4Addr, data: &Path, ready_file: &Path) -> (ExitStatus, String) {
    let mut process = spawn(options, ip, data, ready_file, &Written::default());
    let status = process.end();
    assert!(!ready_file.exists(), "a gateway that does not start says that it is ready");
    (status, process.written.text())
}

fn spawn(options: &Options, ip: Ipv4Addr, data: &Path, ready_file: &Path, written: &Written) -> Process {
    // A file left by an earlier process would pass for this one's.
    let _ = std::fs::remove_file(ready_file);
    let binary = binary();
    let mut command = match options.open_files {
        None => Command::new(binary),
        Some(limit) => {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(format!("ulimit -n {limit} && exec \"$0\" \"$@\"")).arg(binary);
            shell
        }
    };
    command
        .arg("serve")
        .args(options.unpinned())
        .arg(format!("--shards={}", options.shards))
        .arg(match options.advertise {
            Advertise::Shards => "--advertise=shards",
            Advertise::Gateway => "--advertise=gateway",
        })
        .arg(format!("--ready-file={}", ready_file.display()))
        .args(&options.flags)
        .args(options.own_keeping())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    match options.store {
        Store::IggyAt(server) => {
            command.arg(format!("--store=iggy://{server}")).arg(format!("--iggy-password={IGGY_PASSWORD}"));
        }
        Store::Iggy | Store::Embedded => {
            command.arg(format!("--data={}", data.display()));
        }
    }
    if options.listen.is_empty() {
        command.arg(format!("--listen={ip}:{BOOTSTRAP_PORT}"));
    }
    if options.iggy {
        command.arg(format!("--iggy-listen={ip}:{IGGY_PORT}"));
    }
    command.args(options.listen.iter().map(|address| format!("--listen={address}")));
    for (name, _) in std::env::vars_os() {
        // What the developer's shell sets for a gateway is not meant for this one.
        if name.to_string_lossy().starts_with("RINGGATE_") {
            command.env_remove(name);
        }
    }
    let mut child = command.spawn().expect("start the gateway");
    let stdout = child.stdout.take().expect("piped");
    let stderr = child.stderr.take().expect("piped");
    let readers = vec![collect(stdout, written.clone()), collect(stderr, written.clone())];
    Process { child, readers, written: written.clone() }
}

fn collect(mut pipe: impl Read + Send + 'static, written: Written) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok(length @ 1..) = pipe.read(&mut buffer) {
            written.0.lock().expect("output").extend_from_slice(&buffer[..length]);
        }
    })
}

/// An address for one more listener, free while the lease lives.
pub fn another_address() -> (SocketAddr, TcpListener) {
    let (ip, lease) = lease_address();
    (SocketAddr::from((ip, BOOTSTRAP_PORT)), lease)
}

/// An address of 127.0.0.0/8 that no other test holds. All of that network is local on Linux.
pub(super) fn lease_address() -> (Ipv4Addr, TcpListener) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..10_000 {
        // Test binaries that run at the same moment start at different places; the lease decides.
        let place = (std::process::id() << 6).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let [_, b, c, d] = place.to_be_bytes();
        let ip = Ipv4Addr::new(127, b.clamp(1, 254), c, d.clamp(1, 254));
        if let Ok(lease) = TcpListener::bind((ip, LEASE_PORT)) {
            return (ip, lease);
        }
    }
    panic!("no free loopback address");
}

fn data(home: &Path) -> PathBuf {
    home.join("data")
}

fn ready_file(home: &Path) -> PathBuf {
    home.join("ready.json")
}

fn parse_ready(text: &[u8]) -> Ready {
    let json: serde_json::Value = serde_json::from_slice(text).expect("the ready file is JSON");
    assert_eq!(json["version"], 1, "version of the ready file");
    let text = |value: &serde_json::Value| value.as_str().expect("a string in the ready file").to_owned();
    let number = |value: &serde_json::Value| value.as_u64().expect("a number in the ready file");
    let listeners = json["listeners"].as_array().expect("listeners in the ready file");
    let iggy = listeners.iter().find_map(|listener| listener["iggy"].as_str());
    let iggy = iggy.map(|address| address.parse().expect("an address in the ready file"));
    let listeners = listeners.iter().filter(|listener| listener["iggy"].is_null()).map(|listener| {
        let bootstrap: SocketAddr = text(&listener["bootstrap"]).parse().expect("an address in the ready file");
        // A name that is only advertised need not resolve on this machine; its port is the one to reach.
        let reachable = |advertised: String| {
            advertised.parse().unwrap_or_else(|_| {
                let (_, port) = advertised.rsplit_once(':').expect("host:port in the ready file");
                SocketAddr::new(bootstrap.ip(), port.parse().expect("a port in the ready file"))
            })
        };
        let nodes = listener["nodes"].as_array().expect("nodes in the ready file").iter().map(|node| Node {
            id: number(&node["id"]) as i32,
            shard: number(&node["shard"]) as usize,
            addr: reachable(text(&node["addr"])),
        });
        Listener { bootstrap, nodes: nodes.collect() }
    });
    Ready { pid: number(&json["pid"]) as u32, listeners: listeners.collect(), iggy }
}
