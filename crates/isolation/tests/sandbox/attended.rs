//! Commands of a sandbox that somebody attends to.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ringfence_isolation::{Capture, Command, End, Listener, Occurrence, Sandbox, Stdin, Streams, Window};
use rustix::event::{EventfdFlags, eventfd};

use crate::{DONE, bash, with_sandbox};

/// Keeps what a command writes, up to a number of bytes that can grow.
#[derive(Debug, Clone)]
struct Kept {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: Arc<AtomicUsize>,
    pid: Arc<Mutex<i32>>,
}

impl Kept {
    fn new() -> Self {
        Self { bytes: Arc::default(), room: Arc::new(AtomicUsize::new(usize::MAX)), pid: Arc::default() }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }
}

impl Listener for Kept {
    fn started(&mut self, pid: i32) {
        *self.pid.lock().unwrap() = pid;
    }

    fn take(&mut self, bytes: &[u8]) {
        self.bytes.lock().unwrap().extend_from_slice(bytes);
    }

    fn has_room(&self) -> bool {
        self.bytes.lock().unwrap().len() < self.room.load(Ordering::Relaxed)
    }
}

fn begin(sandbox: &mut Sandbox<'_>, command: &Command) -> (u32, Kept) {
    let kept = Kept::new();
    let capture = || Capture::handing_over(Box::new(kept.clone()));
    let id = sandbox.begin(command, Streams { stdin: Stdin::Fed, stdout: capture(), stderr: capture() }).unwrap();
    (id, kept)
}

/// Attends until `is_done`, for at most ten seconds; answers with all that occurred.
fn attend_until(sandbox: &mut Sandbox<'_>, mut is_done: impl FnMut(&[Occurrence]) -> bool) -> Vec<Occurrence> {
    let wake = eventfd(1, EventfdFlags::CLOEXEC).unwrap();
    let (mut occurred, begun) = (Vec::new(), Instant::now());
    while !is_done(&occurred) {
        assert!(begun.elapsed() < Duration::from_secs(10), "{occurred:?}");
        std::thread::sleep(Duration::from_millis(1));
        occurred.extend(sandbox.attend(wake.as_fd()).unwrap());
    }
    occurred
}

fn ends(occurred: &[Occurrence], id: u32) -> Option<End> {
    occurred.iter().find_map(|o| match o {
        Occurrence::Ended { id: ended, outcome } if *ended == id => Some(outcome.end.clone()),
        _ => None,
    })
}

fn end_of(sandbox: &mut Sandbox<'_>, id: u32) -> End {
    let occurred = attend_until(sandbox, |occurred| ends(occurred, id).is_some());
    ends(&occurred, id).unwrap()
}

pub(crate) fn input_signals_and_output_of_commands_side_by_side() {
    with_sandbox(|sandbox| {
        let (reader, read) = begin(sandbox, &bash("cat; echo end"));
        let (sleeper, slept) = begin(sandbox, &bash("echo $$; sleep 83.5 & wait"));
        attend_until(sandbox, |_| slept.text().ends_with('\n'));
        assert_eq!(slept.text().trim(), slept.pid.lock().unwrap().to_string(), "the id is the one inside");
        assert!(sandbox.feed(reader, b"one\n") && sandbox.feed(reader, b"two\n"));
        attend_until(sandbox, |_| read.text() == "one\ntwo\n");
        sandbox.complete_input(reader);
        assert_eq!((end_of(sandbox, reader), read.text().as_str()), (DONE, "one\ntwo\nend\n"));
        sandbox.signal(sleeper, libc_signal::KILL).unwrap();
        assert_eq!(end_of(sandbox, sleeper), End::Signaled { signal: libc_signal::KILL });
        let (left, _) = begin(sandbox, &bash("pgrep -f 'sleep 83[.]5'"));
        assert_eq!(end_of(sandbox, left), End::Exited { code: 1 }, "the whole group was signalled");
        assert!(sandbox.feed(left, b"to nobody"), "what is for a command that has ended is taken");
        let mut elsewhere = bash("pwd");
        elsewhere.folder = Some("/tmp".into());
        let (id, text) = begin(sandbox, &elsewhere);
        assert_eq!((end_of(sandbox, id), text.text().as_str()), (DONE, "/tmp\n"));
    });
}

mod libc_signal {
    pub(super) const KILL: i32 = 9;
}

