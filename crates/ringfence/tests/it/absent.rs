//! What must not be inside: the caller's environment, files, descriptors, keyring and terminal. Each test plants bait and first shows, outside, that
//! the same look finds it.

use std::fs;
use std::process::Command;

use crate::support::{Place, User, binary, outcome};

/// Runs a Python program outside and inside with the same caller's state; answers with what each printed.
fn outside_and_inside(place: &Place, prepare: impl Fn(&mut Command), program: &str) -> (String, String) {
    let mut outside = place.command("/usr/bin/python3");
    outside.args(["-c", program]);
    let mut inside = place.command(binary());
    inside.args(["run", "--quiet", "--", "python3", "-c", program]);
    prepare(&mut outside);
    prepare(&mut inside);
    (outcome(outside.output().unwrap()).stdout, outcome(inside.output().unwrap()).stdout)
}

#[test]
fn the_callers_environment_is_absent() {
    for place in Place::each() {
        let look = "import os, glob\nprint(any('CANARY' in v for v in os.environ.values()))\n\
                    print(any(b'CANARY' in open(p, 'rb').read() for p in glob.glob('/proc/*/environ') if os.access(p, os.R_OK)))";
        let (outside, inside) = outside_and_inside(
            &place,
            |c| {
                c.env("SECRET_TOKEN", "CANARY_ENV");
            },
            look,
        );
        assert_eq!((outside.as_str(), inside.as_str()), ("True\nTrue\n", "False\nFalse\n"), "{:?}", place.user);
    }
}

#[test]
fn only_the_declared_variables_are_set() {
    for place in Place::each() {
        let outcome = place.ringfence(&["run", "--quiet", "--env", "MODE=fast", "--", "env"]);
        let mut names: Vec<&str> = outcome.stdout.lines().filter_map(|l| l.split('=').next()).collect();
        names.sort_unstable();
        assert_eq!(names, ["HOME", "LANG", "MODE", "PATH", "TERM", "TMPDIR", "USER"]);
    }
}

#[test]
fn a_run_cannot_read_the_host_home_or_the_host_tmp() {
    for place in Place::each() {
        let secret = place.write("private/secret.txt", "CANARY_FILE");
        let look = format!("import os\ntry: print(open({:?}).read())\nexcept OSError as e: print(e.errno)", secret.to_str().unwrap());
        let (outside, inside) = outside_and_inside(&place, |_| {}, &look);
        assert_eq!((outside.as_str(), inside.as_str()), ("CANARY_FILE\n", "2\n"));
    }
}

#[test]
fn the_hosts_own_etc_is_not_there() {
    for place in Place::each() {
        let look =
            "import os\nfor p in ('/etc/shadow', '/etc/machine-id', '/etc/ssh'): print(os.path.exists(p))\nprint(os.uname().nodename)";
        let inside = place.ringfence(&["run", "--quiet", "--", "python3", "-c", look]).stdout;
        assert_eq!(inside, "False\nFalse\nFalse\nsandbox\n");
    }
}

#[test]
fn descriptors_of_the_caller_are_closed() {
    for place in Place::each() {
        let bait = place.write("bait.txt", "CANARY_FD");
        let file = fs::File::open(&bait).unwrap();
        let look = "import os\nfound = []\nfor n in range(3, 200):\n try: found.append(os.read(n, 99))\n except OSError: pass\nprint(b'CANARY_FD' in b''.join(found), len(found))";
        let inherit = |command: &mut Command| {
            let file = file.try_clone().unwrap();
            // Handed over as standard input of a shell, which puts it on high numbers before it starts the program.
            let program = command.get_program().to_owned();
            let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
            let mut shell = place.command("/bin/bash");
            shell.args(["-c", "exec 9<&0 77<&0 </dev/null; exec \"$@\"", "bash"]).arg(program).args(arguments).stdin(file);
            *command = shell;
        };
        let (outside, inside) = outside_and_inside(&place, inherit, look);
        assert!(outside.starts_with("True"), "{outside}");
        assert_eq!(inside, "False 0\n", "{:?}", place.user);
    }
}

#[test]
fn the_callers_keyring_is_another_one() {
    for place in Place::each() {
        // request_key and keyctl by number: no tool for keyrings need be installed.
        let look = "import ctypes\nl = ctypes.CDLL(None, use_errno=True)\nk = l.syscall(250, 10, ctypes.c_long(-3), b'user', b'ringfence-bait', 0)\nprint(k > 0)";
        let plant = "import ctypes, os, sys\nl = ctypes.CDLL(None)\nl.syscall(250, 1, None)\nl.syscall(248, b'user', b'ringfence-bait', b'CANARY', 6, ctypes.c_long(-3))\nos.execv(sys.argv[1], sys.argv[1:])";
        let planted = |command: &mut Command| {
            let (program, arguments) = (command.get_program().to_owned(), command.get_args().map(ToOwned::to_owned).collect::<Vec<_>>());
            let mut python = place.command("/usr/bin/python3");
            python.args(["-c", plant]).arg(program).args(arguments);
            *command = python;
        };
        let (outside, inside) = outside_and_inside(&place, planted, look);
        assert_eq!((outside.as_str(), inside.as_str()), ("True\n", "False\n"), "{:?}", place.user);
    }
}

