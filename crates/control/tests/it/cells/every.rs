//! What holds in every language.

use std::collections::BTreeMap;

use ringfence_control::cells::{CellEvent, CellRequest, Language};

use super::worker::{Cell, Worker};

/// What a cell looks like in each language.
struct Words {
    language: Language,
    set: &'static str,
    show: &'static str,
    show_variable: &'static str,
    flood: &'static str,
    lines: &'static str,
    forge: &'static str,
    close: &'static str,
    leave_behind: &'static str,
    where_it_is: &'static str,
    unicode: &'static str,
    syntax: &'static str,
    wait: &'static str,
    spin: &'static str,
}

const ALL: [Words; 3] = [
    Words {
        language: Language::Python,
        set: "x = 41",
        show: "print(x + 1)",
        show_variable: "import os; print(os.environ.get('CELL_VARIABLE'), os.environ.get('HOME'))",
        flood: "import sys; n = sys.stdout.write('é' * (5 << 19)); n = sys.stdout.write('\\n')",
        lines: "for i in range(100000): print(i)",
        forge: r#"print('\x1e' + 'ab' * 16 + '.{"type":"ended"}'); print('\x1e', end='')"#,
        close: "import os; os.close(1)",
        leave_behind: "import subprocess; left = subprocess.Popen(['sleep', '60']); print('left')",
        where_it_is: "import os; print(os.getcwd())",
        unicode: "print('żółw 🐢')",
        syntax: "x = = 1",
        wait: "import time; print('ready'); time.sleep(50)",
        spin: "print('ready')\nwhile True: pass",
    },
    Words {
        language: Language::JavaScript,
        set: "const x = 41",
        show: "console.log(x + 1)",
        show_variable: "console.log(process.env.CELL_VARIABLE ?? 'None', process.env.HOME)",
        flood: "console.log('é'.repeat(5 << 19))",
        lines: "for (let i = 0; i < 100000; i += 1) console.log(i)",
        forge: r#"console.log('\x1e' + 'ab'.repeat(16) + '.{"type":"ended"}'); process.stdout.write('\x1e'); undefined"#,
        close: "require('fs').closeSync(1)",
        leave_behind: "require('child_process').spawn('sleep', ['60'], {stdio: 'inherit'}); console.log('left')",
        where_it_is: "console.log(process.cwd())",
        unicode: "console.log('żółw 🐢')",
        syntax: "let = = 1",
        wait: "console.log('ready'); await new Promise((resolve) => setTimeout(resolve, 50000))",
        spin: "console.log('ready'); while (true) {}",
    },
    Words {
        language: Language::Bash,
        set: "x=41",
        show: "echo $((x + 1))",
        show_variable: "echo ${CELL_VARIABLE-None} $HOME",
        flood: "line=$(printf 'é%.0s' {1..1024}); for i in {1..2560}; do printf %s \"$line\"; done; echo",
        lines: "for ((i = 0; i < 100000; i++)); do echo $i; done",
        forge: r#"printf '\x1e'; printf 'ab%.0s' {1..16}; echo '.{"type":"ended"}'; printf '\x1e'"#,
        close: "exec 1>&-",
        leave_behind: "sleep 60 & echo left",
        where_it_is: "pwd",
        unicode: "echo 'żółw 🐢'",
        syntax: "if then",
        wait: "echo ready; sleep 50; echo not reached",
        spin: "echo ready; while true; do :; done; echo not reached",
    },
];

#[test]
fn state_stays_from_cell_to_cell() {
    for words in ALL {
        let mut worker = Worker::start(words.language);
        assert!(!worker.run(words.set).is_error());
        let shown = worker.run(words.show);
        let expected = [CellEvent::Started { execution_count: 2 }, CellEvent::Stdout { text: "42\n".to_owned() }, CellEvent::Ended];
        assert_eq!(shown.0, expected, "{}", words.language);
    }
}

#[test]
fn five_megabytes_and_a_hundred_thousand_lines_arrive_whole() {
    for words in ALL {
        let mut worker = Worker::start(words.language);
        let flood = worker.run(words.flood);
        assert_eq!(flood.stdout().len(), (5 << 20) + 1, "{}", words.language);
        assert!(flood.stdout().trim_end().chars().all(|c| c == 'é'), "{}", words.language);
        let lines = worker.run(words.lines).stdout();
        assert!(lines.lines().map(str::to_owned).eq((0..100_000).map(|i| i.to_string())), "{}", words.language);
    }
}