pub(crate) fn a_terminal_is_the_agents_own() {
    with_sandbox(|sandbox| {
        let mut command = Command::new(["bash", "--norc", "-i"].map(Into::into).to_vec(), vec![("PS1".into(), "> ".into())]);
        command.terminal = Some(Window { rows: 24, columns: 80 });
        let (id, screen) = begin(sandbox, &command);
        attend_until(sandbox, |_| screen.text().contains("> "));
        sandbox.feed(id, b"tty; stty size; [ -O $(tty) ] && echo mine; id -un\n");
        attend_until(sandbox, |_| screen.text().contains("agent\r\n"));
        for part in ["/dev/pts/0\r\n", "24 80\r\n", "mine\r\n"] {
            assert!(screen.text().contains(part), "{part}: {}", screen.text());
        }
        sandbox.resize(id, Window { rows: 50, columns: 132 }).unwrap();
        sandbox.feed(id, b"stty size\n");
        attend_until(sandbox, |_| screen.text().contains("50 132\r\n"));
        // Ctrl-C reaches what runs in the foreground, and not the shell.
        sandbox.feed(id, b"sleep 83.75\n");
        attend_until(sandbox, |_| screen.text().contains("sleep 83.75"));
        std::thread::sleep(Duration::from_millis(200));
        sandbox.feed(id, b"\x03");
        sandbox.feed(id, b"echo still $((40 + 2)) here; exit 7\n");
        assert_eq!(end_of(sandbox, id), End::Exited { code: 7 });
        assert!(screen.text().contains("still 42 here"), "{}", screen.text());
    });
}

pub(crate) fn what_a_command_leaves_running_goes_on() {
    with_sandbox(|sandbox| {
        let (id, text) = begin(sandbox, &bash("(for n in 1 2 3 4 5; do sleep 0.1; echo $n || exit; echo $n > left; done) & echo begun"));
        assert_eq!((end_of(sandbox, id), text.text().as_str()), (DONE, "begun\n"));
        let (id, text) =
            begin(sandbox, &bash("for n in $(seq 100); do [ \"$(cat left 2>/dev/null)\" = 5 ] && break; sleep 0.1; done; cat left"));
        assert_eq!((end_of(sandbox, id), text.text().as_str()), (DONE, "5\n"), "it met no broken pipe");
    });
}

pub(crate) fn a_socket_reaches_a_port_inside() {
    const SERVER: &str = "import socket; s = socket.create_server(('127.0.0.1', 8080)); print('ready', flush=True); \
        c, _ = s.accept(); c.sendall(b'from inside: ' + c.recv(100))";
    with_sandbox(|sandbox| {
        let (id, text) = begin(sandbox, &Command::new(["python3", "-c", SERVER].map(Into::into).to_vec(), Vec::new()));
        attend_until(sandbox, |_| text.text().contains("ready"));
        sandbox.ask_for_socket().unwrap();
        let mut occurred = attend_until(sandbox, |o| o.iter().any(|o| matches!(o, Occurrence::Socket { .. })));
        let Some(Occurrence::Socket { socket: Some(socket) }) = occurred.pop() else { panic!("{occurred:?}") };
        rustix::io::ioctl_fionbio(&socket, false).unwrap();
        let port = std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 8080);
        rustix::net::connect(&socket, &port).unwrap();
        let mut stream = TcpStream::from(socket);
        stream.write_all(b"hello").unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        assert_eq!(said, "from inside: hello");
        assert_eq!(end_of(sandbox, id), DONE);
    });
}

pub(crate) fn a_listener_without_room_makes_the_command_wait() {
    with_sandbox(|sandbox| {
        let kept = Kept::new();
        kept.room.store(1000, Ordering::Relaxed);
        let capture = || Capture::handing_over(Box::new(kept.clone()));
        let command = bash("head -c 2000000 /dev/zero; touch done");
        let id = sandbox.begin(&command, Streams { stdin: Stdin::Empty, stdout: capture(), stderr: capture() }).unwrap();
        attend_until(sandbox, |_| !kept.bytes.lock().unwrap().is_empty());
        let (look, _) = begin(sandbox, &bash("sleep 0.2; [ ! -e done ]"));
        assert_eq!(end_of(sandbox, look), DONE, "it could not go on");
        assert!(kept.bytes.lock().unwrap().len() < 100_000);
        kept.room.store(usize::MAX, Ordering::Relaxed);
        assert_eq!((end_of(sandbox, id), kept.bytes.lock().unwrap().len()), (DONE, 2_000_000));
    });
}

pub(crate) fn the_wall_can_be_moved() {
    with_sandbox(|sandbox| {
        let (id, _) = begin(sandbox, &bash("sleep 83.9"));
        sandbox.set_wall(Duration::from_secs(3600)).unwrap();
        sandbox.set_wall(Duration::from_millis(300)).unwrap();
        let begun = Instant::now();
        let wall = End::Limit { limit: ringfence_policy::LimitKey::Wall };
        assert_eq!(end_of(sandbox, id), wall);
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert_eq!(sandbox.ended_by(), Some(&wall));
    });
}
