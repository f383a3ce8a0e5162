# Third part: cells by a real IPython shell, where the image has it. Magics, rich output, tracebacks and inline figures are IPython's own.
def ipython_shell():
    """A shell that sends what it would show; none where IPython is missing."""
    try:
        from IPython.core.displayhook import DisplayHook
        from IPython.core.displaypub import DisplayPublisher
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config
    except ImportError:
        return None

    class Publisher(DisplayPublisher):
        def publish(self, data, metadata=None, **_):
            send_result(data, False)

        def clear_output(self, wait=False):
            pass

    class Hook(DisplayHook):
        def write_output_prompt(self):
            pass

        def write_format_data(self, format_dict, md_dict=None):
            send_result(format_dict, True)

        def finish_displayhook(self):
            pass

    class Shell(InteractiveShell):
        def _showtraceback(self, etype, evalue, stb):
            lines = "\n".join(stb) if isinstance(stb, list) else str(stb)
            channel.send("error", name=etype.__name__, value=words(evalue), traceback=lines)

        def showsyntaxerror(self, filename=None, running_compiled_code=False):
            self.showtraceback(running_compiled_code=running_compiled_code) if running_compiled_code else super().showsyntaxerror(filename)

        def system(self, command):
            """Programs write to the cell's descriptors; the terminal that IPython would make for them is not to be had in a sandbox."""
            self.user_ns["_exit_code"] = os.waitstatus_to_exitcode(os.system(self.var_expand(command, depth=1)))

        def ask_exit(self):
            raise SystemExit

        def enable_gui(self, gui=None):
            pass

        def run(self, code):
            self.run_cell(code, store_history=True)

    import warnings

    warnings.filterwarnings("ignore", "To exit: use")
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor"
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    if inline_figures():
        os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    os.environ.setdefault("MPLBACKEND", "Agg")
    shell = Shell.instance(config=config, user_module=module, display_pub_class=Publisher, displayhook_class=Hook)
    shell.display_formatter.active_types = list(shell.display_formatter.format_types)
    show_frames(shell.display_formatter)
    return shell


def inline_figures():
    from importlib.util import find_spec

    return find_spec("matplotlib_inline") is not None


def show_frames(formatter):
    """Data frames are sent as data as well."""
    from IPython.core.formatters import BaseFormatter
    from traitlets import ObjectName, Unicode

    class FrameFormatter(BaseFormatter):
        format_type, print_method = Unicode("e2b/data"), ObjectName("_repr_e2b_data_")
        _return_type = dict

    frames = FrameFormatter(parent=formatter)
    frames.for_type_by_name("pandas.core.frame", "DataFrame", frame_data)
    frames.for_type_by_name("pandas", "DataFrame", frame_data)
    formatter.formatters["e2b/data"] = frames


