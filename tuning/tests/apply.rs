//! A tree of files stands for a host; what is done to it is undone again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringgate_tuning::apply::journal::{Change, Journal};
use ringgate_tuning::apply::{self, Outcome, Refused, Step, WantedKnob, persist, revert, script};
use ringgate_tuning::{Area, Check, Fix, Found, Host, Knob};

const CHECK: Check = Check { id: "made_up", area: Area::Cpu, why: "it's a test", run: |_| Found::fine("", "") };

const FILES: [(&str, &str); 7] = [
    ("/proc/sys/kernel/random/boot_id", "11111111-1111-1111-1111-111111111111\n"),
    ("/proc/sys/vm/swappiness", "60\n"),
    ("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
    ("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n"),
    ("/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave\n"),
    ("/sys/devices/system/cpu/cpufreq/policy1/scaling_governor", "schedutil\n"),
    ("/proc/irq/24/smp_affinity", "00000000,000000ff\n"),
];

const WANTED: [(&str, &str); 7] = [
    ("/proc/sys/vm/swappiness", "1"),
    ("/proc/sys/net/ipv4/tcp_rmem", "4096 131072 16777216"),
    ("/sys/kernel/mm/transparent_hugepage/enabled", "madvise"),
    ("/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "performance"),
    ("/sys/devices/system/cpu/cpufreq/policy1/scaling_governor", "performance"),
    ("/proc/irq/24/smp_affinity", "ff"),
    ("/proc/sys/net/core/absent", "1"),
];

struct World {
    root: tempfile::TempDir,
    elsewhere: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let world = World { root: tempfile::tempdir().unwrap(), elsewhere: tempfile::tempdir().unwrap() };
        for (path, content) in FILES {
            fs::create_dir_all(world.at(path).parent().unwrap()).unwrap();
            world.put(path, content);
        }
        world
    }

    fn host(&self) -> Host {
        Host::below(self.root.path())
    }

    fn at(&self, path: &str) -> PathBuf {
        self.host().at(path)
    }

    fn put(&self, path: &str, content: &str) {
        fs::write(self.at(path), content).unwrap();
    }

    fn shows(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    fn journal(&self) -> PathBuf {
        self.elsewhere.path().join("state/journal.json")
    }

    fn apply(&self, wanted: &[(&str, &str)]) -> Vec<Step> {
        apply::apply(&self.host(), &knobs(wanted), &self.journal(), 1_000).unwrap()
    }

    fn revert(&self, force: bool) -> Vec<Step> {
        revert::revert(&self.host(), &self.journal(), force).unwrap()
    }

    fn all(&self) -> BTreeMap<PathBuf, String> {
        files_below(self.root.path())
    }
}

fn files_below(directory: &Path) -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.insert(path.clone(), fs::read_to_string(&path).unwrap());
        }
    }
    files
}

fn knobs(wanted: &[(&str, &str)]) -> Vec<WantedKnob> {
    let knob = |(path, value): &(&str, &str)| WantedKnob { check: &CHECK, knob: Knob::file(*path, value) };
    wanted.iter().map(knob).collect()
}

fn outcome<'a>(steps: &'a [Step], path: &str) -> &'a Outcome {
    &steps.iter().find(|step| step.path == Path::new(path)).unwrap().outcome
}

#[test]
fn what_is_applied_is_given_back_byte_for_byte() {
    let world = World::new();
    let before = world.all();
    let steps = world.apply(&WANTED);
    assert_eq!(world.shows("/proc/sys/vm/swappiness"), "1\n");
    assert_eq!(world.shows("/sys/kernel/mm/transparent_hugepage/enabled"), "always [madvise] never\n");
    assert_eq!(world.shows("/proc/sys/net/ipv4/tcp_rmem"), "4096 131072 16777216\n");
    assert_eq!(steps.iter().filter(|step| step.outcome == Outcome::Changed).count(), 5);
    assert_eq!(*outcome(&steps, "/proc/irq/24/smp_affinity"), Outcome::Already);
    assert_eq!(*outcome(&steps, "/proc/sys/net/core/absent"), Outcome::Failed("there is no such file".into()));

    let steps = world.revert(false);
    assert_eq!(steps.iter().filter(|step| step.outcome == Outcome::Changed).count(), 5);
    assert_eq!(world.all(), before);
    assert!(!world.journal().exists());
    assert_eq!(world.revert(false), []);
}

