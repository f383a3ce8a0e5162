//! What the host has that a run must not reach, laid out so that only the fence keeps the probe from it: everyone may read and connect.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Permissions};
use std::io;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use ringfence_store::RunId;
use rustix::io::{FdFlags, fcntl_setfd};

use super::AuditError;
use crate::error::RunError;

/// Files of the project: name, and whether it is one that a view must hide.
const PROJECT: [(&str, bool); 5] =
    [("notes.txt", false), ("gone.txt", false), ("src/keep.txt", false), (".env", true), ("server.pem", true)];

/// What the bait is called. Everything that is tried and judged goes by these names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    /// A random name: of what the probe leaves behind, and of the abstract socket.
    pub(crate) mark: String,
    /// Stands in every file of the bait that must not be read.
    pub(crate) token: String,
    /// Where the bait is.
    pub(crate) folder: PathBuf,
    /// A service on the host's loopback, as `ADDRESS:PORT`.
    pub(crate) service: String,
}

impl Names {
    /// A file that everyone on the host may read.
    pub(crate) fn secret(&self) -> PathBuf {
        self.folder.join("secret.txt")
    }

    /// A socket that everyone on the host may connect to.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("host.sock")
    }

    /// A project with secrets in it.
    pub(crate) fn project(&self) -> PathBuf {
        self.folder.join("project")
    }

    /// A key for System V memory that nobody else has.
    pub(crate) fn key(&self) -> u64 {
        self.mark.bytes().fold(1, |key: u64, byte| (key * 31 + u64::from(byte)) % 0x7fff_ffff).max(1)
    }
}

/// Files of the project that a view must hide.
pub(crate) fn hidden() -> impl Iterator<Item = &'static str> {
    PROJECT.iter().filter(|(_, is_hidden)| *is_hidden).map(|(name, _)| *name)
}

/// The bait of one audit. Dropping it takes everything away.
#[derive(Debug)]
pub(crate) struct Bait {
    pub(crate) names: Names,
    before: BTreeMap<PathBuf, Vec<u8>>,
    _service: TcpListener,
    _named: UnixListener,
    _abstract: UnixListener,
    _inheritable: File,
}

impl Bait {
    pub(crate) fn lay() -> Result<Self, AuditError> {
        let (mark, token) = (random()?, random()?);
        let folder = std::env::temp_dir().join(format!("ringfence-audit-{mark}"));
        let laid = lay_in(&folder, mark, token);
        laid.map_err(|source| {
            // What was made of it goes again; why it could not be made is what matters.
            fs::remove_dir_all(&folder).unwrap_or_default();
            AuditError::Bait { act: format!("lay bait in `{}`", folder.display()), source }
        })
    }

    /// Paths of the project that are not as they were laid.
    pub(crate) fn changed(&self) -> Vec<String> {
        let now = content(&self.names.project()).unwrap_or_default();
        let all: BTreeSet<&PathBuf> = self.before.keys().chain(now.keys()).collect();
        all.into_iter().filter(|path| self.before.get(*path) != now.get(*path)).map(|path| path.display().to_string()).collect()
    }
}

impl Drop for Bait {
    fn drop(&mut self) {
        // Whoever clears temporary files finds it by its name.
        fs::remove_dir_all(&self.names.folder).unwrap_or_default();
    }
}

fn random() -> Result<String, AuditError> {
    Ok(RunId::new().map_err(RunError::Random)?.to_string())
}

fn lay_in(folder: &Path, mark: String, token: String) -> io::Result<Bait> {
    fs::create_dir(folder)?;
    open_to_all(folder, 0o755)?;
    let service = TcpListener::bind("127.0.0.1:0")?;
    let names = Names { mark, token, folder: folder.to_owned(), service: service.local_addr()?.to_string() };
    write(&names.secret(), &format!("SECRET={}\n", names.token))?;
    for (name, is_hidden) in PROJECT {
        let text = if is_hidden { format!("SECRET={}\n", names.token) } else { format!("{name} as it was\n") };
        write(&names.project().join(name), &text)?;
    }
    let named = UnixListener::bind(names.socket())?;
    open_to_all(&names.socket(), 0o777)?;
    Ok(Bait {
        before: content(&names.project())?,
        _service: service,
        _named: named,
        _abstract: UnixListener::bind_addr(&SocketAddr::from_abstract_name(&names.mark)?)?,
        _inheritable: inheritable(&names.secret())?,
        names,
    })
}

/// A descriptor that a launcher which hands its own down would hand down.
fn inheritable(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    fcntl_setfd(&file, FdFlags::empty())?;
    Ok(file)
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
        open_to_all(parent, 0o755)?;
    }
    fs::write(path, text)?;
    open_to_all(path, 0o644)
}

fn open_to_all(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Every file below a folder, by its path in it.
fn content(folder: &Path) -> io::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let (mut waiting, mut files) = (vec![folder.to_owned()], BTreeMap::new());
    while let Some(path) = waiting.pop() {
        for entry in fs::read_dir(path)? {
            let path = entry?.path();
            match path.symlink_metadata()?.is_dir() {
                true => waiting.push(path),
                false => drop(files.insert(path.strip_prefix(folder).unwrap_or(&path).to_owned(), fs::read(&path)?)),
            }
        }
    }
    Ok(files)
}
