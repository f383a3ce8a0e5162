//! An audit of sandboxes that were weakened on purpose: each of the eight answers finds it. The command line cannot weaken anything, so this calls the
//! library, as root and then, by a copy of itself, as an ordinary user.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "a test may stop, and starts what it tests")]

use std::cell::RefCell;
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Instant;

use ringfence_control::{Audit, AuditRequest, ProfileText, Runner, Secret, Settings, Weakening};
use ringfence_isolation::{
    Access, Door, Fact, GroupLimits, OsText, PathRule, Plan, ProcessLimit, Source, Step, Transport, measure_outside,
};
use ringfence_policy::{Profile, shipped};
use ringfence_store::Home;

/// An id that is in no password file of a fresh system, and in no range that ringfence hands out.
const ORDINARY: u32 = 61_234;
const CANARY: &str = "CANARY_OF_THE_CALLER";

fn main() {
    let tests: &[(&str, fn())] = &[
        ("outside_of_a_sandbox_the_probe_does_all_that_it_tries", outside_of_a_sandbox_the_probe_does_all_that_it_tries),
        ("nothing_differs_where_nothing_was_weakened", nothing_differs_where_nothing_was_weakened),
        ("a_folder_of_the_host_is_seen_and_so_is_the_socket_in_it", a_folder_of_the_host_is_seen_and_so_is_the_socket_in_it),
        ("a_program_that_the_run_wrote_is_executed", a_program_that_the_run_wrote_is_executed),
        ("a_secret_in_the_environment_is_found", a_secret_in_the_environment_is_found),
        ("a_folder_of_the_system_is_written", a_folder_of_the_system_is_written),
        ("limits_that_are_not_there_are_exceeded", limits_that_are_not_there_are_exceeded),
        ("a_process_that_is_left_is_found", a_process_that_is_left_is_found),
        ("a_project_that_was_written_is_found", a_project_that_was_written_is_found),
        ("a_socket_that_nobody_declared_is_found", a_socket_that_nobody_declared_is_found),
        ("an_address_that_nobody_declared_is_found", an_address_that_nobody_declared_is_found),
        ("a_file_that_leads_elsewhere_is_found", a_file_that_leads_elsewhere_is_found),
        ("a_variable_that_leads_elsewhere_is_found", a_variable_that_leads_elsewhere_is_found),
        ("what_is_named_is_not_refused_and_all_else_is", what_is_named_is_not_refused_and_all_else_is),
    ];
    let filters: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_chosen = |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()));
    let chosen: Vec<_> = tests.iter().filter(|(name, _)| is_chosen(name)).collect();
    let user = if rustix::process::geteuid().is_root() { "root" } else { "an ordinary user" };
    for (name, test) in &chosen {
        let begun = Instant::now();
        test();
        println!("test {name} as {user} ... ok, {:.1} s", begun.elapsed().as_secs_f64());
    }
    if rustix::process::geteuid().is_root() {
        as_an_ordinary_user(&filters);
        println!("\ntest result: ok. {} tests, as both users\n", chosen.len());
    }
}

/// A copy in a folder that every user can reach, made by another process: one that is just being started must not hold it open for writing.
fn as_an_ordinary_user(filters: &[String]) {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = folder.path().join("audit");
    assert!(Command::new("/bin/cp").arg(std::env::current_exe().unwrap()).arg(&copy).status().unwrap().success());
    let status = Command::new(&copy).args(filters).uid(ORDINARY).gid(ORDINARY).current_dir("/").status().unwrap();
    assert!(status.success(), "as an ordinary user: {status}");
}

fn profile(name: &str) -> ProfileText {
    let text = shipped().iter().find(|s| s.name == name).unwrap().text.to_owned();
    ProfileText { profile: Profile::parse(name, &text).unwrap(), text }
}

/// The default profile, in which the run may start less.
fn with_spawn(spawn: &str) -> ProfileText {
    let named = profile("data-analysis").text.replace("\"data-analysis\"", &format!("\"{spawn}\""));
    let text = named.replace("spawn = \"any\"", &format!("spawn = \"{spawn}\""));
    ProfileText { profile: Profile::parse(spawn, &text).unwrap(), text }
}

/// Places of each kind, none of them anybody's, and packages of each kind.
fn with_ways() -> ProfileText {
    let text = profile("web-research").text.replace("\"web-research\"", "\"ways\"");
    let (before, after) = text.split_once("[network]").unwrap();
    let (_, after) = after.split_once("[process]").unwrap();
    let network = "allow = [\"https://there.invalid:443\", \"http://there.invalid:80 methods=GET paths=/v1\", \"tcp://192.0.2.9:5432\"]";
    let packages = "python = \"allowlist\"\nnode = \"locked\"\nallow = [\"python:requests>=2\"]";
    let text = format!("{before}[network]\n{network}\n[packages]\n{packages}\n[process]{after}");
    ProfileText { profile: Profile::parse("ways", &text).unwrap(), text }
}