#[test]
fn a_second_apply_changes_nothing_and_the_first_old_value_counts() {
    let world = World::new();
    let before = world.all();
    world.apply(&WANTED);
    let (after, journal) = (world.all(), fs::read(world.journal()).unwrap());
    let steps = world.apply(&WANTED);
    assert!(steps.iter().all(|step| matches!(step.outcome, Outcome::Already | Outcome::Failed(_))));
    assert_eq!((world.all(), fs::read(world.journal()).unwrap()), (after, journal));

    world.apply(&[("/proc/sys/vm/swappiness", "10")]);
    assert_eq!(world.shows("/proc/sys/vm/swappiness"), "10\n");
    world.revert(false);
    assert_eq!(world.all(), before);
}

/// A journal that says what a doctor was about to do, which is all that one killed in between leaves.
fn killed_before_writing(world: &World, path: &str, old: &str, new: &str) {
    let mut journal = Journal::open(&world.journal()).unwrap();
    journal.changes.push(Change {
        path: path.into(),
        old: old.into(),
        new: new.into(),
        written: vec![new.into()],
        at_ms: 1,
        boot_id: FILES[0].1.trim().into(),
    });
    journal.save().unwrap();
}

#[test]
fn one_that_was_killed_before_or_after_it_wrote_is_reverted_alike() {
    for held in ["60\n", "1\n"] {
        let world = World::new();
        let before = world.all();
        killed_before_writing(&world, "/proc/sys/vm/swappiness", "60", "1");
        world.put("/proc/sys/vm/swappiness", held);
        let steps = world.revert(false);
        assert!(matches!(steps[0].outcome, Outcome::Changed | Outcome::Already));
        assert_eq!(world.all(), before);
    }
}

#[test]
fn one_that_was_killed_is_finished_by_the_next_and_still_reverted() {
    for held in ["60\n", "1\n"] {
        let world = World::new();
        let before = world.all();
        killed_before_writing(&world, "/proc/sys/vm/swappiness", "60", "1");
        world.put("/proc/sys/vm/swappiness", held);
        world.apply(&[("/proc/sys/vm/swappiness", "10")]);
        assert_eq!(world.shows("/proc/sys/vm/swappiness"), "10\n");
        world.revert(false);
        assert_eq!(world.all(), before);
    }
}

#[test]
fn what_was_changed_before_a_reboot_is_not_written_back() {
    let world = World::new();
    world.apply(&WANTED);
    world.put("/proc/sys/kernel/random/boot_id", "22222222-2222-2222-2222-222222222222\n");
    world.put("/proc/sys/vm/swappiness", "1\n");
    let steps = world.revert(true);
    assert!(
        steps.iter().all(|step| matches!(&step.outcome, Outcome::Left(why) if why.contains("reboot"))),
        "{steps:?}"
    );
    assert_eq!(world.shows("/proc/sys/vm/swappiness"), "1\n");
    assert!(!world.journal().exists(), "what the kernel has forgotten, the journal forgets");
}

#[test]
fn an_apply_after_a_reboot_begins_anew() {
    let world = World::new();
    world.apply(&[("/proc/sys/vm/swappiness", "1")]);
    world.put("/proc/sys/kernel/random/boot_id", "22222222-2222-2222-2222-222222222222\n");
    world.put("/proc/sys/vm/swappiness", "30\n");
    world.apply(&[("/proc/sys/vm/swappiness", "1")]);
    world.revert(false);
    assert_eq!(world.shows("/proc/sys/vm/swappiness"), "30\n");
}

