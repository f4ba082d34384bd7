//! The client against a peer that answers as each test says.

mod calls;
mod peer;
mod pipelines;
mod security;
mod targets;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringgate_client::{CallError, Connection, Options, Security, Target};
use ringgate_runtime::{Config, Executors, Placement};

/// Far above what anything here takes.
const LIVENESS: Duration = Duration::from_secs(30);

/// Runs a test on an executor, and gives what it came to.
fn on_executor<T, F>(test: impl FnOnce() -> F + Send + 'static) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    let config = Config { shards: 1, placement: Placement::Unpinned, spin: Duration::ZERO };
    let mut executors = Executors::start(&config).expect("an executor");
    let came = Arc::new(Mutex::new(None));
    let tell = came.clone();
    let mut test = Some(test);
    executors.run(move |_| {
        let (test, tell) = (test.take().expect("one executor"), tell.clone());
        move || async move {
            let output = ringgate_runtime::timeout(LIVENESS, test()).await.expect("it ends");
            *tell.lock().expect("nobody panics with it") = Some(output);
        }
    });
    executors.join();
    let came = came.lock().expect("nobody panics with it").take();
    came.expect("it has ended")
}

/// A connection on which an answer may take `timeout`, which is short. That bounds the way to it, too: when the peer's
/// threads come late it is made anew.
async fn impatient(options: Options, timeout: Duration) -> Connection {
    let options = Options { request_timeout: timeout, ..options };
    loop {
        let connection = match Target::reach(&options).await {
            Ok(target) => target.connect(&target.bootstrap()[0]).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match connection {
            Ok(connection) => return connection,
            Err(error) => assert!(error.contains(&CallError::TimedOut.to_string()), "{error}"),
        }
    }
}

fn options(bootstrap: &[String]) -> Options {
    Options {
        bootstrap: bootstrap.to_vec(),
        client_id: "a-client",
        request_timeout: LIVENESS,
        in_flight: 2,
        security: Security::default(),
        api_versions: BTreeMap::new(),
        source_ips: Vec::new(),
    }
}