/// An audit, of sandboxes whose plans are changed where there is something to change them by.
fn audit(profile: ProfileText, weakening: Option<Weakening<'_>>) -> Audit {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::open(&folder.path().join("home")).unwrap();
    let settings = Settings::load(&home.settings(), true).unwrap();
    let request = AuditRequest { profile, known_secrets: vec![Secret::new(CANARY.into())], homes: Vec::new(), tenant: None };
    Runner::open(home, settings).unwrap().audit_weakened(&request, None, weakening).unwrap()
}

/// What differs, as `NUMBER CAPABILITY`.
fn differences(audit: &Audit) -> Vec<String> {
    let of = |answer: &ringfence_control::Answer| {
        let items = answer.items.iter().filter(|item| !item.is_as_declared);
        items.map(|item| format!("{} {}", answer.number, item.capability)).collect::<Vec<_>>()
    };
    audit.answers.iter().flat_map(of).collect()
}

#[track_caller]
fn assert_finds(audit: &Audit, wanted: &[&str]) {
    let found = differences(audit);
    for want in wanted {
        assert!(found.iter().any(|difference| difference.starts_with(want)), "{want}: {found:?}");
    }
    assert_eq!(audit.differences, found.len() as u64);
}

/// The folder with the audit's bait, where the plan shows the project in it.
fn bait(plan: &Plan) -> Option<PathBuf> {
    let is_bait = |path: &&Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ringfence-audit-"));
    plan.sources.iter().filter_map(|source| source.path.parent()).find(is_bait).map(Path::to_owned)
}

/// Adds steps after everything else that is built.
fn add(plan: &mut Plan, steps: impl IntoIterator<Item = Step>) {
    let end = plan.steps.len() - 1;
    plan.steps.splice(end..end, steps);
}

/// What a probe says of itself where nothing holds it back: else its silence inside would prove nothing.
fn outside_of_a_sandbox_the_probe_does_all_that_it_tries() {
    let folder = tempfile::tempdir().unwrap();
    let (at, mark) = (folder.path().display().to_string(), format!("left-{}", std::process::id()));
    let (key, socket) = (1_900_000_000 + std::process::id(), folder.path().join("s.sock"));
    let (_named, service) = (UnixListener::bind(&socket).unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let inheritable = fs::File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&inheritable, rustix::io::FdFlags::empty()).unwrap();
    let wanted = [
        (format!("list={at}"), "s.sock"),
        (format!("append={at}/file"), ""),
        (format!("text={at}/file"), "changed by the probe\n"),
        (format!("remove={at}/file"), ""),
        (format!("write={at}"), ""),
        (format!("run={at}"), ""),
        ("run=memory".into(), ""),
        (format!("unix={}", socket.display()), ""),
        (format!("tcp={}", service.local_addr().unwrap()), ""),
        ("socket=netlink-audit".into(), ""),
        (format!("leave-segment={key}"), ""),
        ("memory=1000000".into(), "1048576"),
        ("processes=4".into(), "5"),
        ("open-files=20".into(), "20"),
        ("files=3".into(), "3"),
        ("disk=8192".into(), "8192"),
        ("wait=5".into(), "5"),
        ("spin=5".into(), "5"),
    ];
    let others = ["text=/proc/self/environ", "links=/proc/self/fd", "list=/proc", "text=/proc/sysvipc/shm"].map(str::to_owned);
    let more = [format!("walk={at}"), format!("leave-process={mark}")];
    let attempts: Vec<String> = wanted.iter().map(|(tried, _)| tried.clone()).chain(others).chain(more).collect();
    let facts = measure_outside(&attempts).unwrap();
    assert!(Command::new("ipcrm").args(["-M", &key.to_string()]).status().unwrap().success());
    let found = |tried: &str| said(&facts, tried);
    for (tried, wanted) in &wanted {
        assert_eq!(found(tried), *wanted, "{tried}");
    }
    assert!(found("text=/proc/self/environ").contains("PATH="));
    assert!(
        found("links=/proc/self/fd").lines().count() > 3 && found("list=/proc").lines().filter(|n| n.parse::<u32>().is_ok()).count() > 2
    );
    assert!(found("text=/proc/sysvipc/shm").contains(&key.to_string()));
    let walked = found(&format!("walk={at}"));
    assert!(walked.contains(&format!("writable {at}")) && walked.contains(&format!("socket 0 {}", socket.display())), "{walked}");
    let left = rustix::process::Pid::from_raw(found(&format!("leave-process={mark}")).parse().unwrap()).unwrap();
    let line = fs::read(format!("/proc/{}/cmdline", left.as_raw_nonzero())).unwrap();
    assert!(String::from_utf8_lossy(&line).contains(&mark));
    rustix::process::kill_process(left, rustix::process::Signal::KILL).unwrap();
}

