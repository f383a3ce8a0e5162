//! Interception, and credentials that are put in for one host and taken out of its replies.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use ringfence_egress::{Credential, CredentialValue, Interception, Seen};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::rig::{Parts, Rig, Server, opened, read_request, refused, reply};
use super::tunnels::over_tls;

pub(crate) const SECRET: &str = "s3cret-value-of-the-bait";
pub(crate) const PLACEHOLDER: &str = "ringfence-placeholder-0123";

pub(crate) fn roots(pem: &str) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    roots
}

/// A server over TLS whose certificate is by an authority of the test's, which is handed out.
fn secure(
    name: &str,
    serve: impl Fn(&mut StreamOwned<ServerConnection, TcpStream>, &Mutex<Vec<String>>) + Send + Sync + 'static,
) -> (Server, RootCertStore) {
    let (key, mut params) = (KeyPair::generate().unwrap(), CertificateParams::default());
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap().pem();
    let leaf_key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&leaf_key, &Issuer::new(params, key)).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config =
        Arc::new(config.with_single_cert(vec![leaf.der().clone()], PrivateKeyDer::Pkcs8(leaf_key.serialize_der().into())).unwrap());
    let server = Server::new(move |stream, heard| {
        let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream);
        serve(&mut stream, heard);
    });
    (server, roots(&authority))
}

/// Answers each request by a reply made from it.
pub(crate) fn answering(name: &str, answer: impl Fn(&str) -> String + Send + Sync + 'static) -> (Server, RootCertStore) {
    secure(name, move |stream, heard| {
        while let Some(request) = read_request(stream) {
            let reply = answer(&request);
            heard.lock().unwrap().push(request);
            stream.write_all(reply.as_bytes()).unwrap_or_default();
            stream.flush().unwrap_or_default();
        }
    })
}

pub(crate) struct Intercepted {
    pub(crate) rig: Rig,
    /// What programs inside trust.
    pub(crate) trusted: RootCertStore,
    pub(crate) port: u16,
}

impl Intercepted {
    pub(crate) fn new(server: &Server, outside: RootCertStore, extra: &str, bindings: &[&str]) -> Self {
        let interception = Interception::new().unwrap().trusting(outside).unwrap();
        let trusted = roots(interception.certificate());
        let port = server.port;
        let credential = |text: &&str| Credential {
            binding: text.replace("PORT", &port.to_string()).parse().unwrap(),
            placeholder: PLACEHOLDER.into(),
            value: CredentialValue::new(SECRET.into()).unwrap(),
        };
        let rig = Rig::new(Parts {
            rules: vec![format!("https://api.example.com:{port}{extra}")],
            credentials: bindings.iter().map(credential).collect(),
            interception: Some(interception),
            ..Parts::default()
        });
        rig.here("api.example.com");
        Self { rig, trusted, port }
    }

    /// The answer to one request over TLS in a tunnel.
    pub(crate) fn ask(&self, line: &str, fields: &str) -> String {
        let stream = self.rig.tunnel(&format!("api.example.com:{}", self.port)).unwrap();
        let mut stream = over_tls(stream, "api.example.com", self.trusted.clone());
        let head = format!("{line} HTTP/1.1\r\nHost: api.example.com:{}\r\nConnection: close\r\n{fields}\r\n", self.port);
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).map(drop).unwrap_or_default();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        match answer.split_once("\r\n\r\n") {
            Some((head, body)) if head.contains("transfer-encoding: chunked") => format!("{head}\r\n\r\n{}", unchunked(body)),
            Some(_) | None => answer,
        }
    }
}

/// A body without the sizes of its pieces.
fn unchunked(body: &str) -> String {
    let mut rest = body;
    let mut whole = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole.push_str(&after[..size]);
        rest = after[size..].trim_start_matches("\r\n");
    }
    whole
}

pub(crate) const BINDING: &str = "github: https://api.example.com:PORT methods=GET paths=/v1 header=Authorization variable=TOKEN";

#[test]
fn a_rule_about_requests_is_held_inside_tls() {
    let (server, outside) = answering("api.example.com", |_| reply("hello"));
    let inner = Intercepted::new(&server, outside, " methods=GET paths=/v1", &[]);
    assert!(inner.ask("GET /v1/x", "").ends_with("hello"));
    assert!(inner.ask("POST /v1/x", "").contains("no rule allows POST /v1/x"));
    assert!(inner.ask("GET /v2", "").starts_with("HTTP/1.1 403 "));
    let events = inner.rig.events();
    assert_eq!((opened(&events).len(), opened(&events)[0].seen, refused(&events).len()), (1, Seen::Requests, 2));
}

