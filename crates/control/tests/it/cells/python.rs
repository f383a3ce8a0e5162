//! Python cells by the standard library alone.

use ringfence_control::cells::CellEvent;

use super::worker::Worker;

fn python() -> Worker {
    Worker::plain_python()
}

#[test]
fn output_keeps_its_order() {
    let code = "import sys, os\nprint('a')\nprint('b', file=sys.stderr)\nos.system('echo c')\nprint('d')\nprint('e', file=sys.stderr)\n'f'";
    let events = python().run(code).0;
    let text = |text: &str| text.to_owned();
    assert_eq!(events[1], CellEvent::Stdout { text: text("a\n") });
    assert_eq!(events[2], CellEvent::Stderr { text: text("b\n") });
    assert_eq!(events[3], CellEvent::Stdout { text: text("c\nd\n") });
    assert_eq!(events[4], CellEvent::Stderr { text: text("e\n") });
    assert!(matches!(&events[5], CellEvent::Result(result) if result.text.as_deref() == Some("f") && result.is_main_result));
    assert_eq!(events[6..], [CellEvent::Ended]);
}

#[test]
fn a_line_comes_whole_and_an_unfinished_one_before_what_follows_it() {
    let mut worker = python();
    let events = worker.run("import sys\nprint('a', 'b')\nprint('c', 'd', file=sys.stderr)\nprint('e', end='')\ndisplay('f')\nprint('g', end='', file=sys.stderr)").0;
    assert_eq!(events[1], CellEvent::Stdout { text: "a b\n".into() });
    assert_eq!(events[2], CellEvent::Stderr { text: "c d\n".into() });
    assert_eq!(events[3], CellEvent::Stdout { text: "e".into() });
    assert!(matches!(&events[4], CellEvent::Result(_)));
    assert_eq!(events[5..], [CellEvent::Stderr { text: "g".into() }, CellEvent::Ended]);
}

#[test]
fn what_ipython_takes_is_taken_where_python_alone_does_not() {
    let mut worker = python();
    assert_eq!(worker.run("\n    x = 20\n    x + 1\n").main(), "21");
    let cell = worker.run("print('a', end='')\n!echo b; exit 3");
    assert_eq!((cell.stdout().as_str(), cell.results().len()), ("ab\n", 0));
    assert_eq!(worker.run("for i in range(2):\n    !echo in the loop").stdout(), "in the loop\nin the loop\n");
    assert_eq!(worker.run("print('''\n!no command''')").stdout(), "\n!no command\n", "what is Python is Python");
    assert_eq!(worker.run("1 +").error().0, "SyntaxError");
}

#[test]
fn values_come_in_every_representation() {
    let code = "
class Rich:
    def _repr_html_(self): return '<b>x</b>'
    def _repr_png_(self): return b'\\x89PNG'
    def _repr_svg_(self): return '<svg/>'
    def _repr_markdown_(self): return '*x*'
    def _repr_latex_(self): return '$x$'
    def _repr_json_(self): return {'a': [1, float('nan')]}
    def _repr_jpeg_(self): raise ValueError
    def _repr_mimebundle_(self, include=None, exclude=None): return {'application/x-own': {'b': 1}}
    def __repr__(self): return 'Rich'
display(Rich())
Rich()";
    let cell = python().run(code);
    let results = cell.results();
    assert_eq!(results.iter().map(|result| result.is_main_result).collect::<Vec<_>>(), [false, true]);
    let written = serde_json::to_value(results[1]).unwrap();
    let expected = serde_json::json!({
        "text": "Rich", "html": "<b>x</b>", "png": "iVBORw==", "svg": "<svg/>", "markdown": "*x*", "latex": "$x$",
        "json": {"a": [1, null]}, "extra": {"application/x-own": {"b": 1}}, "is_main_result": true
    });
    assert_eq!(written, expected);
}

#[test]
fn errors_are_pythons_without_the_workers_calls() {
    let mut worker = python();
    worker.run("def f():\n    return 1 / 0");
    let cell = worker.run("f()");
    let (name, value, traceback) = cell.error();
    assert_eq!((name, value), ("ZeroDivisionError", "division by zero"));
    let expected = "Traceback (most recent call last):\n  File \"<cell 2>\", line 1, in <module>\n    f()\n  File \"<cell 1>\", line 2, in f\n    return 1 / 0";
    assert!(traceback.starts_with(expected), "{traceback}");
    assert!(!traceback.contains("<string>"), "{traceback}");
    let deep = worker.run("def g(n): return g(n + 1)\ng(0)");
    assert_eq!(deep.error().0, "RecursionError");
    assert!(deep.error().2.len() < 5000);
}