#[test]
fn what_somebody_else_changed_since_is_left_unless_forced() {
    let world = World::new();
    world.apply(&WANTED);
    world.put("/proc/sys/vm/swappiness", "33\n");
    let steps = world.revert(false);
    let left = outcome(&steps, "/proc/sys/vm/swappiness");
    assert!(matches!(left, Outcome::Left(why) if why.contains("\"33\"") && why.contains("--force")), "{left:?}");
    assert_eq!(world.shows("/proc/sys/vm/swappiness"), "33\n");
    assert_eq!(world.shows("/sys/kernel/mm/transparent_hugepage/enabled"), "[always] madvise never\n");

    let steps = world.revert(true);
    assert_eq!(steps.len(), 1, "the others are done with");
    assert_eq!(world.shows("/proc/sys/vm/swappiness"), "60\n");
}

#[test]
fn what_somebody_else_changed_is_what_a_later_apply_gives_back() {
    let world = World::new();
    world.apply(&[("/proc/sys/vm/swappiness", "1")]);
    world.put("/proc/sys/vm/swappiness", "33\n");
    world.apply(&[("/proc/sys/vm/swappiness", "1")]);
    world.revert(false);
    assert_eq!(world.shows("/proc/sys/vm/swappiness"), "33\n");
}

#[test]
fn a_file_that_refuses_is_told_and_the_others_are_changed() {
    let world = World::new();
    let governor = "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor";
    fs::remove_file(world.at(governor)).unwrap();
    // Reading a directory fails, whoever asks.
    fs::create_dir(world.at(governor)).unwrap();
    let steps = world.apply(&WANTED);
    let failed = outcome(&steps, governor);
    assert!(matches!(failed, Outcome::Failed(why) if why.contains("could not be given back")), "{failed:?}");
    assert_eq!(world.shows("/sys/devices/system/cpu/cpufreq/policy1/scaling_governor"), "performance\n");
}

#[test]
fn only_files_of_the_kernel_are_written_whatever_the_journal_says() {
    let world = World::new();
    for path in ["/etc/passwd", "/proc/sys/../../etc/passwd", "/proc/1/mem", "/system/x"] {
        fs::create_dir_all(world.at("/etc")).unwrap();
        world.put("/etc/passwd", "mine\n");
        killed_before_writing(&world, path, "theirs", "mine");
        let steps = world.revert(true);
        assert!(matches!(&steps[0].outcome, Outcome::Failed(why) if why.contains("alone are written")), "{path}");
        assert_eq!(world.shows("/etc/passwd"), "mine\n");
        fs::remove_file(world.journal()).unwrap();
        assert!(matches!(&world.apply(&[(path, "theirs")])[0].outcome, Outcome::Failed(_)), "{path}");
        assert_eq!(world.shows("/etc/passwd"), "mine\n");
    }
}

#[test]
fn two_doctors_at_once_are_kept_apart() {
    let world = World::new();
    let first = Journal::open(&world.journal()).unwrap();
    let second = apply::apply(&world.host(), &knobs(&WANTED), &world.journal(), 1);
    assert!(matches!(second, Err(Refused::Locked(_))), "{second:?}");
    assert_eq!(world.shows("/proc/sys/vm/swappiness"), "60\n");
    drop(first);
    world.apply(&WANTED);
}

#[test]
fn a_journal_that_cannot_be_trusted_changes_nothing() {
    for text in ["", "{", "{\"version\":2,\"changes\":[]}", "[]", "{\"version\":1,\"changes\":[{\"path\":\"/sys/x\"}]}"]
    {
        let world = World::new();
        fs::create_dir_all(world.journal().parent().unwrap()).unwrap();
        fs::write(world.journal(), text).unwrap();
        let before = world.all();
        for refused in [
            apply::apply(&world.host(), &knobs(&WANTED), &world.journal(), 1),
            revert::revert(&world.host(), &world.journal(), true),
        ] {
            assert!(matches!(refused, Err(Refused::Journal { .. })), "{text:?}: {refused:?}");
        }
        assert_eq!(world.all(), before);
        assert_eq!(fs::read_to_string(world.journal()).unwrap(), text);
    }
}

