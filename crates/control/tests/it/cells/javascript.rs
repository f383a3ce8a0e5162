//! JavaScript cells.

use ringfence_control::cells::{CellEvent, Language};

use super::worker::Worker;

fn node() -> Worker {
    Worker::start(Language::JavaScript)
}

#[test]
fn output_keeps_its_order() {
    let events = node()
        .run("console.log('a'); console.error('b'); require('child_process').execSync('echo c', {stdio: 'inherit'}); console.log('d'); 'e'")
        .0;
    assert_eq!(events[1], CellEvent::Stdout { text: "a\n".to_owned() });
    assert_eq!(events[2], CellEvent::Stderr { text: "b\n".to_owned() });
    assert_eq!(events[3], CellEvent::Stdout { text: "c\nd\n".to_owned() });
    assert!(matches!(&events[4], CellEvent::Result(result) if result.text.as_deref() == Some("e")));
}

#[test]
fn declarations_stay_and_may_be_made_again() {
    let mut worker = node();
    worker.run("const a = 1; let b = await Promise.resolve(2); class C { f() { return 3; } }; function g() { return 4; }");
    assert_eq!(worker.run("a + b + new C().f() + g()").main(), "10");
    worker.run("const a = 10;");
    assert_eq!(worker.run("a").main(), "10");
}

#[test]
fn values_are_shown_and_objects_are_json_too() {
    let mut worker = node();
    let cell = worker.run("({a: [1, 'x']})");
    assert_eq!(cell.main(), "{ a: [ 1, 'x' ] }");
    assert_eq!(cell.results()[0].json, Some(serde_json::json!({"a": [1, "x"]})));
    assert_eq!(worker.run("10n").main(), "10n");
    assert_eq!(worker.run("null").main(), "null");
    assert_eq!(worker.run("'a\\ud800'").main(), "a\u{fffd}");
    assert_eq!(worker.run("display({b: '\\ud800'}); 1").main(), "1");
    assert_eq!(worker.run("-0").main(), "-0");
    assert_eq!(worker.run("undefined").results().len(), 0);
    assert_eq!(worker.run("const o = {}; o.o = o; o").results()[0].json, None);
}

#[test]
fn modules_come_by_require_and_by_import() {
    let mut worker = node();
    assert_eq!(worker.run("require('path').basename('/a/b')").main(), "b");
    assert_eq!(worker.run("const { basename } = await import('node:path'); basename('/a/c') + 'import(x)'").main(), "cimport(x)");
}

#[test]
fn modules_come_by_declarations_too() {
    let mut worker = node();
    for (code, value) in [
        ("import path from 'node:path'\npath.join('a', 'b')", "a/b"),
        ("    import path, { basename as last, dirname } from \"node:path\";\n    last('/a/b') + dirname('/c/d') + path.sep", "b/c/"),
        ("import * as whole from 'node:path'; whole.basename('/x')", "x"),
        ("import first, * as whole from 'node:path' // once\nfirst === whole.default", "true"),
        ("import {\n  join, // two\n  sep,\n} from 'npm:path@1.0.0'\njoin('a', sep)", "a/"),
        ("import 'node:path'\n1", "1"),
        ("`import x from 'y'\n` + 'import z from \\'z\\'' // import a from 'b'", "import x from 'y'\nimport z from 'z'"),
    ] {
        let cell = worker.run(code);
        assert!(!cell.is_error(), "{code}: {cell:?}");
        assert_eq!(cell.main(), value, "{code}");
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("data.json"), "{\"a\": 7}").unwrap();
    let path = folder.path().join("data.json").display().to_string();
    assert_eq!(worker.run(&format!("import data from '{path}' with {{ type: 'json' }}\ndata.a")).main(), "7");
    assert_eq!(worker.run("\nimport { x } from 'no-such-package'\nx").error().0, "Error");
    assert!(worker.run("1\n\nimport {\n a b } from 'node:path'").is_error());
    let cell = worker.run("import {\n  sep,\n} from 'node:path'\nthrow new Error(sep)");
    assert!(cell.error().2.contains(":4:"), "the lines are where they were: {cell:?}");
}

#[test]
fn errors_have_their_stack_without_the_workers_calls() {
    let mut worker = node();
    let cell = worker.run("function f() { throw new TypeError('no'); }\nf()");
    let (name, value, traceback) = cell.error();
    assert_eq!((name, value), ("TypeError", "no"));
    assert!(traceback.starts_with("TypeError: no\n    at f ("), "{traceback}");
    assert!(!traceback.contains("node:inspector") && !traceback.contains("[eval]"), "{traceback}");
    assert_eq!(worker.run("await Promise.reject(new Error('r'))").error().1, "r");
    assert_eq!(worker.run("throw 'text'").error().1, "'text'");
    assert_eq!(worker.run("(function g() { g(); })()").error().0, "RangeError");
    assert_eq!(worker.run("process.exit(3)").error().0, "Exit");
    assert_eq!(worker.run("1").main(), "1");
}

#[test]
fn typescript_is_stripped_or_refused_clearly() {
    let mut worker = Worker::start(Language::TypeScript);
    let cell = worker.run("const x: number = 5; x");
    if cell.is_error() {
        assert!(cell.error().1.starts_with("TypeScript needs a node of version 22.13 or newer in the image, and this is v"), "{cell:?}");
    } else {
        assert_eq!(cell.main(), "5");
    }
}

#[test]
fn what_a_cell_throws_at_the_worker_is_its_own_matter() {
    let mut worker = node();
    for code in [
        "throw null",
        "throw Object.assign(new Error(), { get stack() { throw 1; } })",
        "throw new Proxy({}, { get() { throw 1; }, ownKeys() { throw 2; } })",
        "const e = new Error('x'); Object.defineProperty(e, 'message', { get() { throw 3; } }); throw e",
        "const e = new Error('x'); Object.defineProperty(e, 'stack', { get() { throw 3; } }); throw e",
        "({ [Symbol.for('nodejs.util.inspect.custom')]() { throw new Error('inspect'); } })",
    ] {
        assert!(worker.run(code).is_error(), "{code}");
    }
    assert!(!worker.run("setTimeout(() => { throw new Error('later'); }, 1); Promise.reject(new Error('nobody')); await new Promise((r) => setTimeout(r, 50))").is_error());
    assert_eq!(worker.run("2").main(), "2");
    assert_eq!(worker.run("JSON.stringify = null").error().0, "ContextEnded");
}
