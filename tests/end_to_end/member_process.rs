//! A consumer in a process of its own, so that it can die: no leave, no last commit, no FIN in order.
//! The process is this test binary again, told by its environment whom to join.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::eventually;
use crate::common::gateway::Gateway;
use crate::common::member::Member;

const SERVERS: &str = "MEMBER_PROCESS_SERVERS";
const GROUP: &str = "MEMBER_PROCESS_GROUP";
const TOPIC: &str = "MEMBER_PROCESS_TOPIC";
/// Marks the lines that are the process's own, among what the test runner prints.
const MARK: &str = "member-process assigned ";

/// The other end of a consumer process. The process is killed when this is dropped.
pub struct MemberProcess {
    child: Child,
    assigned: Arc<Mutex<usize>>,
}

impl MemberProcess {
    pub fn join(gateway: &Gateway, group: &str, topic: &str) -> MemberProcess {
        let mut child = Command::new(std::env::current_exe().expect("this binary"))
            .args(["--exact", "member_process::consumes_until_it_is_killed", "--ignored", "--nocapture"])
            .env(SERVERS, gateway.servers())
            .env(GROUP, group)
            .env(TOPIC, topic)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("start a consumer process");
        let assigned = Arc::new(Mutex::new(0));
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        std::thread::spawn({
            let assigned = Arc::clone(&assigned);
            move || {
                for line in stdout.lines().map_while(Result::ok) {
                    if let Some((_, count)) = line.split_once(MARK) {
                        *assigned.lock().expect("count") = count.trim().parse().expect("a count");
                    }
                }
            }
        });
        MemberProcess { child, assigned }
    }

    /// Waits until the process says that it has exactly `count` partitions.
    pub async fn until_assigned(&self, count: usize) {
        eventually(&format!("a consumer process gets {count} partitions"), || {
            *self.assigned.lock().expect("count") == count
        })
        .await;
    }

    /// SIGKILL.
    pub fn kill9(mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }
}

impl Drop for MemberProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "not a test: other tests start it as a process of its own"]
async fn consumes_until_it_is_killed() {
    let [Ok(servers), Ok(group), Ok(topic)] = [SERVERS, GROUP, TOPIC].map(std::env::var) else {
        return;
    };
    // Ends with the process that started it, which holds the other end of standard input.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_line(&mut String::new());
        std::process::exit(0);
    });
    let member = Member::join_at(&servers, &group, &[&topic], &[]);
    let mut said = usize::MAX;
    loop {
        let now = member.assignment().len();
        if now != said {
            said = now;
            let mut stdout = std::io::stdout();
            let _ = writeln!(stdout, "\n{MARK}{now}");
            let _ = stdout.flush();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
