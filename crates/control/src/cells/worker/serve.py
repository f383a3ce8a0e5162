# Last part: one cell after another until the owner closes standard input or ends the process.
running = False


def on_interrupt(_signal, _frame):
    """An interrupt is the cell's; between two cells it is nobody's. A frame that is being written is finished first."""
    if not running:
        return
    if channel.writer == threading.get_ident():
        channel.is_interrupted = True
    else:
        raise KeyboardInterrupt


def no_input(prompt=""):
    raise RuntimeError("input() has nobody to ask in a code context; write the value into the cell")


def set_variables(variables):
    """Sets variables, or takes away those that are none, and returns what was there."""
    before = {name: os.environ.get(name) for name in variables}
    for name, value in variables.items():
        os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
    return before


def prepare():
    """What every cell finds, whatever the one before closed or replaced."""
    channel.give_descriptors()
    signal.signal(signal.SIGINT, on_interrupt)
    builtins.input = no_input
    sys.stdin = open(0, closefd=False)
    sys.stdout = sys.__stdout__ = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8", "backslashreplace", line_buffering=True)
    channel.cell_stdout, channel.cell_stderr = sys.stdout, Stderr()
    sys.stderr = sys.__stderr__ = channel.cell_stderr


def run_cell(shell, cwd, code):
    global running
    try:
        running = True
        if cwd:
            os.chdir(cwd)
        shell.run(code)
        running = False
    except BaseException as error:
        running = False
        channel.send("error", name=type(error).__name__, value=words(error), traceback="")


def serve():
    prepare()
    shell = ipython_shell() or PlainShell()
    sys.argv = [""]
    while True:
        try:
            cwd, variables, code = channel.request()
        except EOFError:
            return
        prepare()
        channel.send("started")
        before = set_variables(variables)
        run_cell(shell, cwd, code)
        if os.getpid() != channel.pid:
            channel.flush_stdout()
            os._exit(0)
        channel.is_interrupted = False
        channel.cell_stderr.flush()
        set_variables(before)
        channel.send("ended", to_stderr=True)
        channel.send("ended")


# The process goes with its last cell, whatever threads a cell left running.
try:
    serve()
finally:
    os._exit(1)
