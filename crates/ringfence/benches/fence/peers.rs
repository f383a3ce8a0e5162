//! Who is measured: each starts the same program, with as much of the same view as it can be told to give.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ringfence_isolation::{Host, Image, Step, lease_identity};

use crate::ready::default_plan;
use crate::{Places, binary};

/// Somebody who can run a program.
pub(crate) struct Contestant {
    /// As the table names it.
    pub(crate) name: &'static str,
    /// What is executed.
    pub(crate) argv: Vec<String>,
    /// Where ringfence keeps its records.
    pub(crate) home: Option<PathBuf>,
}

/// The peer to which ratios are given: told to show what a run of ringfence sees, mount by mount.
pub(crate) const PEER: &str = "bubblewrap, same view";
/// What any of them does at least.
pub(crate) const BARE: &str = "fork+exec";

/// Those that are here.
pub(crate) fn all(places: &Places, program: &[&str]) -> Vec<Contestant> {
    let home = |folder: &tempfile::TempDir| Some(folder.path().join("home"));
    let ringfence = [binary().to_str().unwrap(), "run", "--quiet", "--"].map(str::to_owned).to_vec();
    let same = on_path("bwrap").then(|| (PEER, same_view(places.memory.path()), None));
    let peer = |name, words: &str| on_path(words.split(' ').next()?).then(|| (name, words.split(' ').map(str::to_owned).collect(), None));
    [
        Some((BARE, Vec::new(), None)),
        Some(("ringfence", ringfence.clone(), home(&places.memory))),
        Some(("ringfence, home on disk", ringfence, home(&places.disk))),
        same,
        peer("bubblewrap, plain view", BUBBLEWRAP),
        peer("unshare", "unshare --user --map-root-user --mount --pid --net --ipc --uts --cgroup --fork --mount-proc --"),
        peer("nsjail", "nsjail -Q -Mo --chroot / --"),
        container("runc", places),
        container("crun", places),
    ]
    .into_iter()
    .flatten()
    .map(|(name, before, home)| {
        let program = program.iter().map(|word| (*word).to_owned());
        let argv = if before.iter().any(|word| word == BUNDLE) {
            in_bundle(before, program.collect())
        } else {
            before.into_iter().chain(program).collect()
        };
        Contestant { name, argv, home }
    })
    .collect()
}

const BUBBLEWRAP: &str = "bwrap --unshare-all --die-with-parent --new-session --cap-drop ALL --ro-bind /usr /usr --symlink usr/bin /bin \
    --symlink usr/lib /lib --symlink usr/lib64 /lib64 --symlink usr/sbin /sbin --ro-bind /etc /etc --proc /proc --dev /dev --tmpfs /tmp \
    --tmpfs /workspace --chdir /workspace --clearenv --setenv PATH /usr/bin:/bin --hostname sandbox --";

/// The root and the covered files of the default profile's plan.
fn same_view(folder: &Path) -> Vec<String> {
    let image = Image::of_host(&folder.join("images")).unwrap();
    let plan = default_plan(&Host::look(), &image, lease_identity().unwrap().identity);
    let mut words: Vec<String> = "bwrap --unshare-all --die-with-parent --new-session --cap-drop ALL --clearenv --hostname sandbox"
        .split(' ')
        .map(str::to_owned)
        .collect();
    let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
    add(&["--ro-bind", image.root.to_str().unwrap(), "/"]);
    for (name, path) in &image.trees {
        add(&["--ro-bind", path.to_str().unwrap(), &format!("/{name}")]);
    }
    add(&["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/workspace", "--chdir", "/workspace"]);
    for step in &plan.steps {
        if let Step::Mask { at } = step
            && Path::new(at.trim_start_matches("root")).exists()
        {
            add(&["--ro-bind", "/dev/null", at.trim_start_matches("root")]);
        }
    }
    for (name, value) in &plan.environment {
        add(&["--setenv", name, value]);
    }
    add(&["--"]);
    words
}

fn on_path(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join(program).metadata().is_ok_and(|m| m.permissions().mode() & 0o111 != 0))
    })
}

/// Stands where the name of a bundle goes.
const BUNDLE: &str = "--bundle";

/// An OCI runtime, as root: a bundle with the host's `/usr`, without a terminal.
fn container(name: &'static str, places: &Places) -> Option<(&'static str, Vec<String>, Option<PathBuf>)> {
    if !on_path(name) || !rustix::process::geteuid().is_root() {
        return None;
    }
    let bundle = places.memory.path().join(name);
    std::fs::create_dir_all(bundle.join("rootfs")).ok()?;
    Some((name, vec![name.to_owned(), "run".into(), BUNDLE.into(), bundle.to_str()?.to_owned()], None))
}

/// Writes the bundle's configuration for a program; the container's name follows.
fn in_bundle(before: Vec<String>, program: Vec<String>) -> Vec<String> {
    let (name, folder) = (before[0].clone(), Path::new(before.last().unwrap()).join(program[0].replace('/', "-")));
    std::fs::create_dir_all(folder.join("rootfs")).unwrap();
    std::fs::write(folder.join("config.json"), config(&program).to_string()).unwrap();
    [&name, "run", BUNDLE, folder.to_str().unwrap(), &format!("bench-{}", std::process::id())].map(str::to_owned).to_vec()
}

fn config(program: &[String]) -> serde_json::Value {
    let bind = |path: &str| serde_json::json!({"destination": path, "type": "bind", "source": path, "options": ["rbind", "ro", "nosuid", "nodev"]});
    let tmpfs = |path: &str| serde_json::json!({"destination": path, "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev"]});
    let mut mounts: Vec<_> = ["/usr", "/bin", "/lib", "/lib64"].into_iter().filter(|path| Path::new(path).exists()).map(bind).collect();
    mounts.push(serde_json::json!({"destination": "/proc", "type": "proc", "source": "proc"}));
    mounts.extend([tmpfs("/dev"), tmpfs("/tmp")]);
    serde_json::json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 1000, "gid": 1000}, "args": program, "cwd": "/tmp", "env": ["PATH=/usr/bin:/bin"], "noNewPrivileges": true,
            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}]
        },
        "root": {"path": "rootfs", "readonly": false},
        "hostname": "sandbox",
        "mounts": mounts,
        "linux": {"namespaces": [{"type": "pid"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}]}
    })
}
