//! The tools that model-written code is made with do their work inside, under the default profile and its filter.
//!
//! `make test` installs them. Python's libraries and Rust's compiler are not part of the image and are given as inputs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Place, outcome};

/// A tool of the image.
fn need(tool: &str, package: &str) {
    let is_there = ["/usr/bin", "/usr/local/bin"].iter().any(|folder| Path::new(folder).join(tool).exists());
    assert!(is_there, "`{tool}` is missing: `make test` installs it as root, or: apt-get install {package}");
}

/// Runs a script inside and compares what it prints at the end.
fn assert_prints(place: &Place, options: &[&str], script: &str, wanted: &str) {
    let outcome = place.bash(&[&["--quiet"], options].concat(), &format!("set -e -o pipefail\n{script}"));
    assert!(outcome.status == 0 && outcome.stdout.ends_with(wanted), "{:?}: {outcome:?}", place.user);
}

/// A folder that the user can reach: where the build's own cannot be, a second name for the same files, or a copy.
pub(crate) fn reachable(place: &Place, name: &str, parts: &[PathBuf]) -> String {
    let folder = place.folder(name);
    for part in parts {
        let is_done = |how: &str| Command::new("/bin/cp").arg(how).arg(part).arg(&folder).output().unwrap().status.success();
        assert!(is_done("-al") || is_done("-a"), "{} cannot be copied", part.display());
    }
    format!("{}={name}", folder.display())
}

/// Where the Python libraries of the test tools are.
pub(crate) fn sites(library: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools/lib");
    let sites: Vec<PathBuf> = folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.path().join("site-packages")).collect();
    assert!(sites.iter().any(|site| site.join(library).exists()), "{library} is missing: `make test` sets up target/test-tools");
    sites
}

#[test]
fn python_computes_with_numpy_and_pandas_and_draws_with_matplotlib() {
    let sites = sites("matplotlib");
    let program = "import matplotlib; matplotlib.use('svg')\n\
        import matplotlib.pyplot as plot, numpy, pandas\n\
        table = pandas.DataFrame({'x': numpy.arange(1000), 'y': numpy.arange(1000) ** 2})\n\
        table.to_csv('t.csv'); means = pandas.read_csv('t.csv').groupby(table.x % 10).y.mean()\n\
        solved = numpy.linalg.solve(numpy.eye(300) * 2, numpy.ones(300)); numpy.fft.fft(solved)\n\
        plot.plot(table.x, table.y); plot.savefig('chart.svg')\n\
        print(open('chart.svg').read().count('<svg'), round(means.sum()), solved.sum())";
    for place in Place::each() {
        let site = reachable(&place, "python", &sites);
        let script = format!("PYTHONPATH=/inputs/python/site-packages python3 -c \"{program}\"");
        assert_prints(&place, &["--input", &site], &script, "1 3328335 150.0\n");
    }
}

#[test]
fn node_runs_workers_web_assembly_and_children() {
    need("node", "nodejs");
    let program = "const { Worker } = require('worker_threads'), { execSync } = require('child_process'), fs = require('fs');\n\
        fs.writeFileSync('x', 'kept');\n\
        const add = new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array([0,97,115,109,1,0,0,0,1,7,1,96,2,127,127,1,127,3,2,1,0,7,5,1,1,97,0,0,10,9,1,7,0,32,0,32,1,106,11]))).exports.a;\n\
        new Worker('require(`worker_threads`).parentPort.postMessage(6 * 7)', { eval: true }).on('message', m => console.log(m, add(2, 3), execSync('cat x').toString()));";
    for place in Place::each() {
        place.write("program.js", program);
        assert_prints(&place, &["--input", "program.js"], "node /inputs/program.js", "42 5 kept\n");
    }
}