#[test]
fn the_callers_terminal_is_absent() {
    for place in Place::each() {
        let look = "import os\ntry: os.close(os.open('/dev/tty', os.O_RDWR)); print('TTY')\nexcept OSError: print('none')\nprint(os.isatty(0), os.isatty(1))";
        // A new session with a pseudo terminal as its controlling one.
        let host = "import os, pty, sys\npid, fd = pty.fork()\nif pid == 0: os.execv(sys.argv[1], sys.argv[1:])\nout = b''\ntry:\n while True:\n  d = os.read(fd, 999)\n  if not d: break\n  out += d\nexcept OSError: pass\nos.waitpid(pid, 0)\nsys.stdout.write(out.decode().replace('\\r', ''))";
        let on_a_terminal = |command: &mut Command| {
            let (program, arguments) = (command.get_program().to_owned(), command.get_args().map(ToOwned::to_owned).collect::<Vec<_>>());
            let mut python = place.command("/usr/bin/python3");
            python.args(["-c", host]).arg(program).args(arguments);
            *command = python;
        };
        let (outside, inside) = outside_and_inside(&place, on_a_terminal, look);
        assert_eq!(outside, "TTY\nTrue True\n");
        assert_eq!(inside, "none\nFalse False\n", "{:?}", place.user);
    }
}

#[test]
fn host_processes_cannot_be_seen_or_signalled() {
    for place in Place::each() {
        let mut bait = place.command("/bin/sleep").arg("53.5").spawn().unwrap();
        let pid = bait.id();
        let look = format!(
            "import os\nprint(any(b'53' + b'.5' in open(f'/proc/{{p}}/cmdline','rb').read() for p in os.listdir('/proc') if p.isdigit() and os.path.exists(f'/proc/{{p}}/cmdline')))\ntry: os.kill({pid}, 0); print('reached')\nexcept OSError as e: print(e.errno)"
        );
        let (outside, inside) = outside_and_inside(&place, |_| {}, &look);
        bait.kill().unwrap();
        bait.wait().unwrap();
        assert_eq!((outside.as_str(), inside.as_str()), ("True\nreached\n", "False\n3\n"), "{:?}", place.user);
    }
}

#[test]
fn there_is_no_way_to_the_network_and_loopback_works() {
    for place in Place::each() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let look = format!(
            "import socket\ntry: socket.create_connection(('127.0.0.1', {port}), 2); print('reached')\nexcept OSError as e: print(e.errno)"
        );
        let (outside, inside) = outside_and_inside(&place, |_| {}, &look);
        assert_eq!((outside.as_str(), inside.as_str()), ("reached\n", "111\n"));
        let own = "import socket\ns = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); c = socket.create_connection(s.getsockname()); print('own')";
        assert_eq!(place.ringfence(&["run", "--quiet", "--", "python3", "-c", own]).stdout, "own\n");
    }
}

#[test]
fn privileges_are_gone_and_the_filter_is_in_force() {
    for place in Place::each() {
        let outcome = place.bash(&["--quiet"], "grep -E 'NoNewPrivs|CapEff|CapBnd|CapPrm|^Seccomp:' /proc/self/status");
        assert_eq!(
            outcome.stdout,
            "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n"
        );
    }
}

#[test]
fn nothing_survives_from_one_run_to_the_next() {
    for place in Place::each() {
        place.bash(&[], "for d in /workspace /tmp /dev/shm; do echo MARK > $d/mark; done");
        let next = place.bash(&["--quiet"], "cat /workspace/mark /tmp/mark /dev/shm/mark 2>/dev/null; ls -A /workspace /tmp /dev/shm");
        assert_eq!(next.stdout, "/dev/shm:\n\n/tmp:\n\n/workspace:\n");
        place.assert_clean();
    }
}

#[test]
fn system_folders_cannot_be_written() {
    for place in Place::each() {
        let script = "for d in / /etc /usr /usr/bin /var /opt /dev /proc /inputs /run /home; do ( : > $d/x ) 2>/dev/null && echo WROTE $d; done; true";
        assert_eq!(place.bash(&["--quiet"], script).stdout, "", "{:?}", place.user);
    }
}

