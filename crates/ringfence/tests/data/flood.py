"""A program that makes as much as it can of everything that a broker takes, says how far it came, and waits to be ended.

Questions for names, requests that are refused, tunnels that carry bytes both ways, and connections that say half of what they want.
"""
import os, socket, struct, sys, time

QUESTIONS, REFUSED, TUNNELS, CONNECTIONS = (int(word) for word in sys.argv[1:5])
PROXY = ("127.0.0.1", 3128)
CHILDREN = 7


def question(name):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack(">HHHHHH", 1, 0x100, 1, 0, 0, 0) + labels + b"\0\0\1\0\1"


def ask():
    asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asking.settimeout(5)
    answered = 0
    for start in range(0, QUESTIONS, 50):
        for number in range(start, start + 50):
            name = "%s%d.%s" % ("a" * 40, number, "wild.example.com" if number % 2 else "evil.test")
            asking.sendto(question(name), ("127.0.0.1", 53))
        for _ in range(50):
            answered += len(asking.recv(512)) > 0
    return answered


def be_refused():
    refused = 0
    for _ in range(0, REFUSED, 50):
        request = b"GET http://evil.test/%s HTTP/1.1\r\nHost: evil.test\r\n\r\n" % (b"x" * 1000)
        with socket.create_connection(PROXY) as client:
            client.sendall(request * 50)
            answers = b""
            while answers.count(b"HTTP/1.1 403") < 50:
                answers += client.recv(1 << 16)
        refused += 50
    return refused


def tunnel():
    client = socket.create_connection(PROXY)
    client.sendall(b"CONNECT good.example.com:8080 HTTP/1.1\r\nHost: good.example.com:8080\r\n\r\n")
    assert client.recv(1024).startswith(b"HTTP/1.1 200"), "no tunnel"
    client.sendall(b"GET /files/big HTTP/1.1\r\nHost: good.example.com\r\n\r\n")
    left = 100_000
    while left > 0:
        left -= len(client.recv(1 << 14)) or exit("a tunnel has ended")
    client.setblocking(False)
    try:
        client.sendall(b"x" * 100_000)
    except BlockingIOError:
        pass
    return client


def connect():
    """As many as one process may have; nobody waits for those that the other side does not take."""
    clients = []
    for _ in range(CONNECTIONS // CHILDREN):
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex(PROXY)
        clients.append(client)
    time.sleep(0.2)
    for client in clients:
        try:
            client.send(b"GET http://evil.test/")
        except OSError:
            pass
    time.sleep(600)


tunnels = [tunnel() for _ in range(TUNNELS)]
print("tunnels", len(tunnels), flush=True)
print("answered", ask(), flush=True)
print("refused", be_refused(), flush=True)
for _ in range(CHILDREN):
    if os.fork() == 0:
        connect()
time.sleep(2)
print("connected", flush=True)
time.sleep(600)