/// SBX-122, with interception.
#[test]
fn a_host_inside_tls_that_differs_from_its_name_is_refused() {
    let (server, outside) = answering("api.example.com", |_| reply("hello"));
    let inner = Intercepted::new(&server, outside, " methods=GET", &[]);
    let stream = inner.rig.tunnel(&format!("api.example.com:{}", inner.port)).unwrap();
    let mut stream = over_tls(stream, "api.example.com", inner.trusted.clone());
    stream.write_all(b"GET / HTTP/1.1\r\nHost: hidden.test\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map(drop).unwrap_or_default();
    assert!(answer.starts_with("HTTP/1.1 403 ") && server.heard().is_empty(), "{answer}");
}

#[test]
fn a_host_whose_certificate_is_not_trusted_is_not_asked() {
    let (server, _) = answering("api.example.com", |_| reply("hello"));
    let (_, other) = answering("api.example.com", |_| reply("hello"));
    let inner = Intercepted::new(&server, other, "", &[BINDING]);
    let answer = inner.ask("GET /v1", &format!("Authorization: Bearer {PLACEHOLDER}\r\n"));
    assert!(answer.starts_with("HTTP/1.1 502 ") && !answer.contains(SECRET) && server.heard().is_empty(), "{answer}");
}

#[test]
fn the_value_is_put_in_for_its_host_header_and_request_and_nowhere_else() {
    let (server, outside) = answering("api.example.com", |_| reply("hello"));
    let inner = Intercepted::new(&server, outside, "", &[BINDING]);
    assert!(inner.ask("GET /v1/x", &format!("Authorization: Bearer {PLACEHOLDER}\r\nX-Other: {PLACEHOLDER}\r\n")).ends_with("hello"));
    let basic = STANDARD.encode(format!("me:{PLACEHOLDER}"));
    assert!(inner.ask("GET /v1/y", &format!("Authorization: Basic {basic}\r\n")).ends_with("hello"));
    assert!(inner.ask("GET /v1/z", "").ends_with("hello"));
    for line in ["POST /v1/x", "GET /v2", "GET /v1/../v2"] {
        let answer = inner.ask(line, &format!("Authorization: Bearer {PLACEHOLDER}\r\n"));
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("credential `github` is for"), "{answer}");
    }
    let heard = server.heard();
    let lower = |at: usize| heard[at].to_lowercase();
    assert!(
        lower(0).contains(&format!("authorization: bearer {SECRET}")) && lower(0).contains(&format!("x-other: {PLACEHOLDER}")),
        "{heard:?}"
    );
    assert!(heard[1].contains(&STANDARD.encode(format!("me:{SECRET}"))), "{heard:?}");
    assert!(heard.len() == 3 && !heard[2].contains(SECRET), "{heard:?}");
    let events = inner.rig.events();
    let named: Vec<Option<String>> = opened(&events).into_iter().map(|opened| opened.credential).collect();
    assert_eq!(named, [Some("github".to_owned()), Some("github".to_owned()), None]);
    assert!(!format!("{events:?}").contains(SECRET));
}

/// However the host gives it back: in a field, in the body, in pieces, encoded as it was sent.
#[test]
fn the_value_is_taken_out_of_replies() {
    let (server, outside) = answering("api.example.com", |request| {
        assert!(request.to_lowercase().contains("accept-encoding: identity") && !request.to_lowercase().contains("range:"), "{request}");
        let echoed = request.lines().find_map(|line| line.to_lowercase().starts_with("authorization: ").then(|| &line[15..])).unwrap();
        let body = format!("you sent {echoed}, {SECRET} and {}", STANDARD.encode(SECRET));
        let chunks: String =
            body.as_bytes().chunks(7).map(|part| format!("{:x}\r\n{}\r\n", part.len(), String::from_utf8_lossy(part))).collect();
        format!("HTTP/1.1 200 OK\r\nX-Echo: {echoed}\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n")
    });
    let inner = Intercepted::new(&server, outside, "", &[BINDING]);
    let basic = STANDARD.encode(format!("me:{PLACEHOLDER}"));
    for fields in [format!("Authorization: Bearer {PLACEHOLDER}\r\n"), format!("Authorization: Basic {basic}\r\nRange: bytes=0-9\r\n")] {
        let answer = inner.ask("GET /v1", &format!("{fields}Accept-Encoding: gzip\r\n"));
        assert!(answer.contains("you sent ") && answer.contains(PLACEHOLDER), "{answer}");
        for form in [SECRET.to_owned(), STANDARD.encode(SECRET), STANDARD.encode(format!("me:{SECRET}"))] {
            assert!(!answer.contains(&form), "{form} in {answer}");
        }
    }
    drop(server);
}

#[test]
fn a_reply_that_cannot_be_looked_through_does_not_pass() {
    let (server, outside) =
        answering("api.example.com", |_| "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd".to_owned());
    let inner = Intercepted::new(&server, outside, "", &[BINDING]);
    let answer = inner.ask("GET /v1", "");
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("cannot be looked through"), "{answer}");
    let socket = inner.ask("GET /v1", "Connection: upgrade\r\nUpgrade: websocket\r\n");
    assert!(socket.starts_with("HTTP/1.1 403 ") && socket.contains("WebSocket"), "{socket}");
}
