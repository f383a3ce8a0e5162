//! The checks of a server that need the real binary: its memory, its files, and where it listens.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::process::Signal;
use serde_json::json;

use crate::serve::Serving;
use crate::support::{Place, binary};

/// A number of a process's status, KiB.
fn kib(serving: &Serving, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", serving.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Sends a body piece by piece for as long as it is taken; answers with the status and how much was taken.
fn send(serving: &Serving, fields: &str, pieces: impl Iterator<Item = Vec<u8>>) -> (u16, u64) {
    let mut stream = TcpStream::connect(&serving.address).unwrap();
    let head = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nConnection: close\r\n{fields}\r\n",
        serving.key
    );
    stream.write_all(head.as_bytes()).unwrap();
    let sent = pieces.take_while(|piece| stream.write_all(piece).is_ok()).map(|piece| piece.len() as u64).sum();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    (std::str::from_utf8(&status[9..]).unwrap().parse().unwrap(), sent)
}

/// A whole body.
fn send_whole(serving: &Serving, fields: &str, body: Vec<u8>) -> u16 {
    send(serving, &format!("Content-Length: {}\r\n{fields}", body.len()), std::iter::once(body)).0
}

/// Two gibibytes of zeros, as gzip writes them.
fn bomb() -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    (0..2048).for_each(|_| packed.write_all(&vec![0; 1 << 20]).unwrap());
    packed.finish().unwrap()
}

/// An object of a million names, as short as they can be.
fn a_million_names(before: &str, value: &str, after: &str) -> Vec<u8> {
    let letters: Vec<u8> = (b' '..=b'~').filter(|letter| !b"\"\\".contains(letter)).collect();
    let name = |mut number: usize| {
        let mut name = Vec::new();
        while number > 0 {
            name.push(letters[number % letters.len()]);
            number /= letters.len();
        }
        name
    };
    let mut body = before.as_bytes().to_vec();
    for number in 1..=1_000_000 {
        body.push(b'"');
        body.extend(name(number));
        body.extend(format!("\":{value},").bytes());
    }
    body.extend(after.bytes());
    body
}

#[test]
fn sv_11_no_body_makes_a_server_grow() {
    for place in Place::each() {
        let serving = Serving::start(&place, &[]);
        assert_eq!(send_whole(&serving, "", b"{}".to_vec()), 422);
        fs::write(format!("/proc/{}/clear_refs", serving.pid()), "5").unwrap(); // the peak begins anew
        let before = kib(&serving, "VmRSS");
        let (gib2, piece) = (2u64 << 30, 64usize << 10);
        let spaces = || std::iter::repeat_n(vec![b' '; piece], 32_768);
        let chunk = [b"10000\r\n".as_slice(), &vec![b' '; piece], b"\r\n"].concat();
        assert_eq!(send(&serving, &format!("Content-Length: {gib2}\r\n"), std::iter::empty()), (413, 0));
        let (status, _) = send(&serving, &format!("Content-Length: {gib2}\r\n"), spaces());
        assert_eq!(status, 413);
        let (status, sent) = send(&serving, "Transfer-Encoding: chunked\r\n", std::iter::repeat_n(chunk, 32_768));
        assert!(status == 413 && sent < gib2 / 32, "{status}, {sent} bytes were taken");
        assert_eq!(send_whole(&serving, "Content-Encoding: gzip\r\n", bomb()), 415);
        let deep = format!("{{\"command\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(send_whole(&serving, "", deep.into_bytes()), 422);
        let deep = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
        assert_eq!(send_whole(&serving, "", deep.into_bytes()), 422);
        let unknown = a_million_names("{", "0", "\"command\":[\"true\"]}");
        assert!(unknown.len() < 8 << 20);
        assert_eq!(send_whole(&serving, "", unknown), 422);
        assert_eq!(send_whole(&serving, "", a_million_names("{\"env\":{", "0", "\"x\":0}}")), 422);
        assert_eq!(send_whole(&serving, "", a_million_names("{\"command\":[\"true\"],\"env\":{", "\"\"", "\"x\":\"\"}}")), 413);
        let grown = kib(&serving, "VmHWM") - before;
        assert!(grown < 64 << 10, "{grown} KiB");
        assert_eq!(serving.ask(&serving.key, "GET", "/v1/runs", "").0, 200);
        assert_eq!(serving.signal(Signal::TERM), Some(0));
    }
}

/// Every file and folder of a home that others could use, were they to get there. Images are trees of their own, with modes of their own, beneath a folder that is
/// its owner's alone. The server is at work meanwhile: what is gone by the time that it is looked at is nobody's.
fn loose(folder: &Path) -> BTreeMap<String, u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    // The public key is for everybody.
    let entries = entries.filter(|path| !path.ends_with("keys/evidence.pub"));
    let entries = entries.filter_map(|path| Some((fs::symlink_metadata(&path).ok()?.mode() & 0o777, path)));
    let (own, beneath): (Vec<_>, Vec<_>) = entries.partition(|(mode, _)| mode & 0o077 == 0);
    let deeper = own.iter().filter(|(_, path)| path.is_dir() && !path.ends_with("images")).flat_map(|(_, path)| loose(path));
    beneath.iter().map(|(mode, path)| (path.display().to_string(), *mode)).chain(deeper).collect()
}