/// What was found; an attempt that failed is a failure of the test.
#[track_caller]
fn said(facts: &[Fact], tried: &str) -> String {
    let fact = facts.iter().find(|fact| fact.tried == tried.as_bytes()).unwrap_or_else(|| panic!("{tried} was not tried"));
    assert_eq!(fact.errno, 0, "{tried}");
    String::from_utf8_lossy(&fact.found).into_owned()
}

fn nothing_differs_where_nothing_was_weakened() {
    let shipped = ["data-analysis", "base", "web-research", "code-change"].map(profile);
    for profile in shipped.into_iter().chain([with_spawn("own"), with_spawn("none"), with_ways()]) {
        let audit = audit(profile, None);
        assert_eq!(differences(&audit), [""; 0], "{audit:#?}");
        let numbers: Vec<u8> = audit.answers.iter().map(|answer| answer.number).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8]);
    }
}

/// Questions 1, 2 and 7: what the host has is there, and one can connect to it.
fn a_folder_of_the_host_is_seen_and_so_is_the_socket_in_it() {
    let attach = |plan: &mut Plan| {
        let Some(path) = bait(plan) else { return };
        let at = format!("root{}", path.display());
        add(plan, [Step::Tree { source: plan.sources.len(), at }]);
        plan.sources.push(Source { path, owner: None });
    };
    let audit = audit(profile("data-analysis"), Some(&attach));
    assert_finds(&audit, &["1 mounts", "1 files of the host", "2 sockets of the host", "7 direct ways", "8 effects by the run"]);
}

fn a_program_that_the_run_wrote_is_executed() {
    let let_execute = |plan: &mut Plan| {
        for step in &mut plan.steps {
            if let Step::Tmpfs { executable, .. } | Step::Bind { executable, .. } | Step::View { executable, .. } = step {
                *executable = true;
            }
        }
        plan.path_rules.iter_mut().filter(|rule| rule.access == Access::Write).for_each(|rule| rule.access = Access::WriteExecute);
    };
    assert_finds(&audit(with_spawn("own"), Some(&let_execute)), &["1 can execute what it wrote"]);
}

fn a_secret_in_the_environment_is_found() {
    let leak = |plan: &mut Plan| plan.environment.push(("SECRET_TOKEN".into(), CANARY.into()));
    let audit = audit(profile("data-analysis"), Some(&leak));
    assert_finds(&audit, &["3 variables", "3 secrets"]);
    let shown = serde_json::to_string(&audit).unwrap();
    assert!(shown.contains("SECRET_TOKEN") && !shown.contains(CANARY), "the value is told: {shown}");
}

fn a_folder_of_the_system_is_written() {
    let open = |plan: &mut Plan| {
        add(plan, [Step::Bind { from: "scratch/tmp".into(), to: "root/usr/local/lib".into(), executable: true }]);
        plan.path_rules.push(PathRule { path: "/usr/local/lib".into(), access: Access::WriteExecute });
    };
    assert_finds(&audit(profile("data-analysis"), Some(&open)), &["4 folders of the system", "1 mounts"]);
}

fn limits_that_are_not_there_are_exceeded() {
    let drop_limits = |plan: &mut Plan| {
        let kept = |limit: &ProcessLimit| !matches!(limit, ProcessLimit::Processes | ProcessLimit::OpenFiles | ProcessLimit::FileSize);
        plan.process_limits.retain(|(limit, _)| kept(limit));
        plan.group_limits = GroupLimits::default();
        for step in &mut plan.steps {
            if let Step::Tmpfs { bytes, files, .. } = step {
                (*bytes, *files) = (*bytes * 100, *files * 100);
            }
        }
    };
    let audit = audit(profile("data-analysis"), Some(&drop_limits));
    assert_finds(&audit, &["5 processes", "5 open-files", "5 disk", "5 files"]);
    // Where the kernel holds memory nobody else does.
    let has_cgroup = audit.answers[4].items.iter().any(|item| item.capability == "memory" && item.declared.contains("kernel"));
    assert_eq!(differences(&audit).contains(&"5 memory".to_owned()), has_cgroup);
}

