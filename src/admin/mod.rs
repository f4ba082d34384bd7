//! `--admin-listen`: `/`, a page for people, `/metrics`, `/healthz` and `/readyz` over HTTP, on one control thread.
//!
//! Nothing here reads a shard's state: a [`MetricsSource`] asks the shards and is given a deadline, so that
//! a shard that does not answer fails the scrape and nothing else. Nobody is asked who they are; connections,
//! the time they take to ask and what is asked at a time are bounded, and none of that keeps `/healthz` waiting.

pub mod api;
mod metrics;
mod page;
mod places;

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::sync::{Semaphore, oneshot};

pub use metrics::{CONTENT_TYPE, Family, Kind, Number, exposition};
pub use places::LimitsMet;

use crate::limits::{
    ADMIN_ACCEPT_PAUSE, ADMIN_CONNECTIONS_MAX, ADMIN_HEADER_TIMEOUT, ADMIN_QUESTIONS_MAX, ADMIN_READINESS_MAX,
    ADMIN_SEND_TIMEOUT, ADMIN_STOP_TIMEOUT, SCRAPE_TIMEOUT,
};
use places::Places;

/// Where the admin port gets its answers.
pub trait MetricsSource: Send + Sync + 'static {
    /// Every family now. Dropped unfinished when it takes longer than [`SCRAPE_TIMEOUT`].
    fn scrape(&self) -> Pin<Box<dyn Future<Output = Vec<Family>> + Send + '_>>;

    /// Whether every shard is at work, without asking any.
    ///
    /// # Errors
    /// Which shard is stalled.
    fn health(&self) -> Result<(), String>;

    /// What keeps clients from being served, a sentence each; nothing where they are. Dropped unfinished like a
    /// scrape.
    fn ready(&self) -> Pin<Box<dyn Future<Output = Vec<String>> + Send + '_>>;
}

/// The running admin port; it also ends when this is dropped.
pub struct Admin {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// What the admin port bounds.
struct Bounds {
    scrape_timeout: Duration,
    connections_max: usize,
    questions_max: usize,
    readiness_max: usize,
    header_timeout: Duration,
    send_timeout: Duration,
}

const BOUNDS: Bounds = Bounds {
    scrape_timeout: SCRAPE_TIMEOUT,
    connections_max: ADMIN_CONNECTIONS_MAX,
    questions_max: ADMIN_QUESTIONS_MAX,
    readiness_max: ADMIN_READINESS_MAX,
    header_timeout: ADMIN_HEADER_TIMEOUT,
    send_timeout: ADMIN_SEND_TIMEOUT,
};

/// Takes the port and serves it on a thread of its own, with `more` than is here, and does what is `beside` it there;
/// counts in `met` how often clients met its bounds.
///
/// # Errors
/// The port is taken, by its address, or a thread cannot be had.
pub fn start(
    address: SocketAddr,
    source: Arc<dyn MetricsSource>,
    met: Arc<LimitsMet>,
    more: Router,
    beside: impl Future<Output = ()> + Send + 'static,
) -> io::Result<Admin> {
    start_with(address, source, met, BOUNDS, more, beside)
}

fn start_with(
    address: SocketAddr,
    source: Arc<dyn MetricsSource>,
    met: Arc<LimitsMet>,
    bounds: Bounds,
    more: Router,
    beside: impl Future<Output = ()> + Send + 'static,
) -> io::Result<Admin> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("admin_listen {address}: {error}"));
    let listener = TcpListener::bind(address).map_err(named)?;
    listener.set_nonblocking(true).map_err(named)?;
    let address = listener.local_addr().map_err(named)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let (stop, stopped) = oneshot::channel();
    let at_most = |most| Questions { free: Arc::new(Semaphore::new(most)), met: met.clone() };
    let (questions, readiness) = (at_most(bounds.questions_max), at_most(bounds.readiness_max));
    let router = router(Shared { source, scrape_timeout: bounds.scrape_timeout }, more, questions, readiness);
    let places = Places::new(bounds.connections_max, met);
    let thread = std::thread::Builder::new().name("admin".into()).spawn(move || {
        runtime.block_on(async move {
            tokio::spawn(beside);
            match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => serve(listener, router, places, bounds, stopped).await,
                Err(error) => tracing::error!(%error, "the admin port cannot be served"),
            }
        });
    })?;
    Ok(Admin { address, stop, thread })
}

impl Admin {
    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Finishes the answers under way, within [`ADMIN_STOP_TIMEOUT`].
    pub fn stop(self) {
        // The thread has ended already when nobody receives it.
        let _ = self.stop.send(());
        if self.thread.join().is_err() {
            tracing::error!("the admin thread ended in a panic");
        }
    }
}

