//! Who is let in.

use std::collections::BTreeSet;
use std::time::Duration;

use ringfence_control::Runner;
use ringfence_server::{Limits, ServeError, ServeOptions, Server, TlsFiles};
use ringfence_store::{Clients, Home};

use crate::rig::{Rig, document, open, options, parse, until_end};

/// Every path of the description with a name in place of each parameter.
pub(crate) fn every_path() -> Vec<(String, String)> {
    let named = |path: &str| {
        let name = if path.contains("digest") { format!("sha256:{}", "0".repeat(64)) } else { "01kbdz9xk3v8p5r0q2n7m4t6w1".to_owned() };
        path.split('/').map(|part| if part.starts_with('{') { name.clone() } else { part.to_owned() }).collect::<Vec<_>>().join("/")
    };
    let paths = document()["paths"].as_object().unwrap();
    let each = paths.iter().flat_map(|(path, methods)| methods.as_object().unwrap().keys().map(move |method| (path, method)));
    each.map(|(path, method)| (method.to_ascii_uppercase(), named(path))).collect()
}

#[test]
fn nothing_but_health_and_the_description_is_told_without_a_key() {
    let rig = Rig::new();
    let wrong = format!("rf_{}", "0".repeat(64));
    let mut open = BTreeSet::new();
    for (method, path) in every_path() {
        let body = (method == "POST").then_some("{}");
        let reply = rig.ask_as("", &method, &path, "", body);
        if reply.status == 200 {
            open.insert(path);
            continue;
        }
        assert_eq!((reply.status, reply.code().as_str()), (401, "unauthorized"), "{method} {path}");
        assert!(reply.header("www-authenticate").is_some());
    }
    assert_eq!(open, ["/healthz", "/v1/openapi.json"].map(str::to_owned).into());
    for path in ["/", "/v1", "/v1/nothing", "/v1/runs/", "/v1//runs", "/metrics/", "/V1/runs"] {
        assert_eq!(rig.ask_as("", "GET", path, "", None).status, 401, "{path}");
        assert_eq!(rig.get(path).code(), "not_found", "{path}");
    }
    for key in [wrong.as_str(), "rf_", "x", &rig.key[..66], &format!("{}0", rig.key), &rig.key.to_uppercase(), &format!("{} x", rig.key)] {
        assert_eq!(rig.ask_as(key, "GET", "/v1/runs", "", None).status, 401, "{key}");
    }
    let twice = format!("X-API-Key: {}\r\n", rig.key);
    assert_eq!(rig.ask_as(&rig.key, "GET", "/v1/runs", &twice, None).status, 401);
    assert_eq!(rig.ask_as("", "GET", "/v1/runs", &twice, None).status, 200);
    assert_eq!(rig.ask_as(&rig.e2b_key, "GET", "/v1/runs", "", None).code(), "wrong_key_kind");
    assert_eq!(rig.ask_as(&rig.e2b_key, "GET", "/metrics", "", None).status, 200);
}

#[test]
fn a_revoked_key_opens_nothing_from_then_on() {
    let rig = Rig::new();
    let key = rig.tenant("acme");
    assert_eq!(rig.ask_as(&key, "GET", "/v1/runs", "", None).status, 200);
    let mut clients = Clients::open(&rig.home()).unwrap();
    let row = clients.keys().unwrap().into_iter().find(|row| row.tenant == "acme").unwrap();
    assert!(row.used_at.is_some() && clients.revoke_key(&row.id).unwrap());
    assert_eq!(rig.ask_as(&key, "GET", "/v1/runs", "", None).status, 401);
}

#[test]
fn wrong_keys_are_slowed_down_and_right_ones_are_not() {
    let limits = Limits { wrong_keys_of_one_peer: 3, wrong_key_of_one_peer_every: Duration::from_secs(60), ..Limits::default() };
    let rig = Rig::with(ServeOptions { limits, ..options() });
    let wrong = format!("rf_{}", "0".repeat(64));
    let statuses: Vec<u16> = (0..5).map(|_| rig.ask_as(&wrong, "GET", "/v1/runs", "", None).status).collect();
    assert_eq!(statuses, [401, 401, 401, 429, 429]);
    let reply = rig.ask_as(&wrong, "GET", "/v1/runs", "", None);
    assert_eq!(reply.code(), "too_many_wrong_keys");
    assert!((1..=61).contains(&reply.header("retry-after").unwrap().parse::<u64>().unwrap()), "{reply:?}");
    assert_eq!(rig.get("/v1/runs").status, 200);
    let metrics = rig.get("/metrics").body;
    assert!(metrics.contains("ringfence_wrong_keys_total 6\n"), "{metrics}");
    assert!(!metrics.contains("rf_"), "{metrics}");
}

