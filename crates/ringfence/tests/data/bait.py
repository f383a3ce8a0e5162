"""Lays out bait on the host, runs a command amid it, and takes the bait away: bait.py FOLDER COMMAND...

FOLDER/bait.json tells probe.py where everything lies. The command has what a careless caller would hand on: secrets in its environment, a
keyring, a descriptor of a host folder, a terminal and an open proxy. As root the bait has network and mount namespaces of its own, so that
the addresses of a cloud's metadata service and of a stranger can be answered without touching the host's network.
"""
import ctypes, fcntl, hashlib, json, os, secrets, signal, socket, struct, subprocess, sys, termios, threading

FOLDER, COMMAND = sys.argv[1], sys.argv[2:]
TOKEN = "bait%d" % os.getpid()
META, STRANGER = "169.254.169.254", "198.51.100.7"
CREDENTIALS = [".aws/credentials", ".ssh/id_rsa", ".netrc", ".npmrc", ".docker/config.json", ".kube/config", ".git-credentials"]
libc = ctypes.CDLL(None, use_errno=True)
is_root = os.geteuid() == 0


def secret():
    return "RFSECRET_" + secrets.token_hex(16)


def plant(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(secret())
    return path


def must(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def own_namespaces(home):
    """Network and mounts of its own: addresses on loopback, and a mount whose path holds the token."""
    must(libc.unshare(0x40000000 | 0x20000))
    must(libc.mount(b"none", b"/", None, 0x4000 | 0x40000, None))
    must(libc.mount(home.encode(), home.encode(), None, 0x1000, None))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for name, address in (("lo", None), ("lo:1", META), ("lo:2", STRANGER)):
            if address:
                fcntl.ioctl(control, 0x8916, struct.pack("16sHH4s8x", name.encode(), socket.AF_INET, 0, socket.inet_aton(address)))
            else:
                fcntl.ioctl(control, 0x8914, struct.pack("16sH14x", name.encode(), 0x41))


def serve(family, address, answer):
    """Answers every connection; returns where."""
    server = socket.socket(family)
    server.bind(address)
    server.listen()

    def forever():
        while True:
            connection, _ = server.accept()
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=forever, daemon=True).start()
    return server.getsockname()


def greet(connection):
    with connection:
        connection.sendall(b"RFNET")


def relay_anything(connection):
    """A proxy that lets everything through: whatever is asked for, the stranger answers."""
    with connection:
        if connection.recv(4096).startswith(b"CONNECT"):
            connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            connection.recv(64)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nRFNET-EVIL")


def echo_datagrams():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))

    def forever():
        while True:
            server.sendto(b"RFNET", server.recvfrom(64)[1])

    threading.Thread(target=forever, daemon=True).start()
    return server.getsockname()


def digests(paths):
    found = {}
    for path in paths:
        if os.access(path, os.R_OK):
            with open(path, "rb") as file:
                found[path] = hashlib.sha256(file.read()).hexdigest()
    return found


def take_the_terminal():
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


home = os.path.join(FOLDER, TOKEN + "-home")
for name in CREDENTIALS + ["notes.txt"]:
    plant(os.path.join(home, name))
in_tmp = plant("/tmp/" + TOKEN)
plant(os.path.join(FOLDER, "leaked", "leaked_secret"))
os.makedirs(os.path.join(FOLDER, "writable"))
neighbour = subprocess.Popen([TOKEN + " --password=" + secret(), "600"], executable="/bin/sleep", env={"BAIT": secret()})
try:
    if is_root:
        own_namespaces(home)
    proxy = serve(socket.AF_INET, ("127.0.0.1", 0), relay_anything)
    serve(socket.AF_UNIX, "\0" + TOKEN, greet)
    for address in (META, STRANGER) if is_root else ():
        serve(socket.AF_INET, (address, 80), greet)
    must(libc.syscall(250, 1, None))
    must(libc.syscall(248, b"user", TOKEN.encode(), b"secret", 6, ctypes.c_long(-3)))
    queue = must(libc.syscall(240, TOKEN.encode(), os.O_CREAT | os.O_RDWR, 0o666, None))
    bait = {
        "home": home, "tmp_secret": in_tmp, "host_write_dir": os.path.join(FOLDER, "writable"), "cred_files": CREDENTIALS,
        "host_sums": digests(["/etc/shadow", "/etc/machine-id", "/etc/hostname", "/etc/ssh/ssh_host_ed25519_key", "/etc/passwd"]),
        "host_pid": neighbour.pid, "host_token": TOKEN, "key_name": TOKEN, "mq_name": "/" + TOKEN, "abstract": TOKEN, "tty_ok": True,
        "ns": {name: os.readlink("/proc/self/ns/" + name) for name in ("mnt", "pid", "net", "ipc", "uts", "user", "cgroup")},
        "hostname": os.uname().nodename, "tcp4": serve(socket.AF_INET, ("127.0.0.1", 0), greet),
        "tcp6": serve(socket.AF_INET6, ("::1", 0), greet)[:2], "udp4": echo_datagrams(), "meta": [META, 80], "evil": [STRANGER, 80],
        "evil_name": "stranger.test", "allowed_name": "friend.test", "allowed": [STRANGER, 443], "allowed_odd_port": 8443,
    }
    with open(os.path.join(FOLDER, "bait.json"), "w") as file:
        json.dump(bait, file)
    libc.prctl(15, b"careless", 0, 0, 0)
    master, terminal = os.openpty()
    leaked = os.open(os.path.join(FOLDER, "leaked"), os.O_RDONLY)
    careless = {"AWS_SECRET_ACCESS_KEY": secret(), "SSH_AUTH_SOCK": "/tmp/agent", "http_proxy": "http://127.0.0.1:%d" % proxy[1]}
    child = subprocess.Popen(COMMAND, stdin=terminal, pass_fds=[leaked], start_new_session=True, preexec_fn=take_the_terminal,
                             env={**os.environ, **careless})
    try:
        status = child.wait(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        status = 1
finally:
    neighbour.kill()
    neighbour.wait()
    os.unlink(in_tmp)
    libc.syscall(241, TOKEN.encode())
sys.stdout.flush()
os._exit(status if status >= 0 else 128 - status)
