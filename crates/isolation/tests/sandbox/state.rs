//! State: files that go from one sandbox to another.

use std::collections::BTreeMap;

use ringfence_isolation::{Sandbox, Saved, StateError};

use crate::{DONE, run, with_sandbox};

const MOST: u64 = 64 << 20;

fn inside(sandbox: &mut Sandbox<'_>, script: &str) -> String {
    let outcome = run(sandbox, script);
    assert_eq!(outcome.end, DONE, "{script}: {}", String::from_utf8_lossy(&outcome.stderr.kept));
    String::from_utf8_lossy(&outcome.stdout.kept).into_owned()
}

fn save(sandbox: &Sandbox<'_>) -> (Vec<u8>, Saved) {
    let mut tar = Vec::new();
    let saved = sandbox.trees().unwrap().save(&mut tar, MOST, &mut |_| Ok(())).unwrap();
    assert_eq!(saved.bytes, tar.len() as u64);
    (tar, saved)
}

fn refused(sandbox: &Sandbox<'_>) -> StateError {
    sandbox.trees().unwrap().save(&mut Vec::new(), MOST, &mut |_| Ok(())).unwrap_err()
}

fn restore(sandbox: &Sandbox<'_>, mut tar: &[u8]) -> Result<(), StateError> {
    sandbox.trees().unwrap().restore(&mut tar, &mut |_| Ok(())).map(drop)
}

/// What a program is told of each file.
const LOOK: &str = "cd /; find workspace tmp -printf '%p %y %m %U:%G %T@ %l\\n' | sort";

/// Names that a careless reader mistakes for something else, kinds that cannot be kept, and bits that must not be.
const SHAPES: &str = "mkdir -p deep/er empty; echo text > deep/er/file; ln deep/er/file hard; ln -s /etc/passwd out; ln -s ../../.. up; mkfifo pipe; \
    echo 1 > $'new\\nline'; echo 2 > $'bad\\xff\\xfename'; echo 3 > $(printf 'x%.0s' {1..255}); echo 4 > -rf; echo 5 > 'é'; \
    truncate -s 3M sparse; echo end >> sparse; printf '#!/bin/sh\\n' > tool; chmod 4755 tool; chmod 2770 deep; touch -d 1969-01-01 old; \
    echo closed > closed; chmod 000 closed; mkdir shut; echo x > shut/in; chmod 000 shut; echo t > /tmp/note; echo s > /dev/shm/gone; \
    touch -d @1700000000.123456789 precise";

pub(crate) fn it_goes_from_one_sandbox_to_another() {
    let mut kept = Vec::new();
    with_sandbox(|sandbox| {
        inside(sandbox, SHAPES);
        let words = BTreeMap::from([("author".to_owned(), "me=\n".to_owned())]);
        sandbox.files().unwrap().write(&"said".into(), Some(&words)).unwrap();
        let (tar, saved) = save(sandbox);
        assert_eq!((saved.left_out, saved.changed, saved.without_words), (1, 0, 0));
        assert_eq!(save(sandbox).0, tar, "the same files make the same tar");
        kept = tar;
    });
    with_sandbox(|sandbox| {
        restore(sandbox, &kept).unwrap();
        assert_eq!(save(sandbox).0, kept);
        let files = sandbox.files().unwrap();
        assert_eq!(files.stat(&"said".into()).unwrap().metadata, BTreeMap::from([("author".to_owned(), "me=\n".to_owned())]));
        let seen = inside(sandbox, LOOK);
        for line in [
            "workspace/deep d 770 1000:1000",
            "workspace/tool f 755 1000:1000",
            "workspace/closed f 0 1000:1000",
            "workspace/shut d 0 1000:1000",
            "workspace/precise f 644 1000:1000 1700000000.1234567890",
            "workspace/old f 644 1000:1000 -315",
            "tmp d 1777 1000:1000",
            "tmp/note f 644 1000:1000",
        ] {
            assert!(seen.contains(line), "{line}: {seen}");
        }
        assert!(!seen.contains("gone") && !seen.contains("pipe"), "{seen}");
        let told = inside(
            sandbox,
            "readlink out up; cat hard deep/er/file; chmod 700 shut; cat shut/in; ls | wc -l; cat $'new\\nline' $'bad\\xff\\xfename'",
        );
        assert_eq!(told, "/etc/passwd\n../../..\ntext\ntext\nx\n18\n1\n2\n");
    });
}