#[test]
fn a_page_of_somebody_elses_cannot_ask() {
    let rig = Rig::new();
    let ask = |host: &str, fields: &str| {
        let key = &rig.key;
        parse(
            &rig.say(format!("GET /v1/runs HTTP/1.1\r\n{host}Authorization: Bearer {key}\r\nConnection: close\r\n{fields}\r\n").as_bytes()),
        )
    };
    for host in ["localhost", "localhost:7300", "a.localhost", "127.0.0.1", "[::1]:1"] {
        assert_eq!(ask(&format!("Host: {host}\r\n"), "").status, 200, "{host}");
    }
    for host in ["evil.example", "localhost.evil.example:7300", "evil.example@127.0.0.1"] {
        let reply = ask(&format!("Host: {host}\r\n"), "");
        assert_eq!((reply.status, reply.code().as_str()), (421, "wrong_host"), "{host}");
    }
    for host in ["", "Host: localhost\r\nHost: localhost\r\n", "Host: localhost\r\nHost: evil.example\r\n"] {
        assert_eq!(ask(host, "").status, 400, "{host}");
    }
    for origin in ["null", "https://evil.example", "http://localhost:1"] {
        let reply = ask("Host: localhost\r\n", &format!("Origin: {origin}\r\n"));
        assert_eq!((reply.status, reply.code().as_str()), (403, "foreign_origin"), "{origin}");
        assert!(reply.header("access-control-allow-origin").is_none());
    }
    assert_eq!(ask("Host: localhost\r\n", "Origin: http://localhost\r\n").status, 200);
    let absolute = format!(
        "GET http://evil.example/v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        rig.key
    );
    assert_eq!(parse(&rig.say(absolute.as_bytes())).status, 400);
    let named = Rig::with(ServeOptions { host_names: vec!["Ring.example".into()], ..options() });
    let request =
        format!("GET /v1/runs HTTP/1.1\r\nHost: ring.EXAMPLE:80\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n", named.key);
    assert_eq!(parse(&named.say(request.as_bytes())).status, 200);
}

fn bind(change: impl FnOnce(&mut ServeOptions)) -> Result<Server, ServeError> {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::open(&folder.path().join("home")).unwrap();
    let runner: Runner = open(&home);
    let mut options = options();
    change(&mut options);
    Server::bind(runner, &options)
}

#[test]
fn a_public_address_needs_tls() {
    let refused = bind(|options| options.listen = "0.0.0.0:0".parse().unwrap()).unwrap_err();
    assert!(matches!(refused, ServeError::PublicWithoutTls(_)) && refused.hint().contains("--tls-cert"), "{refused}");
}

#[test]
fn tls_is_spoken_with_a_key_that_nobody_else_reads() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let files = TlsFiles { certificates: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
    std::fs::write(&files.certificates, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    std::fs::set_permissions(&files.key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = bind(|options| options.tls = Some(files.clone())).unwrap_err();
    assert!(refused.to_string().contains("can be read by others"), "{refused}");
    std::fs::set_permissions(&files.key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let rig = Rig::with(ServeOptions { tls: Some(files.clone()), ..options() });

    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let client = rustls::ClientConnection::new(std::sync::Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let mut stream = rustls::StreamOwned::new(client, rig.connect());
    let request = format!("GET /v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n", rig.key);
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    assert_eq!(parse(&until_end(&mut stream)).status, 200);
    let plain = rig.say(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert!(!plain.contains("200"), "{plain}");
}

#[test]
fn one_home_has_one_server_and_files_of_its_own() {
    use std::os::unix::fs::PermissionsExt;

    let rig = Rig::new();
    let refused = Server::bind(open(&rig.home()), &options()).unwrap_err();
    assert!(matches!(refused, ServeError::Taken { .. }), "{refused}");
    for name in ["server.sqlite", "server.sqlite-wal", "server.sqlite-shm", "serving.lock"] {
        let mode = std::fs::metadata(rig.home().root().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name}");
    }
    let (home, folder) = (rig.home(), rig.into_folder());
    std::fs::set_permissions(home.root().join("server.sqlite"), std::fs::Permissions::from_mode(0o640)).unwrap();
    let refused = Server::bind(open(&home), &options()).unwrap_err();
    assert!(refused.to_string().contains("chmod 600"), "{refused}");
    std::fs::set_permissions(home.root().join("server.sqlite"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let again = Server::bind(open(&home), &options()).unwrap();
    assert!(again.first_keys().is_empty());
    drop((again, folder));
}
