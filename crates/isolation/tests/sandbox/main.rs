//! A sandbox as sessions will use it: several commands in one, each with streams of its own.
//!
//! This test has a `main` of its own: sandboxes are made by a process with one thread.
#![allow(clippy::unwrap_used, reason = "a test may stop")]

mod attended;
mod files;
mod state;

use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::Path;

use ringfence_isolation::{
    Access, Capture, Cgroups, Command, CommandOutcome, Creation, Door, Doors, EmptySandbox, End, Host, INIT_NAME, Image, OsText,
    PROBE_NAME, PathRule, Plan, Remains, Sandbox, SandboxSpec, Stdin, Streams, Transport, compile, facts, lease_identity,
};
use ringfence_policy::{Capabilities, LimitKey, Profile, Spawn, UserName, shipped};

fn main() {
    let tests: &[(&str, fn())] = &[
        ("commands_share_a_workspace_and_nothing_else", commands_share_a_workspace_and_nothing_else),
        ("commands_run_side_by_side_with_streams_of_their_own", commands_run_side_by_side_with_streams_of_their_own),
        ("a_background_process_outlives_its_command_but_not_the_sandbox", a_background_process_outlives_its_command_but_not_the_sandbox),
        ("a_command_that_cannot_start_leaves_the_sandbox_standing", a_command_that_cannot_start_leaves_the_sandbox_standing),
        ("a_later_command_has_the_same_fence", a_later_command_has_the_same_fence),
        ("init_passes_the_filter_of_its_commands", init_passes_the_filter_of_its_commands),
        ("the_probe_is_confined_as_any_command_is", the_probe_is_confined_as_any_command_is),
        ("what_connects_to_a_door_inside_is_taken_outside", what_connects_to_a_door_inside_is_taken_outside),
        ("attended::input_signals_and_output_of_commands_side_by_side", attended::input_signals_and_output_of_commands_side_by_side),
        ("attended::a_terminal_is_the_agents_own", attended::a_terminal_is_the_agents_own),
        ("attended::what_a_command_leaves_running_goes_on", attended::what_a_command_leaves_running_goes_on),
        ("attended::a_socket_reaches_a_port_inside", attended::a_socket_reaches_a_port_inside),
        ("attended::a_listener_without_room_makes_the_command_wait", attended::a_listener_without_room_makes_the_command_wait),
        ("attended::the_wall_can_be_moved", attended::the_wall_can_be_moved),
        ("files::what_is_written_outside_is_the_agents_inside", files::what_is_written_outside_is_the_agents_inside),
        ("files::each_sandbox_has_a_boot_of_its_own", files::each_sandbox_has_a_boot_of_its_own),
        ("files::nothing_of_the_host_can_be_reached", files::nothing_of_the_host_can_be_reached),
        ("files::folders_are_made_listed_moved_and_removed", files::folders_are_made_listed_moved_and_removed),
        ("files::a_folder_is_watched", files::a_folder_is_watched),
        ("state::it_goes_from_one_sandbox_to_another", state::it_goes_from_one_sandbox_to_another),
        ("state::it_is_saved_after_the_end", state::it_is_saved_after_the_end),
        ("state::what_a_program_makes_is_bounded", state::what_a_program_makes_is_bounded),
        ("state::a_damaged_one_is_refused", state::a_damaged_one_is_refused),
        ("state::it_has_the_room_of_the_run", state::it_has_the_room_of_the_run),
        ("what_cannot_be_held_is_not_claimed", what_cannot_be_held_is_not_claimed),
    ];
    println!("\nrunning {} tests", tests.len());
    for (name, test) in tests {
        test();
        println!("test {name} ... ok");
    }
    println!("\ntest result: ok. {} passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n", tests.len());
}

fn capabilities() -> Capabilities {
    let text = shipped().iter().find(|s| s.name == "data-analysis").unwrap().text;
    Profile::parse("data-analysis", text).unwrap().bound
}

