//! An index of ours on loopback, a witness, and the real clients with exactly the settings that a sandbox gives them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use ringfence_egress::Unrecorded;
use ringfence_egress::packages::{
    ClientSettings, Index, IndexLimits, IndexSetup, Operator, PackageDecision, PackageEvent, PackageWitness, Pins, Upstreams,
    client_settings,
};
use ringfence_policy::{Packages, Profile};
use tempfile::TempDir;

use super::shelf::Shelf;

/// Who records, or cannot.
#[derive(Default)]
pub(super) struct Witness {
    told: Mutex<Vec<PackageEvent>>,
    is_full: AtomicBool,
}

impl PackageWitness for Witness {
    fn tell(&self, event: PackageEvent) -> Result<(), Unrecorded> {
        if self.is_full.load(Ordering::SeqCst) {
            return Err(Unrecorded("no space".to_owned()));
        }
        self.told.lock().unwrap().push(event);
        Ok(())
    }
}

/// What a client printed.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) is_success: bool,
    pub(super) text: String,
}

impl Outcome {
    #[track_caller]
    pub(super) fn succeeds(&self) {
        assert!(self.is_success, "{}", self.text);
    }

    /// It failed, and its person can read why.
    #[track_caller]
    pub(super) fn fails_saying(&self, words: &str) {
        assert!(!self.is_success && self.text.contains(words), "`{words}` is not in: {}", self.text);
    }
}

/// What a plain request was answered with.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) status: u16,
    pub(super) reason: String,
    pub(super) headers: String,
    pub(super) body: Vec<u8>,
}

impl Said {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// How an index is set up.
pub(super) struct Rig {
    pub(super) folder: TempDir,
    pub(super) address: String,
    pub(super) witness: Arc<Witness>,
    settings: ClientSettings,
    _runtime: tokio::runtime::Runtime,
}

/// `[packages]` as a person writes it in a profile.
pub(super) fn packages(text: &str) -> Packages {
    Profile::parse("p.toml", &format!("name = \"x\"\n[packages]\n{text}")).unwrap().bound.packages
}

pub(super) const OPEN: &str = "python = \"open\"\nnode = \"open\"\nrust = \"open\"\nminimum-age = \"0s\"\n";

static MOVED_HOURS: AtomicU64 = AtomicU64::new(0);

/// The clock of the test about time.
pub(super) fn moved_clock() -> SystemTime {
    SystemTime::now() + Duration::from_secs(3600 * MOVED_HOURS.load(Ordering::SeqCst))
}

pub(super) fn move_clock(hours: u64) {
    MOVED_HOURS.store(hours, Ordering::SeqCst);
}

/// The operator's settings for a shelf.
fn upstreams(shelf: &Shelf) -> Upstreams {
    let root = tempfile::tempdir().unwrap();
    let environment = BTreeMap::from([
        ("PIP_INDEX_URL".to_owned(), shelf.upstream.url("/simple/").replace("http://", "http://me:word@")),
        ("npm_config_registry".to_owned(), shelf.upstream.url("/npm/")),
        ("CARGO_HOME".to_owned(), "/cargo".to_owned()),
        ("CARGO_REGISTRY_DEFAULT".to_owned(), "own".to_owned()),
        ("CARGO_REGISTRIES_OWN_INDEX".to_owned(), format!("sparse+{}", shelf.upstream.url("/rust/"))),
    ]);
    Upstreams::read(&Operator { environment: &environment, root: root.path() })
}

impl Rig {
    pub(super) fn new(shelf: &Shelf, rules: &str) -> Self {
        Self::with(shelf, rules, Pins::default(), |_| {})
    }

