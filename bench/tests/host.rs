//! What the machine says, against processes with known habits and trees with known files.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ringgate_bench::host::{Root, ServerSampler, environment, environment_of, memory};

/// A shell that runs until it is told otherwise, killed when dropped.
struct Shell(Child);

impl Shell {
    fn running(script: &str) -> Shell {
        let mut shell =
            Shell(Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().expect("sh starts"));
        // It is told as started when its new image is being set up.
        let command = format!("/proc/{}/cmdline", shell.0.id());
        wait_until("sh is there", || {
            shell.0.try_wait().unwrap().is_some() || std::fs::read(&command).is_ok_and(|command| !command.is_empty())
        });
        shell
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Looks every 20 ms, for a minute at most.
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_cpu_of_a_process_is_what_it_burned_and_its_end_is_noticed() {
    // The kernel ends it when it has used five seconds.
    let shell = Shell::running("ulimit -t 5; read go; while :; do :; done");
    let mut sampler = ServerSampler::start(shell.0.id()).unwrap();
    sampler.window_begin();
    shell.0.stdin.as_ref().unwrap().write_all(b"go\n").unwrap();
    let mut rows = Vec::new();
    wait_until("the process ends", || {
        rows.extend(sampler.interval());
        sampler.has_ended()
    });
    let mut cpus: Vec<f64> = rows.iter().map(|row| row.cpu).collect();
    cpus.sort_by(f64::total_cmp);
    // A reader that was interrupted between clock and counters divides a long use by a short time.
    let (usual, most) = (cpus[cpus.len() / 2], cpus[cpus.len() - 1]);
    assert!(most > 0.0 && usual < 2.0, "{usual} cores, {most} at most");
    let server = sampler.finish();
    assert!(server.restarted);
    // It was last seen a little before its end, or seconds on a machine that had no time to look; five seconds are where
    // the kernel looks, at a tick.
    assert!(server.cpu_s > 1.5 && server.cpu_s < 5.5, "{server:?}");
    assert!((server.user_s + server.system_s - server.cpu_s).abs() < 0.1, "{server:?}");
    assert_eq!(server.threads.len(), 1);
    assert!((server.thread_imbalance - 1.0).abs() < 1e-9);
    assert!(server.unread["kernel"].contains("has ended"), "{:?}", server.unread);
}

#[test]
fn a_process_that_sleeps_uses_nothing_and_is_told_in_full() {
    let shell = Shell::running("read go");
    let mut sampler = ServerSampler::start(shell.0.id()).unwrap();
    sampler.window_begin();
    wait_until("it is there", || {
        let row = sampler.interval().unwrap();
        row.rss_bytes > 100 << 10 && row.descriptors >= 3
    });
    sampler.window_end();
    let server = sampler.finish();
    assert!(!server.restarted);
    assert!(server.cpu_s < 0.1, "{server:?}");
    assert!(server.command.starts_with("sh -c read go"), "{}", server.command);
    assert!(server.descriptors >= 3);
    assert!(server.rss_max_bytes >= 100 << 10 && server.rss_end_bytes >= 100 << 10);
    assert!(server.pss_end_bytes.unwrap() <= server.rss_end_bytes);
    for name in ["ListenOverflows", "ListenDrops", "RetransSegs"] {
        assert!(server.kernel.contains_key(name), "{:?}", server.kernel);
    }
}

#[test]
fn memory_that_a_process_takes_is_seen_at_the_windows_end_and_as_its_most() {
    // 32 MiB in a variable.
    let shell = Shell::running("read go; x=$(head -c 33554432 /dev/zero | tr '\\0' x); echo done >&2; read go");
    let root = Root::default();
    let mut sampler = ServerSampler::start(shell.0.id()).unwrap();
    sampler.window_begin();
    shell.0.stdin.as_ref().unwrap().write_all(b"go\n").unwrap();
    wait_until("it has taken its memory", || memory(&root, shell.0.id()).unwrap().rss_bytes > 32 << 20);
    sampler.window_end();
    let server = sampler.finish();
    assert!(server.rss_end_bytes >= server.rss_start_bytes + (30 << 20), "{server:?}");
    assert!(server.rss_max_bytes >= 30 << 20, "{server:?}");
}

#[test]
fn what_was_used_before_the_window_does_not_count() {
    let shell = Shell::running("while :; do :; done");
    let mut sampler = ServerSampler::start(shell.0.id()).unwrap();
    let mut before = 0.0;
    let mut last = Instant::now();
    wait_until("it has burned a while", || {
        let row = sampler.interval().unwrap();
        before += row.cpu * last.elapsed().as_secs_f64();
        last = Instant::now();
        before > 1.0
    });
    let begun = Instant::now();
    sampler.window_begin();
    sampler.window_end();
    let most = begun.elapsed().as_secs_f64() + 0.1;
    let server = sampler.finish();
    assert!(server.cpu_s <= most, "{} of at most {most}", server.cpu_s);
}

#[test]
fn a_process_that_is_not_there_is_an_error() {
    let mut shell = Shell::running("exit");
    shell.0.wait().unwrap();
    assert!(ServerSampler::start(shell.0.id()).is_err());
}

/// A tree whose process 7 has two threads.
fn tree_with_a_server(started: u64, cpu_ns: [u64; 2], retransmitted: u64) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    update(&directory, started, cpu_ns, retransmitted);
    directory
}

fn update(directory: &tempfile::TempDir, started: u64, cpu_ns: [u64; 2], retransmitted: u64) {
    let put = |name: &str, text: String| {
        let path = directory.path().join("proc/7").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Whole at any moment, as the kernel's are: the sampler's thread may be reading.
        std::fs::write(path.with_extension("next"), text).unwrap();
        std::fs::rename(path.with_extension("next"), path).unwrap();
    };
    let stat = |name: &str| {
        format!("7 ({name}) S 1 7 7 0 -1 0 0 0 0 0 100 50 0 0 20 0 2 0 {started} 1000000 77 18446744073709551615 0\n")
    };
    put("stat", stat("server"));
    put("cmdline", "server\0--password\0pw\0".into());
    for (id, cpu_ns) in [7, 8].into_iter().zip(cpu_ns) {
        put(&format!("task/{id}/stat"), stat("shard"));
        put(&format!("task/{id}/schedstat"), format!("{cpu_ns} {} 3\n", cpu_ns / 10));
        let switches = cpu_ns / 1_000_000;
        put(
            &format!("task/{id}/status"),
            format!("voluntary_ctxt_switches:\t{switches}\nnonvoluntary_ctxt_switches:\t{}\n", switches / 2),
        );
    }
    put("net/netstat", "TcpExt: ListenOverflows ListenDrops TCPTimeouts\nTcpExt: 1 2 3\n".into());
    put("net/snmp", format!("Tcp: MaxConn RetransSegs\nTcp: -1 {retransmitted}\n"));
    put("smaps_rollup", "Rss:  400 kB\nPss:  300 kB\n".into());
}

#[test]
fn a_servers_window_is_the_difference_of_its_ends() {
    let tree = tree_with_a_server(90, [1_000_000_000, 2_000_000_000], 5);
    let mut sampler = ServerSampler::start_at(Root::at(tree.path()), 7).unwrap();
    sampler.window_begin();
    update(&tree, 90, [4_000_000_000, 3_000_000_000], 9);
    let row = sampler.interval().unwrap();
    assert_eq!(row.threads.keys().collect::<Vec<_>>(), ["shard/7", "shard/8"]);
    assert!((row.threads["shard/7"] / row.threads["shard/8"] - 3.0).abs() < 1e-9);
    let server = sampler.finish();
    assert_eq!((server.cpu_s, server.thread_imbalance), (4.0, 1.5));
    assert_eq!((server.threads[0].id, server.threads[0].cpu_s), (7, 3.0));
    assert!((server.run_delay_s - 0.4).abs() < 1e-9);
    assert_eq!((server.context_switches, server.involuntary_switches), (4_000 + 2_000, 2_000));
    assert_eq!((server.rss_end_bytes, server.pss_end_bytes), (400 << 10, Some(300 << 10)));
    // Those that did not move are told when they are looked for first.
    assert_eq!(
        server.kernel.iter().map(|(name, by)| (name.as_str(), *by)).collect::<Vec<_>>(),
        [("ListenDrops", 0), ("ListenOverflows", 0), ("RetransSegs", 4)]
    );
    assert_eq!(server.command, "server --password ***");
    // This tree has no control groups and no descriptors to read.
    assert_eq!(server.throttled_periods, None);
    assert_eq!(server.unread.keys().collect::<Vec<_>>(), ["descriptors", "throttled"]);
}

#[test]
fn what_is_used_behind_the_windows_end_does_not_count() {
    let tree = tree_with_a_server(90, [0, 0], 5);
    let mut sampler = ServerSampler::start_at(Root::at(tree.path()), 7).unwrap();
    sampler.window_begin();
    update(&tree, 90, [1_000_000_000, 3_000_000_000], 9);
    sampler.window_end();
    // Answers that are waited for, members that leave, topics that are deleted: intervals show them, the window has none.
    update(&tree, 90, [8_000_000_000, 9_000_000_000], 99);
    assert!(sampler.interval().unwrap().cpu > 0.0);
    sampler.window_end();
    sampler.window_begin();
    let server = sampler.finish();
    assert_eq!((server.cpu_s, server.thread_imbalance), (4.0, 1.5));
    assert_eq!(server.threads.iter().map(|thread| thread.cpu_s).collect::<Vec<_>>(), [3.0, 1.0]);
    assert!((server.run_delay_s - 0.4).abs() < 1e-9);
    assert_eq!((server.context_switches, server.involuntary_switches), (4_000 + 2_000, 2_000));
    assert_eq!(server.kernel["RetransSegs"], 4);
}

#[test]
fn another_process_with_the_same_id_is_not_the_server() {
    let tree = tree_with_a_server(90, [0, 0], 0);
    let mut sampler = ServerSampler::start_at(Root::at(tree.path()), 7).unwrap();
    sampler.window_begin();
    update(&tree, 91, [9_000_000_000, 0], 0);
    assert_eq!(sampler.interval(), None);
    let server = sampler.finish();
    assert!(server.restarted);
    assert_eq!(server.cpu_s, 0.0);
}

#[test]
fn the_environment_of_this_machine_has_the_facts_that_every_linux_has() {
    let command = ["bench", "--sasl-password", "pw"].map(String::from);
    let environment = environment(&command);
    for fact in ["kernel", "memory_bytes", "cpus_allowed", "load_average_at_start", "limits", "sysctls"] {
        assert!(environment.facts.contains_key(fact), "{fact} in {environment:#?}");
    }
    assert!(!serde_json::to_string(&environment).unwrap().contains("\"pw\""));
    assert!(environment.facts["limits"]["Max open files"]["soft"].is_string());
    assert!(environment.facts["sysctls"]["net.core.somaxconn"].is_string());
    let interfaces = environment.facts["network_interfaces"].as_object().unwrap();
    assert!(interfaces.contains_key("lo"));
}

#[test]
fn a_fact_is_as_the_files_have_it_or_absent_with_the_reason() {
    let tree = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = tree.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let cpu = "sys/devices/system/cpu";
    put("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU\nmicrocode\t: 0x12\nflags\t\t: fpu hypervisor\n");
    put(&format!("{cpu}/cpufreq/policy0/scaling_governor"), "performance\n");
    put(&format!("{cpu}/cpufreq/policy1/scaling_governor"), "powersave\n");
    put(&format!("{cpu}/cpufreq/policy2/scaling_governor"), "performance\n");
    put(&format!("{cpu}/intel_pstate/no_turbo"), "1\n");
    for (file, text) in [("name", "C6\n"), ("latency", "133\n"), ("disable", "0\n")] {
        put(&format!("{cpu}/cpu0/cpuidle/state3/{file}"), text);
    }
    put(&format!("{cpu}/vulnerabilities/meltdown"), "Not affected\n");
    put("proc/meminfo", "MemTotal:  2048 kB\nMemAvailable: 1024 kB\nSwapTotal: 0 kB\n");
    put("sys/class/net/eth9/mtu", "9000\n");
    put("sys/class/net/eth9/speed", "25000\n");
    put("sys/class/net/eth9/queues/rx-0/rps_cpus", "0\n");
    put("proc/sys/net/core/somaxconn", "4096\n");

    let facts = environment_of(&Root::at(tree.path()), &[]).facts;
    assert_eq!(facts["cpu_model"], "Some CPU");
    assert_eq!(facts["cpu_is_virtual"], true);
    assert_eq!(facts["cpu_governors"], serde_json::json!({ "performance": 2, "powersave": 1 }));
    assert_eq!(facts["cpu_turbo"], false);
    assert_eq!(facts["cpu_idle_states"]["C6"], serde_json::json!({ "exit_latency_us": 133, "disabled": false }));
    assert_eq!(facts["mitigations"]["meltdown"], "Not affected");
    assert_eq!(facts["memory_bytes"], 2 << 20);
    let eth9 = &facts["network_interfaces"]["eth9"];
    assert_eq!((&eth9["speed_mbit_per_s"], &eth9["receive_queues"]), (&25_000.into(), &1.into()));
    assert_eq!(facts["sysctls"], serde_json::json!({ "net.core.somaxconn": "4096" }));
    for absent in ["kernel", "smt_active", "clock_source", "transparent_huge_pages", "cgroup_cpus"] {
        assert!(!facts.contains_key(absent), "{absent}");
        assert!(facts["unread"][absent].is_string(), "{absent}");
    }
}
