//! Who reaches what: by header, by host name, by signed link; with which token.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::wire::{CODE, ENVD, Sandbox, ask, control, until};
use crate::rig::Rig;

/// A link as clients sign it.
fn link(token: &str, path: &str, operation: &str, expiry: Option<i64>) -> String {
    let signed = format!("{path}:{operation}::{token}{}", expiry.map(|at| format!(":{at}")).unwrap_or_default());
    let signature = STANDARD_NO_PAD.encode(Sha256::digest(signed)).replace('+', "%2B").replace('/', "%2F");
    let until = expiry.map(|at| format!("&signature_expiration={at}")).unwrap_or_default();
    format!("/files?path={path}&signature=v1_{signature}{until}")
}

#[test]
fn the_inside_is_reached_by_header_and_by_host_name() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    assert_eq!(ask(&rig, "GET", "/health", &sandbox.route(ENVD), b"").status, 204);
    let host = |port: u16| format!("Host: {port}-{}.localhost:{}\r\n", sandbox.id, rig.address.port());
    assert_eq!(ask(&rig, "GET", "/health", &host(ENVD), b"").status, 204);
    assert_eq!(ask(&rig, "GET", "/health", &host(CODE), b"").status, 403, "the code interpreter shows no token here");
    sandbox.write("page", "from inside");
    let mut server = sandbox.bash("exec python3 -m http.server 8000");
    server.pid();
    until("the page", || ask(&rig, "GET", "/page", &host(8000), b"").text() == "from inside");
    assert_eq!(ask(&rig, "GET", "/page", &sandbox.route(8000), b"").text(), "from inside");
    let closed = ask(&rig, "GET", "/", &sandbox.route(3000), b"");
    let told = json!({"sandboxId": sandbox.id, "message": "The sandbox is running but port is not open", "port": 3000, "code": 502});
    assert_eq!((closed.status, closed.json(), closed.header("should-retry")), (502, told, Some("false")));
    let unknown = "01kbdz9xk3v8p5r0q2n7m4t6w1";
    let gone = ask(&rig, "GET", "/health", &format!("E2b-Sandbox-Id: {unknown}\r\n"), b"");
    assert_eq!((gone.status, gone.json()), (502, json!({"sandboxId": unknown, "message": "The sandbox was not found", "code": 502})));
    for port in ["0", "65536", "x"] {
        let fields = format!("E2b-Sandbox-Id: {}\r\nE2b-Sandbox-Port: {port}\r\n", sandbox.id);
        assert_eq!(ask(&rig, "GET", "/health", &fields, b"").status, 400, "{port}");
    }
    let elsewhere = format!("Host: evil.example\r\n{}", sandbox.route(ENVD));
    assert_eq!(ask(&rig, "GET", "/health", &elsewhere, b"").status, 421, "a name that is not the server's");
}

#[test]
fn a_connection_to_a_port_may_go_on_in_another_protocol() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    let echo = "import socket
s = socket.create_server(('127.0.0.1', 8000))
print('ready', flush=True)
c, _ = s.accept()
while b'\\r\\n\\r\\n' not in c.recv(65536): pass
c.sendall(b'HTTP/1.1 101 Switching Protocols\\r\\nConnection: upgrade\\r\\nUpgrade: own\\r\\n\\r\\n')
data = c.recv(100)
c.sendall(b'heard: ' + data)
c.close()";
    let mut server =
        sandbox.stream("process.Process/Start", "", &json!({"process": {"cmd": "python3", "args": ["-c", echo]}, "stdin": false}));
    server.until("ready");
    let mut stream = rig.connect();
    let head = format!("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: own\r\n{}\r\n", sandbox.route(8000));
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    let mut first = [0; 512];
    let read = std::io::Read::read(&mut stream, &mut first).unwrap();
    assert!(first[..read].starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&first[..read]));
    std::io::Write::write_all(&mut stream, b"\0no HTTP\n").unwrap();
    assert!(crate::rig::until_end(&mut stream).ends_with("heard: \0no HTTP\n"));
}

