# The worker of a Python code context, first part: how requests come in, and how frames go out (cells/frame.rs says what a frame is).
# Descriptors 0, 1 and 2 belong to the cell; the worker keeps copies of its own, which programs started by the cell do not inherit.
import ast, asyncio, base64, builtins, fcntl, inspect, io, json, linecache, os, re, signal, subprocess, sys, textwrap, threading, traceback, types

PIECE = 4000
LARGEST_RESULT = 12 << 20


class Channel:
    """Requests from standard input as it was, frames to standard output as it was."""

    def __init__(self):
        self.requests, self.stdout, self.stderr = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 200) for fd in (0, 1, 2))
        self.pid, self.token, self.unread = os.getpid(), "", b""
        self.lock, self.writer, self.is_interrupted = threading.Lock(), None, False
        self.cell_stdout = self.cell_stderr = None

    def give_descriptors(self):
        """What the cell gets as 0, 1 and 2, whatever the one before did to them."""
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (self.stdout, 1), (self.stderr, 2)):
            if source != target:
                os.dup2(source, target)
        if nothing > 2:
            os.close(nothing)

    def field(self):
        """The next field of a request; none when the owner has closed it."""
        parts = [self.unread]
        while b"\0" not in parts[-1]:
            parts.append(os.read(self.requests, 1 << 16))
            if not parts[-1]:
                raise EOFError
        field, _, self.unread = b"".join(parts).partition(b"\0")
        return field.decode()

    def request(self):
        """The folder, the variables and the code of the next request; its token is taken for the frames from here on."""
        self.token, cwd, count = self.field(), self.field(), int(self.field())
        return cwd, dict(self.field().split("=", 1) for _ in range(count)), self.field()

    def send(self, kind, to_stderr=False, **values):
        """Writes a frame, its pieces in a row as far as this process goes. An interrupt waits until the frame is whole.
        A child that the cell forked has no say: its pieces could stand among ours."""
        if os.getpid() != self.pid:
            return
        self.flush_stdout()
        text = json.dumps({"type": kind, **values}, ensure_ascii=False).encode("utf-8", "replace")
        with self.lock:
            self.writer = threading.get_ident()
            try:
                for at in range(0, len(text), PIECE):
                    more = b"+" if at + PIECE < len(text) else b"."
                    self.write(self.stderr if to_stderr else self.stdout, text[at : at + PIECE], more)
            finally:
                self.writer = None
        if self.is_interrupted and threading.current_thread() is threading.main_thread():
            self.is_interrupted = False
            raise KeyboardInterrupt

    def flush_stdout(self):
        """What the cell has printed comes before the frame that comes after it, also where its line has no end yet."""
        try:
            self.cell_stdout and self.cell_stdout.flush()
        except (OSError, ValueError, RuntimeError):
            pass

    def write(self, fd, text, more):
        os.write(fd, b"\x1e" + self.token.encode() + more + text + b"\n")


channel = Channel()


class Stderr(io.TextIOBase):
    """sys.stderr of the cell: frames among standard output, so that the two keep their order, a line at once. Programs write to descriptor 2."""

    encoding, errors = "utf-8", "backslashreplace"

    def __init__(self):
        self.held = ""

    def writable(self):
        return True

    def fileno(self):
        return 2

    @property
    def buffer(self):
        return io.FileIO(2, "w", closefd=False)

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if os.getpid() != channel.pid:
            os.write(2, text.encode("utf-8", "backslashreplace"))
        else:
            self.held += text
            if "\n" in text or len(self.held) > PIECE:
                self.flush()
        return len(text)

    def flush(self):
        held, self.held = self.held, ""
        if held and os.getpid() == channel.pid:
            channel.send("stderr", text=held)


def send_result(data, is_main):
    """A result by media type: bytes in base 64, what is neither text nor bytes as JSON. What is too long is left out, and said to be."""
    written = {str(name): as_text(value) for name, value in data.items() if value is not None}
    kept, size = {}, 0
    for name, value in sorted(written.items(), key=lambda item: len(item[1])):
        size += 2 * len(value.encode("utf-8", "replace")) if name in ("text/html", "image/svg+xml") else len(value.encode("utf-8", "replace"))
        if size > LARGEST_RESULT:
            channel.send("stderr", text=f"[ringfence: {name} of a result is left out: {len(value)} characters are too many]\n")
        else:
            kept[name] = value
    if kept:
        channel.send("result", data=kept, is_main_result=is_main)


def as_text(value):
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    return json.dumps(plain(value), ensure_ascii=False, default=str)


def plain(value, depth=0):
    """The value without what JSON does not have: NaN and infinities become null, keys become text, what is too deep becomes text."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, (dict, list, tuple)) and depth > 60:
        return "..."
    if isinstance(value, dict):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, depth + 1) for item in value]
    return value