#[test]
fn git_commits_branches_and_packs() {
    need("git", "git");
    let script = "git init -q . && git config user.email a@b && git config user.name a\n\
        for i in 1 2 3 4 5; do echo $i > f$i; git add .; git commit -qm $i; done\n\
        git checkout -q -b other HEAD~2 && echo x > x && git add x && git commit -qm x && git checkout -q - && git merge -q -m merged other\n\
        git gc -q && git clone -q . /tmp/clone && git -C /tmp/clone fsck --strict 2>&1 && git log --oneline | wc -l";
    for place in Place::each() {
        assert_prints(&place, &[], script, "7\n");
    }
}

#[test]
fn gcc_and_make_build_and_what_they_built_runs() {
    need("gcc", "gcc");
    need("make", "make");
    let script = "printf '#include <pthread.h>\\n#include <stdio.h>\\nstatic void *f(void *x) { return x; }\\nint main(void) { pthread_t t; void *r; pthread_create(&t, 0, f, \"threads\"); pthread_join(t, &r); puts(r); return 0; }\\n' > a.c\n\
        printf 'a: a.o\\n\\tcc -pthread -o a a.o\\na.o: a.c\\n\\tcc -O2 -Wall -Werror -c a.c\\n' > Makefile; make -s -j2 && ./a";
    for place in Place::each() {
        assert_prints(&place, &[], script, "threads\n");
    }
}

#[test]
fn cargo_builds_and_tests_a_crate_offline() {
    let found = Command::new("rustc").args(["--print", "sysroot"]).output().expect("`rustc` is not on the PATH");
    let found = outcome(found).stdout;
    let sysroot = Path::new(found.trim());
    for place in Place::each() {
        reachable(&place, "rust/bin", &[sysroot.join("bin/cargo"), sysroot.join("bin/rustc")]);
        let rust = reachable(&place, "rust", &[sysroot.join("lib")]);
        let script = "export PATH=/inputs/rust/bin:$PATH CARGO_HOME=/tmp/cargo\n\
            cargo init -q --vcs none small && cd small && printf 'fn main() { println!(\"built\"); }\\n#[test]\\nfn t() {}\\n' > src/main.rs\n\
            cargo test -q --offline 2>&1 | tail -1; cargo run -q --offline";
        assert_prints(&place, &["--input", &rust], script, "built\n");
    }
}

#[test]
fn ripgrep_searches_with_threads() {
    need("rg", "ripgrep");
    for place in Place::each() {
        let script = "for i in $(seq 200); do mkdir -p d$((i % 7)); echo \"needle $i\" > d$((i % 7))/$i; done; rg -j4 --stats needle . | grep 'matched lines'";
        assert_prints(&place, &[], script, "200 matched lines\n");
    }
}

#[test]
fn sqlite_keeps_a_database_with_a_write_ahead_log() {
    need("sqlite3", "sqlite3");
    for place in Place::each() {
        let script = "sqlite3 a.db 'pragma journal_mode=wal; create table t(x); with recursive n(i) as (select 1 union all select i+1 from n where i<5000) insert into t select i from n;'\n\
            for i in 1 2 3; do sqlite3 -cmd '.timeout 20000' a.db 'insert into t values(0)' & done; wait; sqlite3 a.db 'select count(*), sum(x) from t; pragma integrity_check'";
        assert_prints(&place, &[], script, "5003|12502500\nok\n");
    }
}

#[test]
fn a_java_virtual_machine_compiles_and_runs() {
    need("javac", "default-jdk-headless");
    let program = "import java.util.stream.*;\n\
        public class Sum {\n\
        \x20   public static void main(String[] a) throws Exception {\n\
        \x20       Thread t = new Thread(() -> System.gc()); t.start(); t.join();\n\
        \x20       System.out.println(IntStream.range(0, 100000).parallel().mapToLong(i -> i).sum());\n\
        \x20   }\n\
        }\n";
    for place in Place::each() {
        place.write("Sum.java", program);
        assert_prints(&place, &["--input", "Sum.java"], "java /inputs/Sum.java", "4999950000\n");
    }
}