#[test]
fn as_root_the_sandbox_has_ids_of_its_own() {
    for place in Place::each().into_iter().filter(|p| p.user == User::Root) {
        let mut child = place.command(binary()).args(["run", "--quiet", "--", "sleep", "58.25"]).spawn().unwrap();
        crate::support::eventually("start of the sleeper", || crate::support::sleepers("58.25").len() == 1);
        let pid = crate::support::sleepers("58.25").remove(0);
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let uid: u32 = status.lines().find_map(|l| l.strip_prefix("Uid:\t")?.split('\t').next()?.parse().ok()).unwrap();
        assert!(uid >= 0x7000_0000, "{uid}");
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(143));
        place.assert_clean();
    }
}

/// Calls through the real filter, with the answer that each must get.
#[test]
fn the_filter_answers_as_it_should() {
    for place in Place::each() {
        let program = "import ctypes, errno, os, socket\n\
            l = ctypes.CDLL(None, use_errno=True)\n\
            def call(n, *a):\n ctypes.set_errno(0); r = l.syscall(n, *a); return errno.errorcode[ctypes.get_errno()] if r < 0 else 'done'\n\
            def sock(*a):\n\
            \x20try: socket.socket(*a).close(); return 'done'\n\
            \x20except OSError as e: return errno.errorcode[e.errno]\n\
            print(call(250, 0, -3, 0), call(321, 99, 0, 0), call(101, 16, 1, 0, 0), call(425, 4, 0), call(435, 0, 0), call(999), call(165, 0, 0, 0, 0, 0), call(272, 0x10000000))\n\
            print(sock(40, 1), sock(16, 3, 12), sock(2, 3, 1), sock(2, 1, 262), sock(2, 1), sock(1, 1), sock(16, 3, 0))\n\
            print(call(16, 0, 0x5412, b'x'), call(16, 0, ctypes.c_ulong(0x100005412), b'x'), call(16, 0, 0x5423, b'x'), call(133, b'dev', 0o20600, 0), call(133, b'pipe', 0o10600, 0))\n\
            print(call(56, 0x10000000 | 17, 0, 0, 0, 0), flush=True)\n\
            if os.fork() == 0: os._exit(0)\n\
            print(os.wait()[1])";
        let outcome = place.ringfence(&["run", "--quiet", "--", "python3", "-c", program]);
        let wanted = "EPERM EPERM EPERM ENOSYS ENOSYS ENOSYS EPERM EPERM\nEPERM EPERM EPERM EPERM done done done\nEPERM EPERM EPERM EPERM done\nEPERM\n0\n";
        assert_eq!(outcome.stdout, wanted, "{:?} {outcome:?}", place.user);
    }
}

/// What only Landlock refuses: the mounts and the owner would allow it.
#[test]
fn paths_are_ruled_beneath_the_mounts() {
    for place in Place::each() {
        let script =
            "( echo x > /proc/self/comm ) 2>/dev/null || echo refused; cat /proc/self/comm; cp /bin/true t && ./t && echo executed";
        assert_eq!(place.bash(&["--quiet"], script).stdout, "refused\ncat\nexecuted\n", "{:?}", place.user);
    }
}

/// `spawn = "any"`, the default: a compiler or an environment of Python's is given as an input and runs from there.
#[test]
fn programs_that_the_run_was_given_run_where_any_may() {
    for place in Place::each() {
        let given = place.write("tools/bin/given", std::fs::read("/bin/true").unwrap());
        fs::set_permissions(&given, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let outcome = place.bash(&["--quiet", "--input", "tools"], "/inputs/tools/bin/given && echo ran");
        assert_eq!(outcome.stdout, "ran\n", "{:?} {outcome:?}", place.user);
    }
}

/// `spawn = "own"`: programs of the image, none that the run wrote or was given.
#[test]
fn programs_that_the_run_wrote_can_be_forbidden() {
    for place in Place::each() {
        let shown = place.ringfence(&["profile", "show", "data-analysis"]).stdout;
        place.write("own.toml", shown.replace("spawn = \"any\"", "spawn = \"own\"").replace("name = \"data-analysis\"", "name = \"own\""));
        place.write("given", std::fs::read("/bin/true").unwrap());
        let script = "cp /bin/true t; chmod +x t; ./t 2>/dev/null || echo 1; cp t /tmp; /tmp/t 2>/dev/null || echo 2; /lib64/ld-linux-x86-64.so.2 ./t 2>/dev/null || echo 3; \
                      /lib64/ld-linux-x86-64.so.2 /inputs/given 2>/dev/null || echo 4; /bin/true && echo image";
        let outcome = place.bash(&["--quiet", "--profile", "./own.toml", "--input", "given"], script);
        assert_eq!(outcome.stdout, "1\n2\n3\n4\nimage\n", "{:?} {outcome:?}", place.user);
    }
}