async fn serve(
    listener: tokio::net::TcpListener,
    router: Router,
    places: Arc<Places>,
    bounds: Bounds,
    mut stopped: oneshot::Receiver<()>,
) {
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = async {
            let (stream, _) = listener.accept().await?;
            // Only now, since nobody is to be closed for a connection that does not come.
            io::Result::Ok((stream, places.take().await))
        };
        let accepted = tokio::select! {
            accepted = accepted => accepted,
            _ = &mut stopped => break,
        };
        let (stream, (place, needed)) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "the admin port cannot accept");
                tokio::time::sleep(ADMIN_ACCEPT_PAUSE).await;
                continue;
            }
        };
        // The kernel ends what is not taken in time; else a few that read nothing would keep everybody out for good.
        if let Err(error) = SockRef::from(&stream).set_tcp_user_timeout(Some(bounds.send_timeout)) {
            tracing::debug!(%error, "an admin connection failed");
            continue;
        }
        let (routed, its_place) = (TowerToHyperService::new(router.clone()), place.clone());
        let service = service_fn(move |request| {
            let (answering, answer) = (its_place.answering(), routed.call(request));
            async move {
                let _answering = answering;
                answer.await
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(bounds.header_timeout)
            .serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        let served = async move {
            let _place = place;
            tokio::select! {
                biased;
                _ = needed => tracing::debug!("an admin connection gave its place to another"),
                ended = connection => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "an admin connection failed");
                    }
                }
            }
        };
        tokio::spawn(served);
        // It reads what has come before others that wait to be accepted may need its place.
        tokio::task::yield_now().await;
    }
    drop(listener);
    if tokio::time::timeout(ADMIN_STOP_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::warn!("an admin connection was cut off by the stop");
    }
}

#[derive(Clone)]
struct Shared {
    source: Arc<dyn MetricsSource>,
    scrape_timeout: Duration,
}

/// What may be asked at a time of all that takes time.
#[derive(Clone)]
struct Questions {
    free: Arc<Semaphore>,
    met: Arc<LimitsMet>,
}

fn router(shared: Shared, more: Router, questions: Questions, readiness: Questions) -> Router {
    // Health, which waits for nobody, is not among what may be refused.
    let asking = Router::new()
        .route("/metrics", get(metrics_page))
        .with_state(shared.clone())
        .merge(more)
        .route_layer(from_fn_with_state(questions, bounded));
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz).route_layer(from_fn_with_state(readiness, bounded)))
        .merge(page::routes())
        .with_state(shared)
        .merge(asking)
        .fallback(async || {
            (
                StatusCode::NOT_FOUND,
                "there are /, /metrics, /healthz, /readyz, /api/overview, /api/groups and /api/topics\n",
            )
        })
}

async fn bounded(State(questions): State<Questions>, request: Request, next: Next) -> Response {
    let Ok(_permit) = questions.free.try_acquire() else {
        questions.met.questions.fetch_add(1, Ordering::Relaxed);
        let why = "too many requests are being answered: ask again";
        return if request.uri().path().starts_with("/api/") {
            api::unavailable(why)
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response()
        };
    };
    next.run(request).await
}

async fn metrics_page(State(shared): State<Shared>) -> Response {
    match tokio::time::timeout(shared.scrape_timeout, shared.source.scrape()).await {
        Ok(families) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], exposition(&families)).into_response(),
        Err(_) => {
            tracing::warn!(timeout = ?shared.scrape_timeout, "a shard did not answer a scrape");
            (StatusCode::SERVICE_UNAVAILABLE, "a shard did not answer in time\n").into_response()
        }
    }
}

