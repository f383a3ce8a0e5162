//! A registry of a few lines that answers as a test wants it to, and remembers what it was asked.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use ringfence_policy::ImageDigest;

use super::{Credential, Registry, RegistryError};

/// What was asked: the path, and what stood under `Authorization`.
type Asked = Arc<Mutex<Vec<(String, Option<String>)>>>;

struct Fake {
    address: SocketAddr,
    asked: Asked,
}

impl Fake {
    /// Answers each path with a status, headers and a body.
    fn new(answer: impl Fn(SocketAddr, &str, Option<&str>) -> (u16, String, String) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, asked) = (listener.local_addr().unwrap(), Asked::default());
        let heard = Arc::clone(&asked);
        // It ends with the process of the tests.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (path, authorization) = request(&stream);
                heard.lock().unwrap().push((path.clone(), authorization.clone()));
                let (status, headers, body) = answer(address, &path, authorization.as_deref());
                let head = format!("HTTP/1.1 {status} X\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len());
                drop((&stream).write_all(head.as_bytes()));
            }
        });
        Self { address, asked }
    }

    fn registry(&self, credential: Option<Credential>) -> Registry {
        Registry::new(format!("oci://{}/a/b:1", self.address).parse().unwrap(), credential).unwrap()
    }

    fn asked(&self) -> Vec<(String, Option<String>)> {
        self.asked.lock().unwrap().clone()
    }
}

fn request(stream: &TcpStream) -> (String, Option<String>) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    let path = lines.next().unwrap_or_default().split(' ').nth(1).unwrap_or_default().to_owned();
    let authorization = lines.filter_map(|line| line.strip_prefix("authorization: ").map(str::to_owned)).last();
    (path, authorization)
}

fn credential() -> Option<Credential> {
    Credential::find(r#"{"auths":{"h":{"username":"me","password":"secret"}}}"#, "h")
}

const BASIC: &str = "Basic bWU6c2VjcmV0";
const MANIFEST: &str = "/v2/a/b/manifests/1";

fn digest() -> ImageDigest {
    format!("sha256:{}", "1".repeat(64)).parse().unwrap()
}

#[test]
fn a_token_is_asked_for_once_and_the_credential_goes_to_its_giver_alone() {
    let fake = Fake::new(|address, path, authorization| match (path.starts_with("/token"), authorization) {
        (true, _) => (200, String::new(), r#"{"token":"T"}"#.into()),
        (false, Some("Bearer T")) => (200, String::new(), "manifest".into()),
        (false, _) => {
            let asks = format!("WWW-Authenticate: Bearer realm=\"http://{address}/token\",service=\"s\",scope=\"repository:a/b:pull\"\r\n");
            (401, asks, String::new())
        }
    });
    let mut registry = fake.registry(credential());
    assert_eq!(registry.manifest(None, 100).unwrap(), b"manifest");
    assert_eq!(registry.manifest(Some(&digest()), 100).unwrap(), b"manifest");
    let owned = |path: &str, authorization: Option<&str>| (path.to_owned(), authorization.map(str::to_owned));
    let wanted = [
        owned(MANIFEST, None),
        owned("/token?service=s&scope=repository%3Aa%2Fb%3Apull", Some(BASIC)),
        owned(MANIFEST, Some("Bearer T")),
        owned(&format!("/v2/a/b/manifests/{}", digest()), Some("Bearer T")),
    ];
    assert_eq!(fake.asked(), wanted);
}

#[test]
fn a_redirect_carries_no_credential_and_does_not_go_on_for_ever() {
    let fake = Fake::new(|address, path, authorization| match (path, authorization) {
        (path, None) if path.starts_with("/v2/a/b/blobs") => (401, "WWW-Authenticate: Basic realm=\"x\"\r\n".into(), String::new()),
        (path, Some(_)) if path.starts_with("/v2/a/b/blobs") => {
            (307, format!("Location: http://{address}/elsewhere?signed=1\r\n"), String::new())
        }
        ("/elsewhere?signed=1", None) => (200, String::new(), "blob".into()),
        _ => (302, "Location: /again\r\n".into(), String::new()),
    });
    let mut registry = fake.registry(credential());
    let mut blob = Vec::new();
    registry.blob(&digest(), 4, &mut blob).unwrap();
    assert_eq!((blob.as_slice(), fake.asked().last().unwrap().clone()), (b"blob".as_slice(), ("/elsewhere?signed=1".into(), None)));
    let error = registry.manifest(None, 100).unwrap_err().to_string();
    assert!(error.contains("redirects more than 5 times"), "{error}");
}

/// A registry could otherwise make us ask for what only this machine may, or send a password in the clear.
#[test]
fn nobody_is_asked_who_is_less_private_than_the_registry() {
    for to in ["http://192.0.2.1/x", "ftp://127.0.0.1/x", "file:///etc/passwd", "http://u:p@127.0.0.1/x", "http://example.com/x"] {
        let redirecting = Fake::new(move |_, _, _| (302, format!("Location: {to}\r\n"), String::new()));
        let error = redirecting.registry(None).manifest(None, 100).unwrap_err();
        assert!(matches!(error, RegistryError::Elsewhere { .. }), "{error}");
        let asking = Fake::new(move |_, _, _| (401, format!("WWW-Authenticate: Bearer realm=\"{to}\"\r\n"), String::new()));
        let error = asking.registry(credential()).manifest(None, 100).unwrap_err();
        assert!(matches!(error, RegistryError::Elsewhere { .. }), "{error}");
    }
}

#[test]
fn whoever_is_redirected_to_does_not_say_who_gives_out_tokens() {
    let fake = Fake::new(|address, path, _| match path {
        MANIFEST => (302, "Location: /elsewhere\r\n".into(), String::new()),
        _ => (401, format!("WWW-Authenticate: Bearer realm=\"http://{address}/token\"\r\n"), String::new()),
    });
    let error = fake.registry(credential()).manifest(None, 100).unwrap_err();
    assert!(matches!(error, RegistryError::Status { .. }), "{error}");
    assert!(fake.asked().iter().all(|(path, authorization)| !path.starts_with("/token") && authorization.is_none()));
}

#[test]
fn more_than_there_should_be_is_not_read() {
    let fake = Fake::new(|_, _, _| (200, String::new(), "x".repeat(1000)));
    let mut blob = Vec::new();
    let error = fake.registry(None).blob(&digest(), 999, &mut blob).unwrap_err().to_string();
    assert!(error.contains("more than 999 bytes") && blob.len() <= 999, "{error}");
    assert!(matches!(fake.registry(None).manifest(None, 10), Err(RegistryError::TooMuch { .. })));
}

#[test]
fn a_refusal_says_who_refused_what() {
    let fake = Fake::new(|_, _, _| (404, String::new(), "<html>".into()));
    let error = fake.registry(None).manifest(None, 10).unwrap_err();
    assert_eq!(error.to_string(), format!("`{}` refuses the manifest: 404 Not Found", fake.address));
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut gone = Registry::new(format!("oci://{address}/a").parse().unwrap(), None).unwrap();
    assert!(gone.manifest(None, 10).unwrap_err().to_string().contains("refused"));
}
