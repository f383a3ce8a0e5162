//! What the probe is told to try, run by run. The words are those that it knows, `VERB=OPERAND`.

use ringfence_policy::{Capabilities, Inputs, Project};

use super::bait::{self, Names};
use super::ways;

/// Where a cloud tells its machines their credentials, and an address of nobody, to which there is a way only if there is one to everywhere.
pub(crate) const METADATA: &str = "tcp=169.254.169.254:80";
pub(crate) const ANYWHERE: &str = "tcp=192.0.2.1:443";
/// Kinds of sockets that no run may have.
pub(crate) const KINDS: [&str; 5] = ["raw", "packet", "vsock", "netlink-audit", "netlink-netfilter"];
/// Folders of the system, in which an install would write.
pub(crate) const SYSTEM: [&str; 12] =
    ["/", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/local/bin", "/usr/local/lib", "/bin", "/etc", "/var/lib", "/opt", "/inputs"];
/// Files of the host that every sandbox leaves out.
pub(crate) const HOST_FILES: [&str; 4] = ["/etc/shadow", "/etc/machine-id", "/root/.ssh", "/var/run/docker.sock"];
/// The file that is named for export, and the one that is not.
pub(crate) const KEPT: &str = "kept.txt";
pub(crate) const UNNAMED: &str = "unnamed.txt";
/// Where files are left behind.
pub(crate) const LEFT_IN: [&str; 2] = ["/tmp", "/dev/shm"];

pub(crate) const TOP: &str = "list=/";
pub(crate) const MOUNTS: &str = "text=/proc/self/mountinfo";
pub(crate) const WALK: &str = "walk=/";
pub(crate) const VARIABLES: &str = "text=/proc/self/environ";
pub(crate) const DESCRIPTORS: &str = "links=/proc/self/fd";
pub(crate) const INIT_VARIABLES: &str = "text=/proc/1/environ";
pub(crate) const KEYRING: &str = "keyring=session";
pub(crate) const PROCESSES: &str = "list=/proc";
pub(crate) const INTERFACES: &str = "text=/proc/self/net/dev";
pub(crate) const SEGMENTS: &str = "text=/proc/sysvipc/shm";
/// Sockets of the network that the probe finds, and the addresses that are the sandbox's own.
pub(crate) const LISTENING: [&str; 4] =
    ["text=/proc/self/net/tcp", "text=/proc/self/net/udp", "text=/proc/self/net/tcp6", "text=/proc/self/net/udp6"];
pub(crate) const ADDRESSES: &str = "text=/proc/self/net/fib_trie";

/// What the host has and the probe must see, where nothing holds it back.
pub(crate) fn bait(names: &Names) -> Vec<String> {
    vec![host_file(names), service(names), named_socket(names), abstract_socket(names)]
}

pub(crate) fn host_file(names: &Names) -> String {
    format!("read={}", names.secret().display())
}

pub(crate) fn service(names: &Names) -> String {
    format!("tcp={}", names.service)
}

pub(crate) fn named_socket(names: &Names) -> String {
    format!("unix={}", names.socket().display())
}

pub(crate) fn abstract_socket(names: &Names) -> String {
    format!("abstract={}", names.mark)
}

/// Where a program that the run wrote is executed from; `home` is the workspace of the profile's user.
pub(crate) fn places(home: &str) -> [&str; 4] {
    [home, "/tmp", "/dev/shm", "memory"]
}

/// Changes the project, writes what is named for export and what is not, and leaves behind whatever can be left.
pub(crate) fn leave(names: &Names, capabilities: &Capabilities, home: &str) -> Vec<String> {
    let mut attempts: Vec<String> = [KEPT, UNNAMED].iter().map(|name| format!("append={home}/{name}")).collect();
    if capabilities.project == Project::View {
        attempts.extend(hidden(home));
        attempts.extend([format!("append={home}/notes.txt"), format!("remove={home}/gone.txt")]);
    }
    attempts.extend(LEFT_IN.map(|folder| format!("append={folder}/{}", names.mark)));
    attempts.extend([format!("leave-segment={}", names.key()), format!("leave-process={}", names.mark)]);
    attempts
}

/// Looks at everything that the run before may have left, and at all that the host has.
pub(crate) fn look(names: &Names, capabilities: &Capabilities, files: &[(String, String)], home: &str) -> Vec<String> {
    let plain = [TOP, MOUNTS, VARIABLES, DESCRIPTORS, INIT_VARIABLES, KEYRING, PROCESSES, INTERFACES, SEGMENTS, METADATA, ANYWHERE, WALK];
    let mut attempts: Vec<String> = plain.iter().chain(&LISTENING).chain([&ADDRESSES]).map(|word| (*word).to_owned()).collect();
    attempts.extend(files.iter().map(|(path, _)| file(path)));
    attempts.extend(ways::attempts(names, capabilities));
    attempts.extend(self::bait(names));
    attempts.extend(HOST_FILES.map(|path| format!("read={path}")));
    attempts.extend(SYSTEM.map(|folder| format!("write={folder}")));
    attempts.extend(places(home).map(|place| format!("run={place}")));
    attempts.extend(KINDS.map(|kind| format!("socket={kind}")));
    attempts.extend(LEFT_IN.map(|folder| format!("read={folder}/{}", names.mark)));
    if capabilities.inputs == Inputs::Named {
        attempts.extend(hidden("/inputs/bait").chain(["read=/inputs/bait/notes.txt".to_owned(), "write=/inputs/bait".to_owned()]));
    }
    attempts
}

/// Reading a file that is laid over the image.
pub(crate) fn file(path: &str) -> String {
    format!("text={path}")
}

/// Reading what a view of the project must hide.
pub(crate) fn hidden(at: &str) -> impl Iterator<Item = String> {
    bait::hidden().map(move |name| format!("read={at}/{name}"))
}
