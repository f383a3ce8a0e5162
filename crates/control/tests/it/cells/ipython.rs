//! Python cells by a real IPython shell, that of `target/test-tools`: ipykernel with all it brings, pandas and matplotlib, in the versions of
//! `scripts/test-tools.txt`. Where it is missing these fail: `make test` sets it up.

use super::worker::Worker;

fn ipython() -> Worker {
    let mut worker = Worker::ipython();
    assert_eq!(worker.run("import ipykernel, pandas, matplotlib, matplotlib_inline; get_ipython() is not None").main(), "True");
    worker
}

#[test]
fn ipython_has_its_magics_and_its_shell() {
    let mut worker = ipython();
    assert_eq!(worker.run("%env CELL=1\n!echo $CELL; exit 3").stdout(), "env: CELL=1\n1\n");
    assert_eq!(worker.run("_exit_code").main(), "3");
    assert_eq!(worker.run("%%bash\necho $CELL").stdout(), "1\n");
    assert_eq!(worker.run("_ + 1").main(), "4");
}

#[test]
fn ipython_sends_frames_as_tables_and_data() {
    let cell = ipython().run("import pandas as pd\npd.DataFrame({'b': [1, 2.5], 'a': ['x', float('nan')]})");
    let result = cell.results()[0];
    assert!(result.html.as_deref().is_some_and(|html| html.contains("<table")));
    assert_eq!(result.data, Some(serde_json::json!({"b": [1.0, 2.5], "a": ["x", null]})));
}

#[test]
fn ipython_sends_figures() {
    let mut worker = ipython();
    let cell = worker.run("import matplotlib.pyplot as plt\nplt.plot([1, 2]);");
    let figures: Vec<&str> = cell.results().iter().filter_map(|result| result.png.as_deref()).collect();
    assert!(matches!(figures[..], [png] if png.starts_with("iVBORw0KGgo") && png.len() > 4000), "{figures:?}");
    assert_eq!(worker.run("len(plt.get_fignums())").main(), "0");
}

#[test]
fn ipython_errors_leave_the_state() {
    let mut worker = ipython();
    worker.run("x = 7");
    assert_eq!(worker.run("exit()").error().0, "SystemExit");
    assert_eq!(
        worker.run("import sys; sys.exit(2)").error(),
        ("SystemExit", "2", "An exception has occurred, use %tb to see the full traceback.\n\nSystemExit: 2\n")
    );
    assert_eq!(worker.run("if x").error().0, "SyntaxError");
    assert_eq!(worker.run("def g(n): return g(n + 1)\ng(0)").error().0, "RecursionError");
    assert_eq!(worker.interrupt("print('ready')\nwhile True: pass", "ready").error().0, "KeyboardInterrupt");
    assert_eq!(worker.run("x").main(), "7");
}