#[test]
fn a_journal_that_others_may_write_is_not_believed_by_root() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    world.apply(&WANTED);
    fs::set_permissions(world.journal(), fs::Permissions::from_mode(0o666)).unwrap();
    let refused = revert::revert(&world.host(), &world.journal(), false);
    if fs::metadata("/proc/self").map(|me| std::os::unix::fs::MetadataExt::uid(&me)).unwrap() == 0 {
        assert!(matches!(&refused, Err(Refused::Journal { why, .. }) if why.contains("somebody else")), "{refused:?}");
    } else {
        refused.unwrap();
    }
}

fn run(script: &str, root: &Path) -> (bool, String) {
    let done = Command::new("sh").args(["-c", script]).env("ROOT", root).output().unwrap();
    (done.status.success(), String::from_utf8(done.stderr).unwrap())
}

/// The values in force, which is all that a shell's `>` leaves of a file.
fn in_force(world: &World) -> BTreeMap<&'static str, String> {
    let file = |(path, _): (&'static str, &str)| {
        let shown = world.shows(path);
        let word = shown.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
        (path, word.unwrap_or(shown.trim()).to_owned())
    };
    FILES.map(file).into()
}

#[test]
fn the_script_of_a_dry_run_does_what_apply_does_and_says_how_to_undo_it() {
    let (scripted, applied) = (World::new(), World::new());
    let before = scripted.all();
    let steps = apply::plan(&scripted.host(), &knobs(&WANTED));
    let others = [
        ("made_up", Fix::Boot("nohz_full=1\necho not a comment".into())),
        ("too", Fix::Advice("see to it".into())),
        ("and", Fix::Nic("ethtool -L".into())),
    ];
    let text = script::script("a test\nof it", &steps, |_| Some("it's\nwhy".into()), &others);
    assert_eq!(scripted.all(), before, "a dry run changes nothing");
    assert!(
        text.contains("# [too] decision: see to it\n# [and] link: ethtool -L\n"),
        "the words of the manual: {text}"
    );

    let (fine, stderr) = run(&text, scripted.root.path());
    assert!(fine, "{text}\n{stderr}");
    applied.apply(&WANTED);
    assert_eq!(in_force(&scripted), in_force(&applied));

    let undo: String = text
        .split("# To undo it:\n")
        .nth(1)
        .unwrap()
        .lines()
        .map_while(|line| line.strip_prefix("# "))
        .map(|line| format!("{line}\n"))
        .collect();
    let (head, _) = text.split_once("\n# it's why").unwrap();
    assert!(run(&format!("{head}\n{undo}"), scripted.root.path()).0);
    applied.revert(false);
    assert_eq!(in_force(&scripted), in_force(&applied));
}

#[test]
fn the_script_goes_on_after_a_failure_and_fails_at_the_end() {
    let world = World::new();
    let text = script::script("a test", &apply::plan(&world.host(), &knobs(&WANTED)), |_| None, &[]);
    fs::remove_dir_all(world.at("/proc/sys/vm")).unwrap();
    let (fine, stderr) = run(&text, world.root.path());
    assert!(!fine);
    assert!(stderr.contains("/proc/sys/vm/swappiness: could not be made 1"), "{stderr}");
    assert_eq!(world.shows("/sys/devices/system/cpu/cpufreq/policy1/scaling_governor"), "performance\n");
}

#[test]
fn what_holds_after_a_boot_is_what_is_wanted_and_what_was_applied() {
    let world = World::new();
    world.apply(&WANTED[..2]);
    let knobs = persist::knobs(&world.host(), &knobs(&WANTED[2..3]), &world.journal()).unwrap();
    let paths: Vec<_> = knobs.iter().map(|knob| (knob.path.to_str().unwrap(), knob.value.as_str())).collect();
    assert_eq!(paths, [WANTED[2], WANTED[0], WANTED[1]]);
}
