//! bash cells.

use ringfence_control::cells::Language;

use super::worker::Worker;

fn bash() -> Worker {
    Worker::start(Language::Bash)
}

#[test]
fn what_is_declared_stays() {
    let mut worker = bash();
    worker.run("declare -A m=([a]=b); f() { echo \"f $1\"; }; cd /usr; set -o pipefail; alias ll=ls");
    assert_eq!(worker.run("echo ${m[a]}; f x; pwd; set -o | grep pipefail | tr -d '[:space:]'").stdout(), "b\nf x\n/usr\npipefailon");
}

#[test]
fn an_exit_status_is_an_error_and_the_shell_stays() {
    let mut worker = bash();
    worker.run("x=1");
    let failed = worker.run("echo before; false");
    assert_eq!(failed.error(), ("ExitCode", "exit status 1", ""));
    assert_eq!(failed.stdout(), "before\n");
    let code = "g() { while true; do echo in; exit 3; echo not; done; }\n(exit 4); echo sub $?\ng\necho not";
    let left = worker.run(code);
    assert_eq!((left.stdout().as_str(), left.error().1), ("sub 4\nin\n", "exit status 3"));
    assert_eq!(worker.run("exit 0; echo not").stdout(), "");
    assert_eq!(worker.run("no-such-program").error().1, "exit status 127");
    assert_eq!(worker.run("echo $x").stdout(), "1\n");
}

#[test]
fn errexit_ends_the_cell_and_stays_set() {
    let mut worker = bash();
    let cell = worker.run("set -e\necho a\nfalse || echo b\nf() { false; echo not; }\nf\necho not");
    assert_eq!((cell.stdout().as_str(), cell.error().1), ("a\nb\n", "exit status 1"));
    let cell = worker.run("echo c; false; echo not");
    assert_eq!((cell.stdout().as_str(), cell.error().1), ("c\n", "exit status 1"));
    assert_eq!(worker.run("set +e; false; echo d").stdout(), "d\n");
    assert_eq!(worker.run("false; echo e").stdout(), "e\n");
}

#[test]
fn a_shell_that_ends_itself_says_so() {
    let mut worker = bash();
    let cell = worker.run("set -u; echo $no_such_variable");
    assert_eq!(cell.error().0, "ContextEnded");
    let mut worker = bash();
    let cell = worker.run("exec true");
    assert_eq!(cell.error(), ("ContextEnded", "the worker ended", ""));
}

#[test]
fn nothing_is_read_from_the_requests() {
    let mut worker = bash();
    assert_eq!(worker.run("cat; read x; echo \"x=$x\"").stdout(), "x=\n");
    assert_eq!(worker.run("echo still").stdout(), "still\n");
}