/// A tunnel to a port is counted among the connections for as long as it goes on, which is not for ever once its client is gone.
#[test]
fn a_tunnel_keeps_its_place() {
    let rig = Rig::with(ringfence_server::ServeOptions {
        limits: ringfence_server::Limits {
            connections_of_one_peer: 3,
            write_pause: std::time::Duration::from_secs(1),
            ..Default::default()
        },
        ..crate::rig::options()
    });
    let sandbox = Sandbox::new(&rig);
    let switch = "import socket
s = socket.create_server(('127.0.0.1', 8000))
print('ready', flush=True)
held = []
while True:
    c, _ = s.accept()
    while b'\\r\\n\\r\\n' not in c.recv(65536): pass
    c.sendall(b'HTTP/1.1 101 Switching Protocols\\r\\nConnection: upgrade\\r\\nUpgrade: own\\r\\n\\r\\n')
    held.append(c)";
    let mut server =
        sandbox.stream("process.Process/Start", "", &json!({"process": {"cmd": "python3", "args": ["-c", switch]}, "stdin": false}));
    server.until("ready");
    let head = format!("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: own\r\n{}\r\n", sandbox.route(8000));
    let tunnels: Vec<_> = (0..2)
        .map(|_| {
            let mut stream = rig.connect();
            std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
            let mut first = [0; 512];
            let read = std::io::Read::read(&mut stream, &mut first).unwrap();
            assert!(first[..read].starts_with(b"HTTP/1.1 101 "));
            stream
        })
        .collect();
    let health = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(rig.say(health), "", "the stream of the command and two tunnels are all that there may be");
    drop(tunnels);
    while rig.say(health).is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn what_listens_inside_keeps_the_server_busy_with_nothing() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    let flood = "import socket, threading
def serve(port, text):
    listener = socket.create_server(('127.0.0.1', port))
    while True:
        taken, _ = listener.accept()
        threading.Thread(target=send, args=(taken, text), daemon=True).start()
def send(taken, text):
    try:
        taken.recv(65536)
        if not text: taken.sendall(b'HTTP/1.1 200 OK\\r\\n'); text = b'A: ' + b'a' * 8000 + b'\\r\\n'
        while True: taken.sendall(text * 1000)
    except OSError: pass
threading.Thread(target=serve, args=(8000, b'HTTP/1.1 100 Continue\\r\\n\\r\\n')).start()
threading.Thread(target=serve, args=(8001, None)).start()
print('ready', flush=True)";
    let mut server =
        sandbox.stream("process.Process/Start", "", &json!({"process": {"cmd": "python3", "args": ["-c", flood]}, "stdin": false}));
    server.until("ready");
    for port in [8000, 8001] {
        let answers: Vec<_> = std::thread::scope(|scope| {
            let asking: Vec<_> = (0..4).map(|_| scope.spawn(|| ask(&rig, "GET", "/", &sandbox.route(port), b""))).collect();
            assert_eq!(rig.get("/healthz").status, 200);
            asking.into_iter().map(|asked| asked.join().unwrap()).collect()
        });
        answers.iter().for_each(|answer| assert_eq!(answer.status, 502, "{port}: {answer:?}"));
    }
}

#[test]
fn an_answer_from_inside_has_one_length_and_switches_nothing_by_itself() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    let odd = "import socket
def answer(port, text):
    listener = socket.create_server(('127.0.0.1', port))
    return lambda: [(taken.recv(65536), taken.sendall(text.replace('|', chr(13) + chr(10)).encode()), taken.close()) for taken in [listener.accept()[0]]]
