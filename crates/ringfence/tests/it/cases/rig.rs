//! The host side of a case: folders with planted secrets, services, a process, and the words that stand for them.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::Case;
use crate::support::{Place, User, eventually, outcome};

/// Services of the host and a home for each kind of user, shared by all cases. (The first run of a home makes an image, which takes a second.)
pub(super) struct Shared {
    homes: Vec<Place>,
    pub(super) http: u16,
    second: u16,
    udp: u16,
    datagrams: Arc<AtomicU64>,
    abstract_name: String,
}

impl Shared {
    pub(super) fn start() -> Self {
        let datagrams = Arc::new(AtomicU64::new(0));
        let second = http("CANARY_TWO", 0);
        let (http, udp) = (http("CANARY_HTTP", second), count(Arc::clone(&datagrams)));
        let abstract_name = format!("cases-{http}");
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        answer(UnixListener::bind_addr(&address).unwrap(), b"CANARY_ABS");
        Self { homes: Place::each(), http, second, udp, datagrams, abstract_name }
    }

    pub(super) fn home(&self, user: User) -> PathBuf {
        self.homes.iter().find(|place| place.user == user).unwrap().home()
    }

    pub(super) fn datagrams(&self) -> u64 {
        self.datagrams.load(Ordering::SeqCst)
    }
}

/// A web server that says the same to everyone, but for `/redir`, which is at another port.
fn http(body: &'static str, elsewhere: u16) -> u16 {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut connection in server.incoming().flatten() {
            thread::spawn(move || {
                let mut asked = [0; 4096];
                let answer = match connection.read(&mut asked) {
                    Ok(0) | Err(_) => return,
                    Ok(_) if asked.starts_with(b"GET /redir") => {
                        format!("HTTP/1.0 302 Found\r\nLocation: http://127.0.0.1:{elsewhere}/\r\n\r\n")
                    }
                    Ok(_) => format!("HTTP/1.0 200 OK\r\n\r\n{body}"),
                };
                // Whoever hangs up first misses the answer.
                connection.write_all(answer.as_bytes()).unwrap_or_default();
            });
        }
    });
    port
}

fn answer(server: UnixListener, words: &'static [u8]) {
    thread::spawn(move || {
        for mut connection in server.incoming().flatten() {
            connection.write_all(words).unwrap_or_default();
        }
    });
}

fn count(datagrams: Arc<AtomicU64>) -> u16 {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    thread::spawn(move || {
        while server.recv(&mut [0; 64]).is_ok() {
            datagrams.fetch_add(1, Ordering::SeqCst);
        }
    });
    port
}

/// What one case finds on the host.
pub(super) struct Rig<'a> {
    pub(super) place: Place,
    pub(super) shared: &'a Shared,
    pub(super) mark: String,
    pub(super) workspace: PathBuf,
    pub(super) neighbour: Option<Neighbour>,
}

/// A process of the user's, which ends with the case.
pub(super) struct Neighbour(pub(super) Child);

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.0.kill().unwrap_or_default();
        self.0.wait().map(drop).unwrap_or_default();
    }
}

impl<'a> Rig<'a> {
    pub(super) fn build(case: &Case, place: Place, shared: &'a Shared) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = u64::from(std::process::id()) * 1000 + NEXT.fetch_add(1, Ordering::Relaxed);
        let mark = (1_000_000 + number % 8_999_999).to_string();
        let workspace = place.folder(case.rig.wsname.as_deref().unwrap_or("ws"));
        plant(&place);
        let neighbour = case.rig.hostproc.then(|| neighbour(&place, &mark));
        let rig = Self { place, shared, mark, workspace, neighbour };
        if let Some(setup) = &case.setup {
            let done = rig.on_the_host(&rig.filled(setup));
            assert_eq!(done.status, 0, "{}: {done:?}", case.id);
        }
        rig
    }

    /// The words in capitals as they are on the host.
    pub(super) fn filled(&self, text: &str) -> String {
        let input = self.path("inputs");
        self.filled_with(text, &input)
    }

    /// The words in capitals for a command that runs inside.
    pub(super) fn filled_inside(&self, text: &str) -> String {
        self.filled_with(text, "/inputs/in")
    }

    fn filled_with(&self, text: &str, input: &str) -> String {
        let neighbour = self.neighbour.as_ref().map_or(0, |neighbour| neighbour.0.id());
        let words = [
            ("@WS", self.workspace.display().to_string()),
            ("@ROOT", self.path("")),
            ("@HOSTPID", neighbour.to_string()),
            ("@HOME", self.path("home-of-caller")),
            ("@OUT", self.path("outside")),
            ("@IN", input.to_owned()),
            ("@PORT2", self.shared.second.to_string()),
            ("@PORT", self.shared.http.to_string()),
            ("@UDP", self.shared.udp.to_string()),
            ("@ABS", self.shared.abstract_name.clone()),
            ("@MARK", self.mark.clone()),
        ];
        words.iter().fold(text.to_owned(), |text, (word, value)| text.replace(word, value))
    }

    /// A path below the root of the case; the checks call the caller's home `home`.
    pub(super) fn path(&self, name: &str) -> String {
        let name = name.strip_prefix("home/").map_or(name.to_owned(), |rest| format!("home-of-caller/{rest}"));
        self.place.path(&name).display().to_string().trim_end_matches('/').to_owned()
    }

    /// A script as the user, outside.
    pub(super) fn on_the_host(&self, script: &str) -> crate::support::Outcome {
        let mut command = self.place.command("/bin/bash");
        command.args(["-c", script]).current_dir(&self.workspace).env("HOME", self.path("home-of-caller"));
        outcome(command.output().unwrap())
    }

    /// The command as a caller would start it whose environment holds secrets.
    pub(super) fn careless(&self, case: &Case, mut command: Command) -> Command {
        for (name, value) in [("SECRET_TOKEN", "CANARY_ENV1"), ("AWS_SECRET_ACCESS_KEY", "CANARY_ENV2"), ("OPENAI_API_KEY", "CANARY_ENV3")]
        {
            command.env(name, value);
        }
        command.env("SSH_AUTH_SOCK", "/tmp/agent").env("HOME", self.path("home-of-caller")).env("TMPDIR", self.path("tmp"));
        command.env("RINGFENCE_HOME", self.shared.home(self.place.user));
        command.envs(case.rig.xenv.iter().map(|(name, value)| (name, self.filled(value))));
        command
    }
}

fn plant(place: &Place) {
    place.write("home-of-caller/.ssh/id_ed25519", "CANARY_SSH key\n");
    place.write("home-of-caller/.aws/credentials", "CANARY_AWS\n");
    place.write("outside/victim.txt", "ORIGINAL");
    place.write("inputs/data.csv", "a,b\n");
    place.folder("tmp");
    let socket = place.path("inputs/svc.sock");
    answer(UnixListener::bind(&socket).unwrap(), b"CANARY_UDS");
    place.give(&socket);
}

fn neighbour(place: &Place, mark: &str) -> Neighbour {
    let title = format!("host@{mark}");
    let child = place.command("/bin/sleep").arg0(&title).arg("60").spawn().unwrap();
    let line = format!("/proc/{}/cmdline", child.id());
    eventually("start of the neighbour", || std::fs::read_to_string(&line).is_ok_and(|line| line.starts_with(&title)));
    Neighbour(child)
}