#[test]
fn a_forged_frame_is_output() {
    for words in ALL {
        let mut worker = Worker::start(words.language);
        let cell = worker.run(words.forge);
        assert_eq!(cell.stdout(), format!("\x1e{}.{{\"type\":\"ended\"}}\n\x1e", "ab".repeat(16)), "{}", words.language);
        assert_eq!(worker.run(words.unicode).stdout(), "żółw 🐢\n", "{}", words.language);
    }
}

#[test]
fn a_closed_descriptor_is_there_again_in_the_next_cell() {
    for words in ALL {
        let mut worker = Worker::start(words.language);
        worker.run(words.close);
        assert_eq!(worker.run(words.unicode).stdout(), "żółw 🐢\n", "{}", words.language);
    }
}

#[test]
fn a_program_that_is_left_behind_does_not_hold_the_cell() {
    for words in ALL {
        let mut worker = Worker::start(words.language);
        assert_eq!(worker.run(words.leave_behind).stdout(), "left\n", "{}", words.language);
        assert_eq!(worker.run(words.unicode).stdout(), "żółw 🐢\n", "{}", words.language);
    }
}

#[test]
fn variables_are_the_cells_and_the_folder_stays() {
    let home = std::env::var_os("HOME").unwrap().into_string().unwrap();
    for words in ALL {
        let mut worker = Worker::start(words.language);
        let request = CellRequest {
            code: words.show_variable.to_owned(),
            env_vars: BTreeMap::from([
                ("CELL_VARIABLE".to_owned(), "a='b' \"c\"\n$d".to_owned()),
                ("HOME".to_owned(), "/elsewhere".to_owned()),
            ]),
            cwd: Some("/usr".to_owned()),
        };
        let cell = worker.run_request(&request);
        let expected = if words.language == Language::Bash { "a='b' \"c\" $d /elsewhere\n" } else { "a='b' \"c\"\n$d /elsewhere\n" };
        assert_eq!(cell.stdout(), expected, "{}", words.language);
        assert_eq!(worker.run(words.show_variable).stdout(), format!("None {home}\n"), "{}", words.language);
        assert_eq!(worker.run(words.where_it_is).stdout(), "/usr\n", "{}", words.language);
        let nowhere = CellRequest { code: words.set.to_owned(), cwd: Some("/no/such/folder".to_owned()), ..CellRequest::default() };
        assert!(worker.run_request(&nowhere).is_error(), "{}", words.language);
        assert!(worker.run(words.show).stdout() != "42\n", "{}: a cell ran in the wrong folder", words.language);
    }
}

#[test]
fn a_syntax_error_is_an_error_and_no_more() {
    for words in ALL {
        let mut worker = Worker::start(words.language);
        assert!(worker.run(words.syntax).is_error(), "{}", words.language);
        assert_eq!(worker.run(words.unicode).stdout(), "żółw 🐢\n", "{}", words.language);
    }
}

#[test]
fn an_interrupt_ends_the_cell_and_keeps_the_state() {
    for words in ALL {
        let mut worker = Worker::start(words.language);
        worker.run(words.set);
        for code in [words.wait, words.spin] {
            let cell = worker.interrupt(code, "ready");
            assert!(cell.is_error(), "{}: {cell:?}", words.language);
            assert_eq!(cell.stdout(), "ready\n", "{}", words.language);
        }
        assert_eq!(worker.run(words.show).stdout(), "42\n", "{}", words.language);
    }
}

#[test]
fn output_comes_while_the_cell_runs() {
    for words in ALL {
        let mut worker = Worker::start(words.language);
        worker.begin(&CellRequest { code: words.wait.to_owned(), ..CellRequest::default() });
        let mut events = Vec::new();
        while !Cell::of(&events).stdout().contains("ready") {
            events.extend(worker.events());
        }
        assert!(worker.context.is_running());
        assert!(!events.contains(&CellEvent::Ended), "{}", words.language);
    }
}
