//! The host files: what is in them is what the checks want, and what their readers take.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ringgate_tuning::files::{FILES, write};
use ringgate_tuning::{Fix, Host, Plan, Profile, report};

/// What depends on the host's memory, its cards, or the gateway's connections and ports, and so is in no file for all
/// hosts.
const OF_ONE_HOST: [&str; 7] = [
    "net.ipv4.tcp_mem",
    // Only where the gateway's ports are reserved.
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.core.rps_sock_flow_entries",
    "fs.nr_open",
    "fs.file-max",
    "kernel.threads-max",
];

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("files").join(name)
}

/// Every sysctl that the checks change on hosts as distributions leave them, with why.
fn sysctl_conf() -> String {
    let mut values: BTreeMap<String, (String, &str)> = BTreeMap::new();
    for tree in ["bare_metal", "vm"] {
        let host = Host::below(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hosts").join(tree));
        for finding in report::findings(&host, &Plan::default(), |_| true) {
            for fix in &finding.found.fixes {
                let Fix::Knob(knob) = fix else { continue };
                let Some(name) = knob.sysctl_name().filter(|name| !OF_ONE_HOST.contains(&name.as_str())) else {
                    continue;
                };
                let value = (knob.value.replace('\t', " "), finding.check.why);
                let other = values.entry(name.clone()).or_insert_with(|| value.clone());
                assert_eq!(other.0, value.0, "{name} is to be two things");
            }
        }
    }
    let mut text = String::from(
        "# Sysctls of a machine for ringgate: /etc/sysctl.d/60-ringgate.conf, then `sysctl --system`.\n\
         # They are what `ringgate doctor --profile latency` wants on any host; what depends on the host is not here.\n\
         # `-` in front: a kernel that has no such value is no error.\n",
    );
    let mut last = "";
    for (name, (value, why)) in values {
        if why != last {
            let _ = write!(text, "\n# {why}\n");
            last = why;
        }
        let _ = writeln!(text, "-{name} = {value}");
    }
    text
}

#[test]
fn the_sysctls_are_those_that_the_checks_want() {
    let path = source("60-ringgate.conf");
    let want = sysctl_conf();
    if std::env::var_os("HOST_FILES_WRITE").is_some() {
        fs::write(&path, &want).unwrap();
    }
    assert_eq!(
        fs::read_to_string(path).unwrap(),
        want,
        "the checks want other sysctls; `HOST_FILES_WRITE=1 cargo test -p ringgate-tuning --test files` writes them down"
    );
}

#[test]
fn the_files_are_written_once_and_never_over_others() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(write(root.path(), Some(Profile::Latency)).unwrap().len(), FILES.len());
    assert!(write(root.path(), Some(Profile::Latency)).unwrap().is_empty(), "they are there");
    for file in &FILES {
        use std::os::unix::fs::PermissionsExt;
        let path = root.path().join(file.path);
        assert_eq!(fs::read_to_string(&path).unwrap(), file.content);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, if file.is_program { 0o755 } else { 0o644 }, "{}", file.path);
    }
    let mine = root.path().join(FILES[0].path);
    fs::write(&mine, "vm.swappiness = 30\n").unwrap();
    assert_eq!(write(root.path(), Some(Profile::Latency)).unwrap_err().0, mine);
    assert_eq!(fs::read_to_string(mine).unwrap(), "vm.swappiness = 30\n");
}

#[test]
fn nothing_is_written_through_a_link_that_leads_elsewhere() {
    let (root, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(root.path().join("etc")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), root.path().join("etc/sysctl.d")).unwrap();
    let (path, error) = write(root.path(), None).unwrap_err();
    assert_eq!(path, root.path().join(FILES[0].path));
    assert!(error.to_string().contains("leads out of"), "{error}");
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[test]
fn what_is_for_the_least_delay_is_for_those_alone_who_ask_for_it() {
    let drop_in = "etc/systemd/system/ringgate.service.d/latency.conf";
    for profile in Profile::ALL.map(Some).into_iter().chain([None]) {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), profile).unwrap();
        assert_eq!(root.path().join(drop_in).exists(), profile == Some(Profile::Latency), "{profile:?}");
        assert!(root.path().join("etc/systemd/system/ringgate.service").exists());
    }
}

/// Whether a program is installed.
fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Each would undo what was applied before it ran.
#[test]
fn the_doctor_of_a_boot_comes_after_all_else_that_sets_the_same_values_and_before_the_gateway() {
    let unit = fs::read_to_string(source("ringgate-doctor.service")).unwrap();
    let named = |key: &str| -> Vec<String> {
        let lines = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        lines.flat_map(str::split_whitespace).map(str::to_owned).collect()
    };
    for earlier in ["systemd-sysctl", "systemd-tmpfiles-setup", "tuned", "power-profiles-daemon", "cpupower"] {
        assert!(named("After").contains(&format!("{earlier}.service")), "{earlier}");
    }
    assert_eq!(named("Before"), ["ringgate.service"]);
}