/// Makes a sandbox and hands it to `body`.
fn with_sandbox(body: impl FnOnce(&mut Sandbox<'_>)) {
    with_doors(&Doors::default(), body);
}

fn with_doors(doors: &Doors, body: impl FnOnce(&mut Sandbox<'_>)) {
    with(doors, &capabilities(), |mut sandbox| body(&mut sandbox));
}

/// The same with less room for what is written.
fn with_disk(bytes: u64, body: impl FnOnce(&mut Sandbox<'_>)) {
    let mut capabilities = capabilities();
    capabilities.limits.set(LimitKey::Disk, bytes);
    with(&Doors::default(), &capabilities, |mut sandbox| body(&mut sandbox));
}

/// Runs a script, and hands out the state of the sandbox as it stood and what remained of it.
fn to_the_end(script: &str, body: impl FnOnce(Vec<u8>, &Remains)) {
    with(&Doors::default(), &capabilities(), |mut sandbox| {
        assert_eq!(run(&mut sandbox, script).end, DONE);
        let mut standing = Vec::new();
        sandbox.trees().unwrap().save(&mut standing, u64::MAX, &mut |_| Ok(())).unwrap();
        let remains = sandbox.finish().unwrap();
        body(standing, &remains);
        remains.close().unwrap();
    });
}

fn with(doors: &Doors, capabilities: &Capabilities, body: impl FnOnce(Sandbox<'_>)) {
    let (host, folder) = (Host::look(), tempfile::tempdir().unwrap());
    let lease = lease_identity().unwrap();
    let image = Image::of_host(folder.path()).unwrap();
    let plan = plan(capabilities, &host.cgroups, &image, lease.identity, doors);
    let run = format!("test-{}-{}", std::process::id(), folder.path().file_name().unwrap().to_string_lossy());
    let creation = Creation { plan: &plan, limits: &capabilities.limits, memory_grade: host.memory_grade(), cancel: None };
    let empty = EmptySandbox::begin(&run, &host.cgroups, &plan.group_limits, lease).unwrap();
    body(empty.build(creation, &mut |_, _| Ok(())).unwrap().stand().unwrap());
}

fn plan(capabilities: &Capabilities, cgroups: &Cgroups, image: &Image, identity: ringfence_isolation::Identity, doors: &Doors) -> Plan {
    compile(&SandboxSpec {
        capabilities,
        cgroups,
        identity,
        user: &UserName::default(),
        image,
        inputs: None,
        input_folders: Vec::new(),
        project: None,
        has_writable_union: true,
        disk: None,
        doors,
    })
}

fn bash(script: &str) -> Command {
    Command::new(["bash", "-c", script].map(OsText::from).to_vec(), Vec::new())
}

fn streams<'a>(stdin: Option<OwnedFd>) -> Streams<'a> {
    Streams { stdin: stdin.map_or(Stdin::Empty, Stdin::From), stdout: Capture::keeping(), stderr: Capture::keeping() }
}

fn run(sandbox: &mut Sandbox<'_>, script: &str) -> CommandOutcome {
    let id = sandbox.start(&bash(script), streams(None), false).unwrap();
    sandbox.wait(id).unwrap()
}

fn text(outcome: &CommandOutcome) -> (String, String, End) {
    let read = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (read(&outcome.stdout.kept), read(&outcome.stderr.kept), outcome.end.clone())
}

const DONE: End = End::Exited { code: 0 };

fn commands_share_a_workspace_and_nothing_else() {
    with_sandbox(|sandbox| {
        assert_eq!(run(sandbox, "echo kept > file; export LOST=1; cd /tmp").end, DONE);
        let second = run(sandbox, "cat file; echo \"[$LOST]\"; pwd; echo problem >&2; exit 3");
        assert_eq!(text(&second), ("kept\n[]\n/workspace\n".into(), "problem\n".into(), End::Exited { code: 3 }));
    });
}

fn commands_run_side_by_side_with_streams_of_their_own() {
    with_sandbox(|sandbox| {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let slow = sandbox.start(&bash("cat; echo slow; sleep 0.2; echo end"), streams(Some(read)), false).unwrap();
        let quick = sandbox.start(&bash("echo quick; echo wrong >&2"), streams(None), false).unwrap();
        assert_eq!(text(&sandbox.wait(quick).unwrap()), ("quick\n".into(), "wrong\n".into(), DONE));
        rustix::io::write(&write, b"given\n").unwrap();
        drop(write);
        assert_eq!(text(&sandbox.wait(slow).unwrap()), ("given\nslow\nend\n".into(), String::new(), DONE));
    });
}

fn a_background_process_outlives_its_command_but_not_the_sandbox() {
    with_sandbox(|sandbox| {
        assert_eq!(run(sandbox, "sleep 83.25 & echo $! > pid").end, DONE);
        assert_eq!(text(&run(sandbox, "kill -0 $(cat pid) && echo alive")).0, "alive\n");
    });
    let alive = || {
        let pids = std::fs::read_dir("/proc").unwrap().flatten();
        pids.filter(|e| std::fs::read(e.path().join("cmdline")).is_ok_and(|line| line == b"sleep\x0083.25\0")).count()
    };
    assert_eq!(alive(), 0);
}

fn a_command_that_cannot_start_leaves_the_sandbox_standing() {
    with_sandbox(|sandbox| {
        let missing = Command::new(vec!["no-such-program".into()], Vec::new());
        let id = sandbox.start(&missing, streams(None), false).unwrap();
        assert_eq!(sandbox.wait(id).unwrap().end, End::Failed { step: "exec".into(), errno: 2 });
        assert_eq!(run(sandbox, "true").end, DONE);
    });
}

fn a_later_command_has_the_same_fence() {
    with_sandbox(|sandbox| {
        let look = "grep -E 'CapEff|NoNewPrivs|^Seccomp:' /proc/self/status; unshare -U true 2>/dev/null || echo refused; ls /proc/self/fd | wc -l";
        let first = text(&run(sandbox, look));
        let second = text(&run(sandbox, look));
        assert!(first.0.contains("NoNewPrivs:\t1") && first.0.contains("Seccomp:\t2") && first.0.contains("refused"), "{first:?}");
        assert_eq!(first, second);
    });
}

/// Where the filter lets nobody fork init has none, and its commands each load their own.
fn init_passes_the_filter_of_its_commands() {
    for (spawn, of_init) in [(Spawn::Any, "2"), (Spawn::None, "0")] {
        with(&Doors::default(), &Capabilities { spawn, ..capabilities() }, |mut sandbox| {
            let status = status_of_a_child(INIT_NAME);
            assert!(status.contains("NoNewPrivs:\t1") && status.contains(&format!("\nSeccomp:\t{of_init}\n")), "{spawn:?}: {status}");
            let (said, ..) = text(&run(&mut sandbox, "exec grep -E '^(Seccomp|Seccomp_filters):' /proc/self/status"));
            assert_eq!(said, "Seccomp:\t2\nSeccomp_filters:\t1\n", "{spawn:?}");
        });
    }
}

/// What the kernel says of a child of ours with this name.
fn status_of_a_child(name: &str) -> String {
    let ours = format!("\nPPid:\t{}\n", std::process::id());
    let folders = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let named = folders.filter(|path| std::fs::read(path.join("cmdline")).is_ok_and(|line| line.starts_with(name.as_bytes())));
    named.filter_map(|path| std::fs::read_to_string(path.join("status")).ok()).find(|status| status.contains(&ours)).unwrap()
}

/// It is on no path of the sandbox, and nothing else about it is different.
fn the_probe_is_confined_as_any_command_is() {
    with_sandbox(|sandbox| {
        let argv = [PROBE_NAME, "text=/proc/self/status", "read=/etc/shadow", "links=/proc/self/fd"].map(OsText::from).to_vec();
        let id = sandbox.start_probe(&Command::new(argv, Vec::new()), streams(None), false).unwrap();
        let outcome = sandbox.wait(id).unwrap();
        let said = facts(&outcome.stdout.kept).unwrap();
        let status = String::from_utf8_lossy(&said[0].found).into_owned();
        for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000", "Name:\t"] {
            assert!(status.contains(line), "{line}: {status}");
        }
        assert_eq!((said[1].errno, outcome.end), (2, DONE));
        assert_eq!(String::from_utf8_lossy(&said[2].found).lines().count(), 3, "descriptors: {said:?}");
    });
}

/// A plan is data: it says what it does without a cgroup, and allows less.
/// A name leads to an address of the loopback interface, a socket there leads outside, and there is no other way.
fn what_connects_to_a_door_inside_is_taken_outside() {
    let address = |last| Ipv4Addr::new(198, 18, 0, last);
    let doors = Doors {
        addresses: vec![(address(1), 15), (Ipv4Addr::new(203, 0, 113, 7), 32)],
        doors: vec![
            Door { transport: Transport::Stream, address: address(2), port: 443 },
            Door { transport: Transport::Datagram, address: Ipv4Addr::LOCALHOST, port: 53 },
            Door { transport: Transport::Stream, address: Ipv4Addr::new(203, 0, 113, 7), port: 80 },
        ],
        files: vec![
            ("/etc/hosts".into(), "127.0.0.1 localhost\n198.18.0.2 far.example\n".into()),
            ("/.tool/config".into(), "kept\n".into()),
        ],
        environment: vec![("PROXY".into(), "here".into())],
    };
    with_doors(&doors, |sandbox| {
        let mut sockets = sandbox.take_doors().into_iter();
        assert_eq!(sockets.len(), 3);
        let listener = std::net::TcpListener::from(sockets.next().unwrap());
        listener.set_nonblocking(false).unwrap();
        let far = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut said = [0; 6];
            stream.read_exact(&mut said).unwrap();
            stream.write_all(b"answer").unwrap();
            (said, stream.local_addr().unwrap().to_string())
        });
        let outcome = run(sandbox, "exec 3<>/dev/tcp/far.example/443; printf asking >&3; cat <&3; echo $PROXY $(cat /.tool/config)");
        assert_eq!(text(&outcome), ("answerhere kept\n".into(), String::new(), End::Exited { code: 0 }));
        assert_eq!(far.join().unwrap(), (*b"asking", "198.18.0.2:443".into()));
        let (_, complaint, end) = text(&run(sandbox, "exec 3<>/dev/tcp/198.18.0.3/443"));
        assert!(complaint.contains("Connection refused") && end == End::Exited { code: 1 }, "{complaint}");
        let (_, complaint, _) = text(&run(sandbox, "exec 3<>/dev/tcp/93.184.216.34/443"));
        assert!(complaint.contains("unreachable"), "{complaint}");
        let (_, complaint, _) = text(&run(sandbox, "echo x > /etc/hosts"));
        assert!(complaint.contains("Read-only") || complaint.contains("denied"), "{complaint}");
    });
}

fn what_cannot_be_held_is_not_claimed() {
    let image = Image {
        root: Path::new("/nonexistent").into(),
        trees: vec![("usr".into(), "/usr".into())],
        layers: Vec::new(),
        digest: String::new(),
        folders: vec!["usr".into()],
        files: vec!["tool".into()],
        environment: [("PATH", "/opt/bin"), ("HOME", "/root"), ("TOOL", "x")].map(|(n, v)| (n.to_owned(), v.to_owned())).into(),
    };
    let none = Cgroups::None { reason: String::new(), hint: String::new() };
    let identity = ringfence_isolation::Identity::Single { uid: 1, gid: 1 };
    let plan = plan(&capabilities(), &none, &image, identity, &Doors::default());
    assert!(!plan.filter.anonymous_files && !plan.filter.shared_memory && plan.filter.same_user);
    assert!(plan.process_limits.contains(&(ringfence_isolation::ProcessLimit::Data, 8 << 30)));
    // An image sets variables, but not who and where the agent is; its programs are executed from where they are.
    let value = |name: &str| plan.environment.iter().filter(|(n, _)| n == name).map(|(_, v)| v.as_str()).collect::<Vec<_>>();
    assert_eq!((value("PATH"), value("HOME"), value("TOOL")), (vec!["/opt/bin"], vec!["/workspace"], vec!["x"]));
    assert!(plan.path_rules.contains(&PathRule { path: "/tool".into(), access: Access::Program }));
}