#[test]
fn a_cell_may_ask_for_the_end_and_the_context_stays() {
    let mut worker = python();
    worker.run("x = 7");
    assert_eq!(worker.run("import sys; sys.exit(3)").error().0, "SystemExit");
    assert_eq!(worker.run("raise SystemExit").error().0, "SystemExit");
    assert_eq!(worker.run("input('?')").error().0, "RuntimeError");
    assert_eq!(worker.run("import os\nif os.fork() == 0: print('child')\nelse: n = os.wait()").stdout(), "child\n");
    assert_eq!(worker.run("x").main(), "7");
}

#[test]
fn await_stands_at_the_top() {
    let mut worker = python();
    assert_eq!(worker.run("import asyncio\nawait asyncio.sleep(0.01)\nx = await asyncio.sleep(0, 5)\nx").main(), "5");
    assert_eq!(worker.run("x + 1;").results().len(), 0);
    assert_eq!(worker.run("'\\ud800'").main(), "\\ud800");
}

#[test]
fn a_result_that_is_too_long_is_left_out_and_said() {
    let mut worker = python();
    let cell = worker.run("'x' * (13 << 20)");
    assert_eq!(cell.results().len(), 0);
    assert!(cell.stderr().contains("text/plain of a result is left out"), "{}", cell.stderr());
    let big = worker.run("'x' * (5 << 20)");
    assert_eq!(big.main().len(), 5 << 20);
}

/// Another process writes all the while; the pieces of a frame are never torn.
#[test]
fn frames_hold_while_others_write() {
    let mut worker = python();
    let code = "import subprocess\np = subprocess.Popen(['sh', '-c', 'while true; do echo yyyyyyyyyyyyyyyy; done'])\nresult = 'x' * 300000\ndisplay(result)\np.kill()\nn = p.wait()\n1";
    let cell = worker.run(code);
    assert_eq!(cell.results()[0].text.as_deref().map(str::len), Some(300_000));
    assert_eq!(cell.main(), "1");
}

#[test]
fn a_cell_that_knows_its_token_forges_its_own_results_only() {
    let mut worker = python();
    let forged = "import sys\nc = sys._getframe(1).f_globals['channel']\nc.write(c.stdout, b'nonsense', b'.')";
    let cell = worker.run(forged);
    assert_eq!(cell.error().0, "ContextBroken");
    assert!(worker.context.is_over());
}

/// A process that the cell forked may print, but its pieces could stand among those of the worker.
#[test]
fn a_forked_child_sends_no_frames() {
    let mut worker = python();
    let code = "import os, sys\nif os.fork() == 0:\n    display('child')\n    print('out')\n    print('err', file=sys.stderr)\nelse:\n    n = os.wait()";
    let cell = worker.run(code);
    assert_eq!((cell.results().len(), cell.stdout().as_str(), cell.stderr().as_str()), (0, "out\n", "err\n"));
    assert!(!worker.run("1").is_error());
}

#[test]
fn an_interrupt_between_cells_is_nobodys() {
    let mut worker = python();
    worker.run("x = 1");
    worker.signal();
    assert_eq!(worker.run("x").main(), "1");
    let cell = worker.interrupt("import time; print('ready'); time.sleep(50)", "ready");
    let (name, _, traceback) = cell.error();
    assert_eq!(name, "KeyboardInterrupt");
    assert!(!traceback.contains("on_interrupt"), "{traceback}");
}

#[test]
fn what_a_cell_raises_at_the_worker_is_its_own_matter() {
    let mut worker = python();
    for code in [
        "class E(Exception):\n    def __str__(self): raise SystemExit\nraise E",
        "class R:\n    def __repr__(self): raise SystemExit\nR()",
        "class M:\n    def __getattr__(self, name): raise KeyError(name)\n    def __repr__(self): return 1\nM()",
        "raise KeyboardInterrupt",
        "raise GeneratorExit",
    ] {
        assert!(worker.run(code).is_error(), "{code}");
    }
    assert_eq!(
        worker.run("import json, threading\nt = threading.Thread(target=threading.Event().wait)\nt.start()\njson.dumps = None").error().0,
        "ContextEnded"
    );
    assert!(worker.context.is_over());
}