#[test]
fn systemd_takes_the_units() {
    if !has("systemd-analyze") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for name in ["ringgate.service", "ringgate-doctor.service"] {
        // The gateway is not installed where tests run.
        let text = fs::read_to_string(source(name)).unwrap().replace("/usr/local/bin/ringgate", "/bin/true");
        fs::write(directory.path().join(name), text).unwrap();
    }
    let drop_in = directory.path().join("ringgate.service.d/latency.conf");
    fs::create_dir(drop_in.parent().unwrap()).unwrap();
    fs::copy(source("latency.conf"), drop_in).unwrap();
    for name in ["ringgate.service", "ringgate-doctor.service"] {
        let output = Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(directory.path().join(name))
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        // It looks at the machine's other units, too.
        let of_ours: Vec<&str> = told.lines().filter(|line| line.contains("ringgate")).collect();
        assert_eq!(of_ours, [""; 0], "{told}");
    }
}

#[test]
fn shellcheck_finds_nothing_in_the_script() {
    if has("shellcheck") {
        let output = Command::new("shellcheck").arg(source("ringgate-irqs")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

/// A card with three queues, as three drivers name their interrupts.
fn card() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let names = [
        (30, "mlx5_async0@pci:0000:01:00.0"),
        (31, "eth0-TxRx-0"),
        (32, "mlx5_comp1@pci:0000:01:00.0"),
        (133, "virtio0-input.2"),
    ];
    let mut interrupts = String::from("           CPU0       CPU1\n");
    for (irq, name) in names {
        put(&format!("sys/class/net/eth0/device/msi_irqs/{irq}"), "msix\n");
        put(&format!("proc/irq/{irq}/smp_affinity_list"), "0-15\n");
        interrupts += &format!(" {irq}:       5       0   PCI-MSI 524288-edge      {name}\n");
    }
    put("proc/interrupts", &interrupts);
    root
}

fn move_interrupts(root: &Path, arguments: &[&str]) -> Output {
    Command::new("sh").arg(source("ringgate-irqs")).args(arguments).env("ROOT", root).output().unwrap()
}

fn affinity(root: &Path) -> [String; 4] {
    [30, 31, 32, 133].map(|irq| fs::read_to_string(root.join(format!("proc/irq/{irq}/smp_affinity_list"))).unwrap())
}

#[test]
fn each_queue_gets_its_cpu_and_what_is_no_queue_stays() {
    let root = card();
    let before = affinity(root.path());
    let dry = move_interrupts(root.path(), &["eth0", "4-5"]);
    assert!(dry.status.success(), "{dry:?}");
    assert_eq!(affinity(root.path()), before);
    let told = String::from_utf8(dry.stdout).unwrap();
    assert!(told.contains("echo 4 >/proc/irq/31/smp_affinity_list  # eth0-TxRx-0; undo: echo 0-15 >"), "{told}");

    assert!(move_interrupts(root.path(), &["--apply", "eth0", "4-5"]).status.success());
    assert_eq!(affinity(root.path()), ["0-15\n", "4\n", "5\n", "4\n"]);
    let again = move_interrupts(root.path(), &["--apply", "eth0", "4,5"]);
    assert_eq!((again.status.success(), again.stdout.len()), (true, 0), "nothing is left to do");
    assert!(move_interrupts(root.path(), &["--apply", "eth0", "1,3,8-9"]).status.success());
    assert_eq!(affinity(root.path()), ["0-15\n", "1\n", "3\n", "8\n"]);
}

#[test]
fn a_virtio_cards_interrupts_are_found_behind_the_link_to_its_device() {
    let root = card();
    let at = |path: &str| root.path().join(path);
    fs::create_dir_all(at("sys/devices/pci0/0000:00:02.0/virtio0")).unwrap();
    let irqs = "sys/class/net/eth0/device/msi_irqs";
    fs::rename(at(irqs), at("sys/devices/pci0/0000:00:02.0/msi_irqs")).unwrap();
    fs::remove_dir_all(at("sys/class/net/eth0/device")).unwrap();
    std::os::unix::fs::symlink("../../../devices/pci0/0000:00:02.0/virtio0", at("sys/class/net/eth0/device")).unwrap();
    let moved = move_interrupts(root.path(), &["--apply", "eth0", "4-5"]);
    assert!(moved.status.success(), "{moved:?}");
    assert_eq!(affinity(root.path()), ["0-15\n", "4\n", "5\n", "4\n"]);
}

#[test]
fn a_script_that_is_asked_for_nonsense_changes_nothing() {
    let root = card();
    let before = affinity(root.path());
    for arguments in [
        &[][..],
        &["eth0"],
        &["--apply", "eth0"],
        &["--apply", "eth0", ""],
        &["--apply", "eth0", "3-1"],
        &["--apply", "eth0", "1,,2"],
        &["--apply", "eth0", "x"],
        &["--apply", "../eth0", "1"],
        &["--apply", "eth0", "1", "2"],
    ] {
        assert_eq!(move_interrupts(root.path(), arguments).status.code(), Some(2), "{arguments:?}");
    }
    assert_eq!(move_interrupts(root.path(), &["--apply", "eth1", "1"]).status.code(), Some(1));
    assert_eq!(affinity(root.path()), before);
}