two = answer(8000, 'HTTP/1.1 200 OK|Content-Length: 5|Transfer-Encoding: chunked||2|ok|0||HTTP/1.1 200 OK|Content-Length: 4||evil')
switch = answer(8001, 'HTTP/1.1 101 Switching Protocols|Connection: upgrade|Upgrade: own||HTTP/1.1 200 OK|Content-Length: 4||evil')
print('ready', flush=True)
two(); switch()";
    let mut server =
        sandbox.stream("process.Process/Start", "", &json!({"process": {"cmd": "python3", "args": ["-c", odd]}, "stdin": false}));
    server.until("ready");
    let two = ask(&rig, "GET", "/", &sandbox.route(8000), b"");
    assert_eq!((two.status, two.body.as_slice()), (200, b"ok".as_slice()), "{two:?}");
    let switch = ask(&rig, "GET", "/", &sandbox.route(8001), b"");
    assert!(switch.status == 502 && !switch.body.ends_with(b"evil"), "{switch:?}");
}

#[test]
fn a_connection_is_kept_or_its_end_is_told() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    let token = format!("X-Access-Token: {}\r\n", sandbox.token.as_deref().unwrap());
    let ask = |stream: &mut std::net::TcpStream, path: &str, fields: &str, body: &str| {
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n{fields}\r\n", body.len());
        std::io::Write::write_all(stream, head.as_bytes()).unwrap();
        // The body comes a little later, as some clients send it.
        std::thread::sleep(std::time::Duration::from_millis(30));
        std::io::Write::write_all(stream, body.as_bytes()).unwrap_or_default();
        let mut piece = [0; 4096];
        let read = std::io::Read::read(stream, &mut piece).unwrap();
        String::from_utf8_lossy(&piece[..read]).into_owned()
    };
    let mut stream = rig.connect();
    let fields = format!("{}{token}Content-Type: application/json\r\n", sandbox.route(ENVD));
    for _ in 0..3 {
        let kept = ask(&mut stream, "/process.Process/List", &fields, "{}");
        assert!(kept.starts_with("HTTP/1.1 200 ") && !kept.contains("connection: close"), "{kept}");
    }
    let refused = ask(&mut stream, "/process.Process/List", &sandbox.route(ENVD), "{}");
    assert!(refused.starts_with("HTTP/1.1 401 ") && refused.contains("connection: close\r\n"), "nobody read it: {refused}");
}

#[test]
fn the_daemon_wants_the_token_of_its_sandbox() {
    let rig = Rig::new();
    let (sandbox, other) = (Sandbox::new(&rig), Sandbox::new(&rig));
    let with = |token: &str| ask(&rig, "GET", "/envs", &format!("{}X-Access-Token: {token}\r\n", sandbox.route(ENVD)), b"");
    assert_eq!(with(sandbox.token.as_deref().unwrap()).status, 200);
    for wrong in ["", "x", other.token.as_deref().unwrap(), &sandbox.traffic] {
        let refused = with(wrong);
        assert_eq!((refused.status, refused.json()["code"].as_u64()), (401, Some(401)), "{refused:?}");
    }
    assert_eq!(ask(&rig, "GET", "/envs", &sandbox.route(ENVD), b"").status, 401);
    assert_eq!(ask(&rig, "POST", "/init", &sandbox.route(ENVD), b"{}").status, 401);
    assert_eq!(sandbox.envd("POST", "/init", "", b"{}").status, 404, "what is an orchestrator's is nobody's here");
    let open = Sandbox::at(&rig, "/sandboxes", &json!({"templateID": "base", "timeout": 60, "secure": false}));
    assert!(open.token.is_none());
    assert_eq!(ask(&rig, "GET", "/envs", &open.route(ENVD), b"").status, 200, "its client asked for no token");
}