fn a_process_that_is_left_is_found() {
    let left: RefCell<Option<Child>> = RefCell::default();
    let leave = |plan: &mut Plan| {
        let Some(path) = bait(plan) else { return };
        if left.borrow().is_none() {
            let mark = path.file_name().unwrap().to_string_lossy().replace("ringfence-audit-", "");
            left.replace(Some(Command::new("/bin/sh").args(["-c", "read _", &mark]).stdin(std::process::Stdio::piped()).spawn().unwrap()));
        }
    };
    let audit = audit(profile("data-analysis"), Some(&leave));
    let mut left = left.take().expect("the plan shows the project");
    left.kill().unwrap();
    left.wait().unwrap();
    assert_finds(&audit, &["6 processes"]);
}

fn a_project_that_was_written_is_found() {
    let write = |plan: &mut Plan| {
        if let Some(path) = bait(plan) {
            fs::File::options().append(true).open(path.join("project/src/keep.txt")).unwrap().write_all(b"written\n").unwrap();
        }
    };
    assert_finds(&audit(profile("data-analysis"), Some(&write)), &["8 the project on the host"]);
}

/// Nobody serves it, which a run need not care about: that it is there is the difference.
fn a_socket_that_nobody_declared_is_found() {
    let listen = |plan: &mut Plan| {
        let door = Door { transport: Transport::Stream, address: "127.0.0.1".parse().unwrap(), port: 4000 };
        add(plan, [Step::Door { door }]);
    };
    assert_finds(&audit(profile("data-analysis"), Some(&listen)), &["2 listening"]);
}

fn an_address_that_nobody_declared_is_found() {
    let address = |plan: &mut Plan| add(plan, [Step::Address { number: 9, address: "169.254.169.254".parse().unwrap(), bits: 16 }]);
    assert_finds(&audit(profile("data-analysis"), Some(&address)), &["2 its own addresses", "2 destinations", "7 direct ways"]);
}

fn a_file_that_leads_elsewhere_is_found() {
    let change = |plan: &mut Plan| {
        for step in &mut plan.steps {
            if let Step::Veil { layer, replaced, .. } = step
                && layer == "given"
            {
                let hosts = OsText::from("etc/hosts");
                replaced
                    .iter_mut()
                    .filter(|(path, _)| *path == hosts)
                    .for_each(|(_, text)| text.push_str("198.18.0.9 elsewhere.invalid\n"));
            }
        }
    };
    let audit = audit(profile("web-research"), Some(&change));
    assert_finds(&audit, &["1 files laid over it"]);
    assert_eq!(differences(&audit).len(), 1);
}

fn a_variable_that_leads_elsewhere_is_found() {
    let change = |plan: &mut Plan| {
        let proxies = plan.environment.iter_mut().filter(|(name, _)| name == "HTTPS_PROXY");
        proxies.for_each(|(_, value)| "http://192.0.2.1:3128".clone_into(value));
    };
    assert_finds(&audit(profile("web-research"), Some(&change)), &["3 variables"]);
}

/// What is declared stands beside what was measured, also where that is little.
fn what_is_named_is_not_refused_and_all_else_is() {
    let audit = audit(with_ways(), None);
    let item = |number: usize, capability: &str| {
        let items = &audit.answers[number - 1].items;
        items.iter().find(|item| item.capability == capability).unwrap_or_else(|| panic!("{capability}: {items:#?}"))
    };
    assert!(item(1, "image").measured.starts_with("host, sha256:"));
    let doors = "tcp 127.0.0.1:3128, tcp 127.0.0.1:3129, tcp 192.0.2.9:5432, tcp 198.18.0.2:443, tcp 198.18.0.2:80, udp 127.0.0.1:53";
    assert_eq!((item(2, "listening").declared.as_str(), item(2, "listening").measured.as_str()), (doors, "nothing else"));
    assert!(item(2, "https://there.invalid:443").measured.starts_with("not refused"));
    assert_eq!(item(2, "http://there.invalid:80 methods=GET paths=/v1").measured, "not refused");
    assert_eq!(item(2, "any other destination").measured, "nothing");
    assert_eq!(item(2, "a name that no rule has").measured, "no such name");
    assert_eq!(item(2, "there.invalid").measured, "198.18.0.2");
    assert!(item(4, "python packages").measured.ends_with("is not on the list (rule: allowlist)"));
    assert!(item(4, "node packages").measured.contains("is in no lock file (rule: lock file)"), "{:?}", item(4, "node packages"));
    assert!(item(4, "rust packages").measured.ends_with("is of a language without packages (rule: packages off)"));
    assert!(!item(4, "minimum age").is_measured && item(4, "minimum age").declared == "72 h");
    assert_eq!(item(5, "network-requests").measured, "at 3: request 4 was refused by it");
    assert!(item(5, "network-bytes").measured.ends_with(" came through"));
}