#[test]
fn sv_19_what_a_server_keeps_is_its_owners_alone_whatever_the_umask() {
    for place in Place::each() {
        let mut command = place.command("/bin/sh");
        command.args(["-c", "umask 0; exec \"$@\"", "sh"]).arg(binary()).args(["serve", "--listen", "127.0.0.1:0"]);
        let serving = Serving::of(command);
        let body =
            json!({"command": ["sh", "-c", "echo x > r"], "exports": ["r"], "state": "kept", "inputs": [{"name": "i", "content": "y"}]});
        let (status, report) = serving.ask(&serving.key, "POST", "/v1/runs?wait=true", &body.to_string());
        assert_eq!((status, &report["artifacts"][0]["path"]), (201, &json!("r")), "{report}");
        let (status, session) = serving.ask(&serving.key, "POST", "/v1/sessions", "{}");
        assert_eq!(status, 201, "{session}");
        assert_eq!(loose(&place.home()), BTreeMap::new());
        let owner = fs::metadata(place.home()).unwrap().uid();
        for entry in fs::read_dir(place.home()).unwrap().flatten() {
            assert!(entry.metadata().is_ok_and(|entry| entry.uid() == owner) || !entry.path().exists(), "{:?}", entry.path());
        }
        assert_eq!(fs::metadata(place.home()).unwrap().mode() & 0o777, 0o700);
        assert_eq!(serving.signal(Signal::TERM), Some(0));
        place.assert_clean();
    }
}

#[test]
fn sv_19_a_server_does_not_start_where_others_can_use_what_it_keeps() {
    for place in Place::each() {
        assert_eq!(Serving::start(&place, &[]).signal(Signal::TERM), Some(0));
        assert_eq!(place.bash(&[], "true").status, 0);
        assert_eq!(place.ringfence(&["evidence", "ls"]).status, 0);
        let kept =
            ["runs", "artifacts", "keys", "credentials", "states", "agents", "persons", "promotions", "server.sqlite", "index.sqlite"];
        let wider = kept.iter().flat_map(|name| [(*name, 0o040), (*name, 0o004), (*name, 0o020)]).chain([("", 0o020), ("", 0o002)]);
        for (name, more) in wider {
            let path = if name.is_empty() { place.home() } else { place.home().join(name) };
            let mode = fs::metadata(&path).unwrap().mode() & 0o777;
            fs::set_permissions(&path, Permissions::from_mode(mode | more)).unwrap();
            let refused = place.ringfence(&["serve", "--listen", "127.0.0.1:0"]);
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(refused.status, 125, "{name} {more:o}: {refused:?}");
            assert!(refused.stderr.contains(name) && refused.stderr.contains("chmod"), "{name} {more:o}: {refused:?}");
        }
        assert_eq!(Serving::start(&place, &[]).signal(Signal::TERM), Some(0));
    }
}

/// Where the process listens, as `ss -ltn` says it: address and port in hexadecimal digits, as the kernel has them.
fn listening(pid: u32) -> Vec<String> {
    let sockets: Vec<String> = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok()?.to_str()?.strip_prefix("socket:[")?.strip_suffix(']').map(str::to_owned))
        .collect();
    let tables =
        ["tcp", "tcp6", "udp", "udp6"].map(|name| (name, fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default()));
    let rows =
        tables.iter().flat_map(|(name, table)| table.lines().skip(1).map(move |line| (name, line.split_whitespace().collect::<Vec<_>>())));
    let ours = rows
        .filter(|(name, row)| sockets.iter().any(|inode| row.get(9) == Some(&inode.as_str())) && (row[3] == "0A" || name.starts_with('u')));
    ours.map(|(_, row)| row[1].to_owned()).collect()
}

#[test]
fn sv_20_a_server_that_is_told_nothing_listens_on_loopback_alone() {
    for place in Place::each() {
        let serving = Serving::start(&place, &[]);
        let port: u16 = serving.address.rsplit(':').next().unwrap().parse().unwrap();
        assert_eq!(listening(serving.pid()), [format!("0100007F:{port:04X}")]);
        assert_eq!(serving.signal(Signal::TERM), Some(0));
        // The usual port may be another's here; where it is not, that is the place.
        let help = place.ringfence(&["serve", "--help"]).stdout;
        assert!(help.contains("[default: 127.0.0.1:7300]"), "{help}");
        let mut command = place.command(binary());
        command.args(["serve"]);
        if TcpStream::connect("127.0.0.1:7300").is_err() {
            let serving = Serving::of(command);
            assert_eq!(listening(serving.pid()), [format!("0100007F:{:04X}", 7300)]);
            assert_eq!(serving.signal(Signal::TERM), Some(0));
        }
    }
}

#[test]
fn sv_20_no_public_address_is_listened_on_without_tls_and_none_without_keys() {
    for place in Place::each() {
        for address in ["0.0.0.0:0", "[::]:0", "[::ffff:0.0.0.0]:0", "192.0.2.1:7300", "169.254.1.1:0", "[2001:db8::1]:0"] {
            let refused = place.ringfence(&["serve", "--listen", address]);
            assert!(refused.status == 125 && refused.stderr.contains("hint: give a certificate"), "{address}: {refused:?}");
        }
        let serving = Serving::start(&place, &[]);
        assert_eq!(serving.ask("", "GET", "/v1/runs", "").0, 401);
        assert_eq!(serving.signal(Signal::TERM), Some(0));
        let help = place.ringfence(&["serve", "--help"]).stdout;
        assert!(!["--no-auth", "--no-key", "--insecure", "--anonymous"].iter().any(|option| help.contains(option)), "{help}");
    }
}
