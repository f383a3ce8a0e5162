"""Three things that code in a sandbox must not be able to do.

    python3 misbehave.py SECRET_PATH HOST:PORT OUTSIDE_PATH

Tries to read a secret file of the host, to reach a TCP listener on the host,
and to write outside the workspace. Prints one line per attempt. Exit status:
0 if every attempt was refused, 1 if any succeeded, 2 if called wrongly.

A refusal only means something if the target is there: run this outside the
sandbox first, where every line should say LEAKED (/usr/local only for root).
The secret itself is never printed. Writes append, so no file loses its content.
"""
import socket
import sys

TIMEOUT = 3     # seconds
SYSTEM_PATH = "/usr/local/pwned"


def read_secret(path):
    with open(path, "rb") as file:
        file.read(1)


def connect(host, port):
    socket.create_connection((host, port), timeout=TIMEOUT).close()


def write_file(path):
    with open(path, "a", encoding="ascii") as file:
        file.write("misbehave.py was here\n")


def attempt(what, action, *arguments):
    """Run the action; True if it was refused."""
    try:
        action(*arguments)
    except OSError as error:
        print(f"refused: {what} ({type(error).__name__})", flush=True)
        return True
    print(f"LEAKED: {what}", flush=True)
    return False


def main():
    if len(sys.argv) != 4:
        print("usage: misbehave.py SECRET_PATH HOST:PORT OUTSIDE_PATH", file=sys.stderr)
        return 2
    secret, address, outside = sys.argv[1:]
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        print(f"not HOST:PORT: {address}", file=sys.stderr)
        return 2
    refused = [
        attempt(f"read {secret}", read_secret, secret),
        attempt(f"connect {address}", connect, host.strip("[]"), int(port)),
        attempt(f"write {outside}", write_file, outside),
        attempt(f"write {SYSTEM_PATH}", write_file, SYSTEM_PATH),
    ]
    print(f"{sum(refused)} of {len(refused)} attempts refused")
    return 0 if all(refused) else 1


if __name__ == "__main__":
    sys.exit(main())