    pub(super) fn with(shelf: &Shelf, rules: &str, pins: Pins, adjust: impl FnOnce(&mut IndexSetup)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let witness = Arc::new(Witness::default());
        let mut setup = IndexSetup {
            packages: packages(rules),
            pins,
            upstreams: upstreams(shelf),
            cache: folder.path().join("cache"),
            base_url: format!("http://{address}"),
            limits: IndexLimits::default(),
            witness: Arc::clone(&witness) as Arc<dyn PackageWitness>,
            clock: SystemTime::now,
        };
        adjust(&mut setup);
        let settings = client_settings(&setup.packages, &setup.base_url);
        let index = Arc::new(Index::new(setup).unwrap());
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&index).serve(stream));
            }
        });
        Self { folder, address, witness, settings, _runtime: runtime }
    }

    /// A folder of the run's own.
    pub(super) fn path(&self, part: &str) -> PathBuf {
        let path = self.folder.path().join("root").join(part);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    pub(super) fn write(&self, part: &str, text: &str) {
        let path = self.folder.path().join("root").join(part);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(super) fn fill_record(&self) {
        self.witness.is_full.store(true, Ordering::SeqCst);
    }

    /// The files as a sandbox would have them, below a folder.
    pub(super) fn lay_files(&self) -> PathBuf {
        for (path, text) in &self.settings.files {
            self.write(path.trim_start_matches('/'), text);
        }
        self.path("")
    }

    /// Runs a client in a folder with the settings' variables and nothing else of this machine's.
    pub(super) fn run(&self, program: &Path, folder: &str, arguments: &[&str]) -> Outcome {
        self.run_with(program, folder, arguments, &self.settings.environment)
    }

    pub(super) fn run_with(&self, program: &Path, folder: &str, arguments: &[&str], variables: &[(String, String)]) -> Outcome {
        let tools = program.parent().unwrap().display();
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.path(folder)).env_clear().envs(variables.iter().cloned());
        command.env("PATH", format!("{tools}:/usr/local/bin:/usr/bin:/bin")).env("HOME", self.path("home")).stdin(Stdio::null());
        let output = command.output().unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        Outcome { is_success: output.status.success(), text }
    }

    pub(super) fn pip(&self, arguments: &[&str]) -> Outcome {
        let install = [&["-m", "pip", "install", "--no-cache-dir", "--target", "site"], arguments].concat();
        self.run(Path::new("/usr/bin/python3"), "work", &install)
    }

    pub(super) fn npm(&self, arguments: &[&str]) -> Outcome {
        self.run(Path::new("/usr/bin/npm"), "work", arguments)
    }

    pub(super) fn cargo(&self, arguments: &[&str]) -> Outcome {
        self.lay_files();
        self.run(Path::new(env!("CARGO")), "work", arguments)
    }

    /// A plain request.
    pub(super) fn get(&self, path: &str) -> Said {
        self.request(&format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"))
    }

    pub(super) fn request(&self, text: &str) -> Said {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(&self.address).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let line: Vec<&str> = head.lines().next().unwrap().splitn(3, ' ').collect();
        Said {
            status: line[1].parse().unwrap(),
            reason: line[2].to_owned(),
            headers: head.to_lowercase(),
            body: answer[end + 4..].to_vec(),
        }
    }

    pub(super) fn told(&self) -> Vec<PackageEvent> {
        self.witness.told.lock().unwrap().clone()
    }

    /// What was served: file and hash.
    pub(super) fn served(&self) -> Vec<(String, String)> {
        let served = self.told().into_iter().filter(|event| event.decision == PackageDecision::Served);
        let mut served: Vec<_> = served.map(|event| (event.file, event.sha256.unwrap())).collect();
        served.sort();
        served
    }

    /// What was refused: the name, version or file, and the rule.
    pub(super) fn refused(&self) -> Vec<String> {
        let words = |event: PackageEvent| match event.decision {
            PackageDecision::Served => None,
            PackageDecision::Refused { rule } => Some(format!("{} {} {}: {rule}", event.name, event.version, event.file)),
        };
        self.told().into_iter().filter_map(words).collect()
    }
}

/// True if a client is here; otherwise the test is counted as skipped.
pub(super) fn has(client: &str) -> bool {
    let is_here = match client {
        "pip" => Command::new("/usr/bin/python3").args(["-m", "pip", "--version"]).output().is_ok_and(|output| output.status.success()),
        program => Path::new("/usr/bin").join(program).exists(),
    };
    if !is_here {
        println!("skipped: {client} is not installed");
    }
    is_here
}
