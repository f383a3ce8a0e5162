"""A small internet for one command: internet.py FOLDER UID COMMAND...

The command runs as UID in a network of its own, with one link to a second network in which everything answers: hosts that a policy may allow, a
stranger, a private service and the metadata address of a cloud. Nothing of it is on the command's own addresses, so that what is refused is refused by a rule and not for
want of an answer. Names stand in a hosts file that only this command sees. FOLDER/heard.jsonl has a line for each request that arrived; FOLDER/ca.pem
is the authority of every certificate. Needs root.
"""
import ctypes, http.server, json, os, socket, ssl, subprocess, sys, threading

FOLDER, UID, COMMAND = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
FRIEND, STRANGER, META, PRIVATE = "93.184.216.34", "93.184.216.99", "169.254.169.254", "10.9.8.7"
HOSTS = {
    FRIEND: ["good.example.com", "api.example.com", "cdn.example.com", "deep.wild.example.com", "friend.test"],
    STRANGER: ["evil.test", "stranger.test", "evilgood.example.com"],
    PRIVATE: ["inner.example.com"],
    META: ["meta.example.com"],
    "127.0.0.1": ["self.example.com", "localhost"],
}
WORDS = {FRIEND: "FRIEND", STRANGER: "STRANGER", META: "METADATA", PRIVATE: "PRIVATE"}
libc = ctypes.CDLL(None, use_errno=True)
heard = open(os.path.join(FOLDER, "heard.jsonl"), "a", buffering=1)


def must(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def own_mounts():
    must(libc.unshare(0x40000000 | 0x20000))
    must(libc.mount(b"none", b"/", None, 0x4000 | 0x40000, None))
    hosts = os.path.join(FOLDER, "hosts")
    with open(hosts, "w") as file:
        for address, names in HOSTS.items():
            file.write("%s %s\n" % (address, " ".join(names)))
    must(libc.mount(hosts.encode(), b"/etc/hosts", None, 0x1000, None))


def certificates():
    """An authority, and one certificate for every name."""
    names = ",".join("DNS:" + name for names in HOSTS.values() for name in names) + ",IP:" + FRIEND
    run = lambda *words: subprocess.run(["openssl", *words], check=True, cwd=FOLDER, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    run(*new, "-x509", "-days", "2", "-subj", "/CN=test authority", "-keyout", "ca.key", "-out", "ca.pem")
    run(*new, "-subj", "/CN=good.example.com", "-keyout", "leaf.key", "-out", "leaf.csr")
    with open(os.path.join(FOLDER, "leaf.ext"), "w") as file:
        file.write("subjectAltName=" + names)
    run("x509", "-req", "-in", "leaf.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "leaf.ext", "-out", "leaf.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(FOLDER, "leaf.pem"), os.path.join(FOLDER, "leaf.key"))
    return context


class Web(http.server.SimpleHTTPRequestHandler):
    """Files of FOLDER/www, `/echo` with the request in it, and a word that says who answers."""

    protocol_version = "HTTP/1.1"

    def __init__(self, *arguments):
        super().__init__(*arguments, directory=os.path.join(FOLDER, "www"))

    def note(self):
        line = {"at": self.connection.getsockname(), "request": self.requestline, "fields": dict(self.headers.items())}
        heard.write(json.dumps(line) + "\n")

    def answer(self, status, text, fields=()):
        body = text.encode()
        self.send_response(status)
        for name, value in [("Content-Length", str(len(body))), *fields]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.note()
        if self.path.startswith("/redirect"):
            return self.answer(302, "", [("Location", "http://stranger.test/")])
        if self.path.startswith("/echo"):
            return self.answer(200, self.requestline + "\n" + str(self.headers))
        if self.path.startswith("/files"):
            self.path = self.path[len("/files"):]
            return super().do_GET()
        return self.answer(200, WORDS[self.connection.getsockname()[0]] + " says hello\n")

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.note()
        self.answer(200, "posted\n")

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128


def greet(connection):
    with connection:
        connection.recv(64)
        word = WORDS.get(connection.getsockname()[0], "HOST")
        connection.sendall(b"RFNET-EVIL" if word == "STRANGER" else b"RFNET " + word.encode())


def serve_greetings(address, port, family=socket.AF_INET):
    server = socket.create_server((address, port), family=family, backlog=128)

    def forever():
        while True:
            threading.Thread(target=greet, args=(server.accept()[0],), daemon=True).start()

    threading.Thread(target=forever, daemon=True).start()


def second_network(ready):
    """This thread alone moves to the second network, links the two, and makes the servers there."""
    try:
        must(libc.unshare(0x40000000))
        ip("link", "add", "far", "type", "veth", "peer", "name", "near", "netns", str(os.getpid()))
        ip("address", "add", "192.0.2.2/24", "dev", "far")
        for device in ("lo", "far"):
            ip("link", "set", device, "up")
        for address in WORDS:
            ip("address", "add", address + "/32", "dev", "lo")
        context = certificates()
        for address in WORDS:
            for port in (80, 443, 8080):
                server = Server((address, port), Web)
                if port == 443:
                    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
                threading.Thread(target=server.serve_forever, daemon=True).start()
            for port in (5432, 8443):
                serve_greetings(address, port)
    finally:
        ready.set()


own_mounts()
ip("link", "set", "lo", "up")
ready = threading.Event()
far = threading.Thread(target=second_network, args=(ready,), daemon=True)
far.start()
ready.wait()
ip("address", "add", "192.0.2.1/24", "dev", "near")
ip("link", "set", "near", "up")
ip("route", "add", "default", "via", "192.0.2.2")
with open(os.path.join(FOLDER, "ca.pem")) as file:
    assert "BEGIN" in file.read()
host = Server(("127.0.0.1", 8011), type("Host", (Web,), {"do_GET": lambda self: (self.note(), self.answer(200, "HOST says hello\n"))}))
threading.Thread(target=host.serve_forever, daemon=True).start()
serve_greetings("127.0.0.1", 8012)
serve_greetings("::1", 8012, socket.AF_INET6)


def become():
    if UID:
        os.setgroups([])
        os.setgid(UID)
        os.setuid(UID)


status = subprocess.run(COMMAND, preexec_fn=become, env={**os.environ, "SSL_CERT_FILE": os.path.join(FOLDER, "ca.pem")}).returncode
sys.stdout.flush()
os._exit(status if status >= 0 else 128 - status)
