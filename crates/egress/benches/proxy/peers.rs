//! Who is measured: nobody, our broker, squid and tinyproxy, each in its usual setting without a cache and without logs of requests.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ringfence_egress::{Broker, DoorRole, EgressEvent, Layout, Rules, SystemResolver, Terms, Unrecorded, Witness};
use ringfence_policy::Set;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// One way to the host.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// Where it listens; none for the direct way.
    pub(crate) address: Option<SocketAddr>,
    _kept: Kept,
}

enum Kept {
    Nothing,
    Ours { _runtime: Runtime, _broker: Broker },
    Theirs { child: Child, _folder: TempDir },
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Self::Theirs { child, .. } = self {
            child.kill().unwrap_or_default();
            child.wait().map(drop).unwrap_or_default();
        }
    }
}

/// Writes each event down as a run does: a line in a file.
#[derive(Debug)]
struct Ledger(std::sync::Mutex<std::fs::File>);

impl Witness for Ledger {
    fn tell(&self, event: EgressEvent) -> Result<(), Unrecorded> {
        writeln!(self.0.lock().unwrap(), "{event:?}").map_err(|error| Unrecorded(error.to_string()))
    }
}

impl Peer {
    pub(crate) fn start_all(hosts: &[SocketAddr]) -> Vec<Self> {
        let mut peers = vec![Self { name: "direct", address: None, _kept: Kept::Nothing }, ours(hosts)];
        peers.extend(squid());
        peers.extend(tinyproxy());
        peers
    }
}

fn ours(hosts: &[SocketAddr]) -> Peer {
    let destinations: Vec<_> = hosts.iter().map(|host| format!("tcp://{host}").parse().unwrap()).collect();
    let layout = Layout::of(&destinations, false);
    let mut address = None;
    let socket = |role: DoorRole, address: &mut Option<SocketAddr>| -> OwnedFd {
        if role == DoorRole::Names {
            return std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into();
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        if role == DoorRole::Proxy {
            *address = Some(listener.local_addr().unwrap());
        }
        listener.into()
    };
    let sockets = layout.sockets.iter().map(|door| socket(door.role, &mut address)).collect();
    let terms = Terms {
        rules: Rules { destinations, private: Set::none() },
        credentials: Vec::new(),
        bytes: u64::MAX,
        requests: u64::MAX,
        witness: Arc::new(Ledger(std::sync::Mutex::new(tempfile::tempfile().unwrap()))),
        resolver: Arc::new(SystemResolver),
        interception: None,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let broker = Broker::open(runtime.handle(), layout, sockets, terms, None).unwrap();
    Peer { name: "ringfence", address, _kept: Kept::Ours { _runtime: runtime, _broker: broker } }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn squid() -> Option<Peer> {
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
    let at = folder.path().display();
    let text = format!(
        "http_port 127.0.0.1:{port}\nacl all_ports port 1-65535\nhttp_access allow all\ncache deny all\naccess_log none\ncache_log {at}/log\n\
         pid_filename {at}/pid\ncoredump_dir {at}\nshutdown_lifetime 0 seconds\nmax_filedescriptors 4096\nworkers 1\n"
    );
    start("squid", "/usr/sbin/squid", &["-N", "-f"], folder, port, &text)
}

fn tinyproxy() -> Option<Peer> {
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
    let text = format!("Port {port}\nListen 127.0.0.1\nMaxClients 200\nLogFile \"/dev/null\"\nLogLevel Critical\nTimeout 60\n");
    start("tinyproxy", "/usr/bin/tinyproxy", &["-d", "-c"], folder, port, &text)
}

/// Starts a peer that is there, and waits until it listens.
fn start(name: &'static str, program: &str, options: &[&str], folder: TempDir, port: u16, text: &str) -> Option<Peer> {
    if !Path::new(program).exists() {
        println!("{name} is not there: `make bench` installs it");
        return None;
    }
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let settings = folder.path().join("settings");
    std::fs::write(&settings, text).unwrap();
    let mut command = Command::new(program);
    #[expect(clippy::zombie_processes, reason = "waited for when the peer is dropped; one that does not listen ends the benchmark")]
    let child = command.args(options).arg(&settings).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    for _ in 0..200 {
        if TcpStream::connect(address).is_ok() {
            return Some(Peer { name, address: Some(address), _kept: Kept::Theirs { child, _folder: folder } });
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{name} does not listen");
}