#[test]
fn the_code_interpreter_wants_either_token_and_a_private_port_the_second() {
    let rig = Rig::new();
    let sandbox = Sandbox::with(&rig, json!({"network": {"allowPublicTraffic": false}}));
    let contexts = |fields: &str| ask(&rig, "GET", "/contexts", &format!("{}{fields}", sandbox.route(CODE)), b"").status;
    let traffic = format!("E2B-Traffic-Access-Token: {}\r\n", sandbox.traffic);
    assert_eq!(contexts(&format!("X-Access-Token: {}\r\n", sandbox.token.as_deref().unwrap())), 200);
    assert_eq!((contexts(&traffic), contexts(""), contexts("E2B-Traffic-Access-Token: x\r\n")), (200, 403, 403));
    let refused = ask(&rig, "GET", "/", &sandbox.route(8000), b"");
    assert_eq!((refused.status, &refused.json()["sandboxId"]), (403, &json!(sandbox.id)));
    assert_eq!(ask(&rig, "GET", "/", &(sandbox.route(8000) + &traffic), b"").status, 502, "nobody listens");
}

#[test]
fn a_signed_link_opens_one_file_of_one_sandbox_for_a_time() {
    let rig = Rig::new();
    let (sandbox, other) = (Sandbox::new(&rig), Sandbox::new(&rig));
    sandbox.write("f", "signed");
    other.write("f", "of the other");
    let (token, theirs) = (sandbox.token.clone().unwrap(), other.token.clone().unwrap());
    let get = |path: &str| ask(&rig, "GET", path, "", b"");
    assert_eq!(get(&link(&token, "f", "read", None)).text(), "signed");
    assert_eq!(get(&link(&token, "f", "read", Some(4_000_000_000))).text(), "signed");
    assert_eq!(get(&link(&theirs, "f", "read", None)).text(), "of the other");
    let expired = get(&link(&token, "f", "read", Some(1_000_000_000)));
    assert_eq!((expired.status, expired.json()), (401, json!({"code": 401, "message": "signature is already expired"})));
    let bad = [
        link(&token, "f", "read", None).replace("path=f", "path=g"),
        link(&token, "f", "write", None),
        link("x", "f", "read", None),
        link(&token, "f", "read", Some(1_000_000_000)).replace("=1000000000", "=4000000000"),
        link(&token, "f", "read", None) + "&username=root",
        "/files?path=f".into(),
    ];
    for path in bad {
        assert_eq!(get(&path).status, 401, "{path}");
    }
    assert_eq!(ask(&rig, "GET", &link(&theirs, "f", "read", None), &sandbox.route(ENVD), b"").status, 401);
    let kind = "Content-Type: application/octet-stream\r\n";
    assert_eq!(ask(&rig, "POST", &link(&token, "made", "write", None), kind, b"by link").status, 200);
    assert_eq!(sandbox.read("made"), "by link");
    assert_eq!(ask(&rig, "POST", &link(&token, "made", "read", None), kind, b"x").status, 401);
    sandbox.delete();
    assert_eq!(get(&link(&token, "f", "read", None)).status, 401, "its token is nobody's any more");
}

#[test]
fn tenants_do_not_see_each_others_sandboxes() {
    let rig = Rig::new();
    let sandbox = Sandbox::new(&rig);
    let theirs = rig.tenant("other");
    for (method, path) in [
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/timeout"),
        ("POST", "/connect"),
        ("POST", "/refreshes"),
        ("GET", "/metrics"),
        ("GET", "/logs"),
        ("PUT", "/network"),
    ] {
        let body = json!({"timeout": 1});
        let answered = control(&rig, &theirs, method, &format!("/sandboxes/{}{path}", sandbox.id), (method != "GET").then_some(&body));
        assert_eq!((answered.status, answered.json()["code"].as_u64()), (404, Some(404)), "{method} {path}: {answered:?}");
    }
    assert_eq!(control(&rig, &theirs, "GET", "/v2/sandboxes", None).json(), json!([]));
    assert_eq!(control(&rig, "", "GET", "/v2/sandboxes", None).status, 401);
    assert_eq!(ask(&rig, "GET", "/health", &sandbox.route(ENVD), b"").status, 204);
}
