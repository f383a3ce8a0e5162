# Second part: cells by the standard library alone, where the image has no IPython.
METHODS = {
    "text/html": "_repr_html_", "text/markdown": "_repr_markdown_", "image/svg+xml": "_repr_svg_", "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_", "application/pdf": "_repr_pdf_", "text/latex": "_repr_latex_", "application/json": "_repr_json_",
    "application/javascript": "_repr_javascript_",
}  # fmt: skip


OWN = {("<string>", "on_interrupt"), ("<string>", "no_input")}


def frame_data(value):
    """A pandas data frame as its columns; none for all else. pandas is never imported here."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(value, getattr(pandas, "DataFrame", ())):
        return None
    return {str(name): [getattr(item, "isoformat", lambda item=item: item)() for item in column] for name, column in value.to_dict(orient="list").items()}


def picture(figure):
    """A matplotlib figure as PNG."""
    png = io.BytesIO()
    figure.savefig(png, format="png", bbox_inches="tight")
    return png.getvalue()


def is_figure(value):
    figures = sys.modules.get("matplotlib.figure")
    return figures is not None and isinstance(value, figures.Figure)


def representations(value):
    """The value by media type, as IPython asks for it. A method that fails is as if it were not there; repr alone may fail the cell."""
    data = {}
    if not isinstance(value, type):
        for media_type, name in METHODS.items():
            data[media_type] = ask(value, name)
        bundle = ask(value, "_repr_mimebundle_", include=None, exclude=None)
        data.update((bundle[0] if isinstance(bundle, tuple) else bundle) or {})
    if is_figure(value):
        data["image/png"] = picture(value)
        sys.modules["matplotlib.pyplot"].close(value) if "matplotlib.pyplot" in sys.modules else None
    data["e2b/data"] = frame_data(value)
    data.setdefault("text/plain", repr(value))
    return data


def ask(value, name, **arguments):
    method = getattr(value, name, None)
    try:
        found = method(**arguments) if callable(method) else None
    except Exception:
        return None
    return found[0] if isinstance(found, tuple) and name != "_repr_mimebundle_" else found


COMMAND = re.compile(r"^([ \t]*)!(.*)$", re.MULTILINE)


def parse(code, name):
    """The cell as Python; where it is none, as IPython takes it: indented as a whole, with lines that begin with `!` for the shell."""
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        return compile(code, name, "exec", flags)
    except SyntaxError:
        taken = COMMAND.sub(lambda line: f"{line[1]}__import__('builtins').run_command({line[2]!r})", textwrap.dedent(code))
        if taken == code:
            raise
    return compile(taken, name, "exec", flags)


def run_command(line):
    """Runs a line in a shell, whose output is the cell's. How it ends is not told, as IPython does not."""
    channel.flush_stdout()
    subprocess.run(["/bin/sh", "-c", line])


class PlainShell:
    """One namespace, one event loop."""

    def __init__(self):
        self.module = types.ModuleType("__main__")
        self.module.__builtins__ = builtins
        sys.modules["__main__"] = self.module
        builtins.display, builtins.run_command = self.display, run_command
        self.count, self.loop = 0, None
        os.environ.setdefault("MPLBACKEND", "Agg")

    def display(self, *values, raw=False, **_):
        for value in values:
            send_result(value if raw else representations(value), False)

    def run(self, code):
        """Runs a cell and sends what comes of it; raises nothing."""
        self.count += 1
        name = f"<cell {self.count}>"
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        try:
            tree = parse(code, name)
            is_shown = bool(tree.body) and isinstance(tree.body[-1], ast.Expr) and not code.rstrip().endswith(";")
            last = tree.body.pop() if is_shown else None
            self.evaluate(tree, name, "exec")
            value = self.evaluate(ast.Expression(last.value), name, "eval") if last else None
            if value is not None:
                self.module._ = value
                send_result(representations(value), True)
            self.send_figures()
        except BaseException as error:
            self.send_error(error)

    def evaluate(self, tree, name, mode):
        compiled = compile(tree, name, mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        value = eval(compiled, self.module.__dict__)
        return self.wait(value) if compiled.co_flags & inspect.CO_COROUTINE else value

    def wait(self, awaited):
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
        return self.loop.run_until_complete(awaited)

    def send_figures(self):
        plots = sys.modules.get("matplotlib.pyplot")
        for number in plots.get_fignums() if plots else ():
            figure = plots.figure(number)
            send_result({"image/png": picture(figure), "text/plain": repr(figure)}, False)
            plots.close(figure)

    def send_error(self, error):
        """The error as Python prints it, from the first line of a cell on: the worker's own calls are left out."""
        trace = error.__traceback__
        while trace is not None and not trace.tb_frame.f_code.co_filename.startswith("<cell "):
            trace = trace.tb_next
        shown = traceback.TracebackException(type(error), error, trace)
        shown.stack[:] = [line for line in shown.stack if (line.filename, line.name) not in OWN]
        lines = shown.format()
        channel.send("error", name=type(error).__name__, value=words(error), traceback="".join(lines).rstrip("\n"))


def words(error):
    """The message of an error, whatever its class does when asked."""
    try:
        return str(error)
    except BaseException:
        return f"<{type(error).__name__} without a message>"