async fn healthz(State(shared): State<Shared>) -> Response {
    match shared.source.health() {
        Ok(()) => "ok\n".into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

async fn readyz(State(shared): State<Shared>) -> Response {
    let missing = tokio::time::timeout(shared.scrape_timeout, shared.source.ready()).await;
    let missing = missing.unwrap_or_else(|_| vec!["a shard did not answer in time".into()]);
    if missing.is_empty() {
        return "ready\n".into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, missing.join("\n") + "\n").into_response()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use std::time::Instant;

    use super::*;

    const CONNECTIONS: usize = 4;
    const QUESTIONS: usize = 2;

    #[derive(Default)]
    struct Source {
        stalled: AtomicBool,
        /// Scrapes that have begun.
        scrapes: AtomicUsize,
        /// As many questions whether it is ready.
        readiness: AtomicUsize,
        /// More of `up`.
        samples: AtomicUsize,
        missing: Mutex<Vec<String>>,
    }

    impl MetricsSource for Source {
        fn scrape(&self) -> Pin<Box<dyn Future<Output = Vec<Family>> + Send + '_>> {
            self.scrapes.fetch_add(1, Ordering::SeqCst);
            Box::pin(async {
                if self.stalled.load(Ordering::SeqCst) {
                    std::future::pending::<()>().await;
                }
                let mut up = Family::gauge("up", "Up.").with(&[], 1u64);
                for _ in 0..self.samples.load(Ordering::SeqCst) {
                    up.push(&[("text", "some more of it")], 1u64);
                }
                vec![up]
            })
        }

        fn health(&self) -> Result<(), String> {
            if self.stalled.load(Ordering::SeqCst) { Err("shard 1 is stalled".into()) } else { Ok(()) }
        }

        fn ready(&self) -> Pin<Box<dyn Future<Output = Vec<String>> + Send + '_>> {
            self.readiness.fetch_add(1, Ordering::SeqCst);
            Box::pin(async {
                if self.stalled.load(Ordering::SeqCst) {
                    std::future::pending::<()>().await;
                }
                self.missing.lock().unwrap().clone()
            })
        }
    }

    /// Deadlines that no test comes to, where it is not about them.
    const BOUNDS: Bounds = Bounds {
        scrape_timeout: Duration::from_millis(50),
        connections_max: CONNECTIONS,
        questions_max: QUESTIONS,
        readiness_max: 1,
        header_timeout: Duration::from_secs(600),
        send_timeout: Duration::from_secs(600),
    };

    fn started(source: &Arc<Source>) -> Admin {
        started_with(source, &Arc::default(), BOUNDS)
    }

    fn started_with(source: &Arc<Source>, met: &Arc<LimitsMet>, bounds: Bounds) -> Admin {
        let any = "127.0.0.1:0".parse().unwrap();
        start_with(any, source.clone(), met.clone(), bounds, Router::new(), async {}).unwrap()
    }

    fn met(met: &LimitsMet, name: &str) -> u64 {
        met.iter().find(|(limit, _)| *limit == name).unwrap().1
    }

    fn connected(admin: &Admin) -> TcpStream {
        let stream = TcpStream::connect(admin.local_addr()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    fn got(admin: &Admin, path: &str) -> String {
        let mut stream = connected(admin);
        write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn metrics_are_served_as_prometheus_text() {
        let admin = started(&Arc::default());
        let answer = got(&admin, "/metrics");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("content-type: text/plain; version=0.0.4"), "{answer}");
        assert!(answer.ends_with("# HELP up Up.\n# TYPE up gauge\nup 1\n"), "{answer}");
        for path in ["/nosuch", "/api"] {
            let answer = got(&admin, path);
            assert!(answer.starts_with("HTTP/1.1 404") && answer.contains(", /api/overview,"), "{answer}");
        }
        admin.stop();
    }

    #[test]
    fn health_fails_with_a_stalled_shard_and_a_scrape_of_it_ends_in_time() {
        let source = Arc::new(Source::default());
        let admin = started(&source);
        assert!(got(&admin, "/healthz").starts_with("HTTP/1.1 200"));
        source.stalled.store(true, Ordering::SeqCst);
        let answer = got(&admin, "/healthz");
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("shard 1 is stalled"), "{answer}");
        assert!(got(&admin, "/metrics").starts_with("HTTP/1.1 503"));
        admin.stop();
    }

    #[test]
    fn readiness_says_all_that_is_missing_and_does_not_wait_for_a_stalled_shard() {
        let source = Arc::new(Source::default());
        let admin = started(&source);
        assert!(got(&admin, "/readyz").ends_with("\r\n\r\nready\n"));
        *source.missing.lock().unwrap() = vec!["one thing".into(), "another".into()];
        let answer = got(&admin, "/readyz");
        assert!(answer.starts_with("HTTP/1.1 503") && answer.ends_with("\r\n\r\none thing\nanother\n"), "{answer}");
        source.stalled.store(true, Ordering::SeqCst);
        let answer = got(&admin, "/readyz");
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("did not answer"), "{answer}");
        admin.stop();
    }

    #[test]
    fn connections_that_read_nothing_give_way_to_others() {
        let source = Arc::new(Source::default());
        source.samples.store(3_000, Ordering::SeqCst);
        let limits = Arc::default();
        let admin = started_with(&source, &limits, BOUNDS);
        let asks = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n".repeat(200);
        let deaf: Vec<TcpStream> = (0..CONNECTIONS).map(|_| connected(&admin)).collect();
        for mut stream in &deaf {
            stream.write_all(asks.as_bytes()).unwrap();
        }
        assert!(got(&admin, "/healthz").starts_with("HTTP/1.1 200"));
        assert_eq!(met(&limits, "connections"), 1);
        drop(deaf);
        admin.stop();
    }

    #[test]
    fn half_requests_that_hold_every_connection_keep_nobody_from_asking_for_health() {
        let limits = Arc::default();
        let admin = started_with(&Arc::default(), &limits, BOUNDS);
        let half: Vec<TcpStream> = (0..CONNECTIONS).map(|_| connected(&admin)).collect();
        for mut stream in &half {
            stream.write_all(b"GET /healthz HTTP/1.1\r\nHo").unwrap();
        }
        for path in ["/healthz", "/readyz", "/metrics"] {
            assert!(got(&admin, path).starts_with("HTTP/1.1 200"), "{path}");
        }
        // The oldest gave its place to the first of the three, which left it to the others.
        assert_eq!(met(&limits, "connections"), 1);
        let mut rest = Vec::new();
        assert!((&half[0]).read_to_end(&mut rest).is_err() || rest.is_empty());
        (&half[1]).write_all(b"st: a\r\nConnection: close\r\n\r\n").unwrap();
        (&half[1]).read_to_end(&mut rest).unwrap();
        assert!(rest.starts_with(b"HTTP/1.1 200"), "the others go on");
        admin.stop();
    }

    #[test]
    fn a_burst_closes_no_connection_whose_request_has_come() {
        let admin = started_with(&Arc::default(), &Arc::default(), BOUNDS);
        for _ in 0..20 {
            let mut first = connected(&admin);
            write!(first, "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
            let burst: Vec<TcpStream> = (0..50).map(|_| connected(&admin)).collect();
            let mut answer = String::new();
            first.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            drop(burst);
        }
        admin.stop();
    }

    #[test]
    fn a_request_that_is_not_sent_whole_in_time_is_given_up() {
        let bounds = Bounds { header_timeout: Duration::from_millis(100), ..BOUNDS };
        let admin = started_with(&Arc::default(), &Arc::default(), bounds);
        let mut half = connected(&admin);
        half.write_all(b"GET /healthz HTTP/1.1\r\nHo").unwrap();
        let mut answer = String::new();
        half.read_to_string(&mut answer).unwrap();
        assert!(!answer.contains("200"), "{answer}");
        admin.stop();
    }

    #[test]
    fn questions_to_shards_that_do_not_answer_are_refused_beyond_some_and_health_is_not() {
        let source = Arc::new(Source::default());
        source.stalled.store(true, Ordering::SeqCst);
        let limits = Arc::default();
        let admin = started_with(&source, &limits, Bounds { scrape_timeout: Duration::from_secs(600), ..BOUNDS });
        let asking: Vec<TcpStream> = (0..QUESTIONS).map(|_| connected(&admin)).collect();
        for mut stream in &asking {
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        }
        let end = Instant::now() + Duration::from_secs(10);
        while source.scrapes.load(Ordering::SeqCst) < asking.len() {
            assert!(Instant::now() < end, "both are asked");
            std::thread::yield_now();
        }
        let mut ready = connected(&admin);
        ready.write_all(b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        while source.readiness.load(Ordering::SeqCst) < 1 {
            assert!(Instant::now() < end, "whether it is ready is asked");
            std::thread::yield_now();
        }
        for path in ["/metrics", "/readyz"] {
            let answer = got(&admin, path);
            assert!(answer.starts_with("HTTP/1.1 503") && answer.ends_with("ask again\n"), "{answer}");
        }
        assert_eq!((met(&limits, "questions"), met(&limits, "connections")), (2, 0));
        assert!(got(&admin, "/healthz").contains("shard 1 is stalled"));
        drop(asking);
        admin.stop();
    }

    #[test]
    fn a_stop_does_not_wait_for_idle_connections_and_frees_the_port() {
        let admin = started(&Arc::default());
        let address = admin.local_addr();
        // Answered once and kept alive.
        let mut idle = connected(&admin);
        write!(idle, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut first = [0; 12];
        idle.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        admin.stop();
        let mut rest = Vec::new();
        idle.read_to_end(&mut rest).unwrap();
        TcpListener::bind(address).unwrap();
    }

    #[test]
    fn a_taken_port_is_refused_by_name() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let error = start(address, Arc::new(Source::default()), Arc::default(), Router::new(), async {})
            .map(|_| ())
            .unwrap_err();
        assert!(error.to_string().contains(&format!("admin_listen {address}")), "{error}");
    }
}