/// What remains when every process is dead is the same as what stood.
pub(crate) fn it_is_saved_after_the_end() {
    crate::to_the_end("mkdir a; echo 1 > a/b; echo 2 > /tmp/c", |standing, remains| {
        let mut tar = Vec::new();
        remains.trees().unwrap().save(&mut tar, MOST, &mut |_| Ok(())).unwrap();
        assert_eq!(tar, standing);
    });
}

pub(crate) fn what_a_program_makes_is_bounded() {
    with_sandbox(|sandbox| {
        inside(sandbox, "truncate -s 900M giant");
        assert!(matches!(refused(sandbox), StateError::TooLarge { path, most_bytes: MOST } if path == "workspace/giant"));
        inside(sandbox, "rm giant; for i in {1..30}; do n=$(printf 'd%.0s' {1..200}); mkdir $n; cd $n; done");
        assert!(matches!(refused(sandbox), StateError::TooDeep { most: 4000, .. }));
        inside(sandbox, "rm -r d*; mkdir many; cd many; for ((i = 0; i < 20000; i++)); do echo $i > $i; done");
        let begun = std::time::Instant::now();
        let (tar, saved) = save(sandbox);
        println!("20,000 files: {} bytes saved in {:?}", tar.len(), begun.elapsed());
        assert_eq!(saved.entries, 20_003);
        let stopped = sandbox.trees().unwrap().save(&mut Vec::new(), MOST, &mut |_| Err(std::io::Error::other("enough")));
        assert!(matches!(stopped, Err(StateError::Copy { act: "write", .. })), "{stopped:?}");
        with_sandbox(|other| {
            let begun = std::time::Instant::now();
            restore(other, &tar).unwrap();
            println!("restored in {:?}", begun.elapsed());
            assert_eq!(inside(other, "ls many | wc -l; cat many/19999"), "20000\n19999\n");
            let again = restore(other, &tar).unwrap_err().to_string();
            assert!(again.contains("workspace/many") && again.contains("already exists"), "{again}");
        });
    });
}

/// A tar that is not as it was written is told of, and reaches nothing.
pub(crate) fn a_damaged_one_is_refused() {
    let mut tar = Vec::new();
    with_sandbox(|sandbox| {
        inside(sandbox, "ln -s /tmp a; mkdir b; echo content > b/f; touch -d @1 b/f b a . /tmp");
        tar = save(sandbox).0;
    });
    let damaged = |tar: &[u8], what: &str| {
        with_sandbox(|sandbox| {
            let error = restore(sandbox, tar).unwrap_err();
            assert!(matches!(error, StateError::Damaged { .. }), "{what}: {error}");
            assert_eq!(inside(sandbox, "ls -A /tmp | wc -l"), "0\n", "{what}");
        });
    };
    for cut in [0, 100, 512, tar.len() - 1, tar.len() - 512, tar.len() - 1024] {
        damaged(&tar[..cut], &format!("cut at {cut}"));
    }
    damaged(&[tar.as_slice(), &[0]].concat(), "longer");
    damaged(&renamed(&tar, b"workspace/b/f", b"workspace/a/f"), "through a link");
    damaged(&renamed(&tar, b"workspace/b/f", b"workspace/../f"), "up");
    damaged(&renamed(&tar, b"workspace/b/f", b"/etc/cron.d/f"), "absolute");
    let mut flipped = tar.clone();
    flipped[20] ^= 1;
    damaged(&flipped, "a changed byte");
}

/// The tar with another path in one header, whose sum is right.
fn renamed(tar: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut tar = tar.to_vec();
    let at = tar.chunks(512).position(|block| block.starts_with(from)).unwrap() * 512;
    let header = &mut tar[at..at + 512];
    header[..100].fill(0);
    header[..to.len()].copy_from_slice(to);
    header[148..156].fill(b' ');
    let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    tar
}

/// Restoring has the rights of the agent alone: its file system's limit holds.
pub(crate) fn it_has_the_room_of_the_run() {
    let mut tar = Vec::new();
    with_sandbox(|sandbox| {
        inside(sandbox, "head -c 40M /dev/zero > big");
        tar = save(sandbox).0;
    });
    crate::with_disk(16 << 20, |sandbox| {
        let error = restore(sandbox, &tar).unwrap_err().to_string();
        assert_eq!(error, "no room for `workspace/big`: the sandbox's disk limit is met");
    });
}
