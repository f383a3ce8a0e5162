//! The files of a sandbox from outside.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use ringfence_isolation::{FileChange, FileError, FileKind, Files, OsText, Sandbox};

use crate::{DONE, run, text, with_sandbox};

fn write(files: &Files, path: &str, content: &[u8]) -> Result<(), FileError> {
    let (mut file, _) = files.write(&path.into(), None)?;
    file.write_all(content).unwrap();
    Ok(())
}

fn read(files: &Files, path: &str) -> Result<String, FileError> {
    let mut text = String::new();
    files.read(&path.into())?.0.read_to_string(&mut text).unwrap();
    Ok(text)
}

fn inside(sandbox: &mut Sandbox<'_>, script: &str) -> String {
    let outcome = run(sandbox, script);
    assert_eq!(outcome.end, DONE, "{script}: {:?}", text(&outcome));
    text(&outcome).0
}

pub(crate) fn what_is_written_outside_is_the_agents_inside() {
    with_sandbox(|sandbox| {
        let files = sandbox.files().unwrap();
        write(&files, "deep/er/note.txt", b"from outside").unwrap();
        write(&files, "/tmp/other", b"x").unwrap();
        let look = "cat deep/er/note.txt; stat -c ' %U %a' deep/er/note.txt deep; echo more >> deep/er/note.txt; rm /tmp/other";
        assert_eq!(inside(sandbox, look), "from outside agent 644\n agent 755\n");
        assert_eq!(read(&files, "/workspace/deep/er/note.txt").unwrap(), "from outsidemore\n");
        let words = BTreeMap::from([("author".to_owned(), "me".to_owned())]);
        files.write(&"note".into(), Some(&words)).unwrap();
        assert_eq!(files.stat(&"note".into()).unwrap().metadata, words);
        files.write(&"note".into(), Some(&BTreeMap::new())).unwrap();
        assert_eq!(files.stat(&"note".into()).unwrap().metadata, BTreeMap::new());
        // What the program may not do, nobody does for it.
        inside(sandbox, "mkdir closed; echo secret > closed/file; chmod 000 closed; touch fixed; chmod 400 fixed");
        assert!(matches!(write(&files, "fixed", b"x"), Err(FileError::Denied { .. })));
        assert!(matches!(read(&files, "closed/file"), Err(FileError::Denied { .. })));
        assert!(matches!(write(&files, "/usr/bin/new", b"x"), Err(FileError::Denied { .. })));
        assert!(matches!(write(&files, "/etc/passwd", b"x"), Err(FileError::Denied { .. })));
    });
}

/// The kernel's name for its boot is one of the sandbox's own, the same for everybody who reads it, and nobody's to change.
pub(crate) fn each_sandbox_has_a_boot_of_its_own() {
    const BOOT: &str = "/proc/sys/kernel/random/boot_id";
    let mut seen = vec![std::fs::read_to_string(BOOT).unwrap()];
    for _ in 0..2 {
        with_sandbox(|sandbox| {
            let files = sandbox.files().unwrap();
            let boot = inside(sandbox, &format!("cat {BOOT}"));
            assert_eq!((boot.len(), boot.trim().split('-').map(str::len).collect::<Vec<_>>()), (37, vec![8, 4, 4, 4, 12]), "{boot}");
            assert_eq!(inside(sandbox, &format!("chmod 666 {BOOT} 2>&- || true; (echo x > {BOOT}) 2>&- || true; cat {BOOT}")), boot);
            assert!(matches!(write(&files, BOOT, b"x"), Err(FileError::Denied { .. })));
            assert_eq!(read(&files, BOOT).unwrap(), boot);
            seen.push(boot);
        });
    }
    assert!(seen[0] != seen[1] && seen[1] != seen[2] && seen[0] != seen[2], "{seen:?}");
}

/// Links, pipes, devices and the kernel's files lead nowhere.
pub(crate) fn nothing_of_the_host_can_be_reached() {
    with_sandbox(|sandbox| {
        let files = sandbox.files().unwrap();
        let bait = tempfile::NamedTempFile::new().unwrap();
        let host = bait.path().to_str().unwrap();
        inside(
            sandbox,
            &format!(
                "ln -s {host} out; ln -s / root; ln -s /proc/self/root{host} magic; ln -s ../../../../..{host} up; mkfifo pipe; \
                 ln -s /dev/zero zero; ln -s /proc/1/mem mem; ln -s gone dangling; ln -s / above"
            ),
        );
        for path in
            ["out", "magic", "up", &format!("root{host}"), &format!("/proc/1/root{host}"), &format!("../../../..{host}"), "dangling"]
        {
            assert!(read(&files, path).is_err(), "{path}");
        }
        for path in ["pipe", "zero", "/dev/null", "/proc/1/status", "/proc/meminfo", "/dev/pts/ptmx"] {
            assert!(
                matches!(read(&files, path), Err(FileError::Special { .. } | FileError::Missing { .. })),
                "{path}: {:?}",
                read(&files, path)
            );
            let written = write(&files, path, b"x");
            assert!(matches!(written, Err(FileError::Special { .. } | FileError::Missing { .. })), "{path}: {written:?}");
        }
        assert!(matches!(files.list(&"/proc".into(), 1), Err(FileError::Special { .. })));
        assert!(write(&files, "dangling", b"x").is_err(), "a link is not written through to what is not there");
        // `/` is the sandbox's, whoever names it.
        assert!(read(&files, "above/etc/passwd").unwrap().contains("agent"));
        assert_eq!(read(&files, "/../../../etc/passwd").unwrap(), read(&files, "/etc/passwd").unwrap());
        for path in ["", "/", "..", "a/..", "a\0b"] {
            assert!(write(&files, path, b"x").is_err(), "{path:?}");
            assert!(files.remove(&path.into()).is_err() || path.contains("a/.."), "{path:?}");
        }
        assert_eq!(std::fs::read(host).unwrap(), b"");
    });
}

pub(crate) fn folders_are_made_listed_moved_and_removed() {
    with_sandbox(|sandbox| {
        let files = sandbox.files().unwrap();
        assert_eq!(files.make_folder(&"a/b".into()).unwrap().kind, FileKind::Folder);
        assert!(matches!(files.make_folder(&"a/b".into()), Err(FileError::Exists { is_folder: true, .. })));
        write(&files, "a/b/file", b"12345").unwrap();
        assert!(matches!(files.make_folder(&"a/b/file".into()), Err(FileError::Exists { is_folder: false, .. })));
        inside(sandbox, "ln -s b/file a/link; ln -s nowhere a/broken; ln -s b a/folder");
        let listed = files.list(&"a".into(), 2).unwrap();
        let seen: Vec<(&str, FileKind)> =
            listed.iter().map(|e| (e.path.as_os_str().to_str().unwrap().strip_prefix("/workspace/a/").unwrap(), e.kind)).collect();
        assert_eq!(
            seen,
            [
                ("b", FileKind::Folder),
                ("b/file", FileKind::File),
                ("broken", FileKind::Link),
                ("folder", FileKind::Folder),
                ("link", FileKind::File)
            ]
        );
        let link = files.stat(&"a/link".into()).unwrap();
        assert_eq!((link.target, link.uid, link.gid), (Some(OsText::from("/workspace/a/b/file")), 1000, 1000));
        assert_eq!(files.list(&"a/folder".into(), 1).unwrap().len(), 1, "a link that is listed is followed");
        let file = files.rename(&"a/b/file".into(), &"new/place".into()).unwrap();
        assert_eq!((file.bytes, file.mode & 0o777, file.path), (5, 0o644, OsText::from("/workspace/new/place")));
        assert!(matches!(files.rename(&"a/none".into(), &"b".into()), Err(FileError::Missing { .. })));
        assert!(matches!(files.list(&"new/place".into(), 1), Err(FileError::NotFolder { .. })));
        assert!(matches!(read(&files, "a"), Err(FileError::IsFolder { .. })));
        files.remove(&"a/folder".into()).unwrap();
        assert!(files.stat(&"a/b".into()).is_ok(), "a link goes, not what it leads to");
        files.remove(&"a".into()).unwrap();
        files.remove(&"a".into()).unwrap();
        assert!(matches!(files.stat(&"a".into()), Err(FileError::Missing { .. })));
        assert!(files.remove(&"/usr/bin".into()).is_err());
    });
}

pub(crate) fn a_folder_is_watched() {
    with_sandbox(|sandbox| {
        let files = sandbox.files().unwrap();
        files.make_folder(&"seen/old".into()).unwrap();
        let mut flat = files.watch(&"seen".into(), false).unwrap();
        let mut deep = files.watch(&"seen".into(), true).unwrap();
        inside(sandbox, "cd seen; echo 1 > a; chmod 600 a; mv a b; rm b; echo 2 > old/below; mkdir fresh");
        let told = |events: Vec<ringfence_isolation::FileEvent>| -> Vec<(String, FileChange)> {
            events.into_iter().map(|e| (e.name.escaped(), e.change)).collect()
        };
        let word = |name: &str, change| (name.to_owned(), change);
        let own = vec![
            word("a", FileChange::Create),
            word("a", FileChange::Write),
            word("a", FileChange::Chmod),
            word("a", FileChange::Rename),
            word("b", FileChange::Create),
            word("b", FileChange::Remove),
        ];
        assert_eq!(told(files.changes(&mut flat).unwrap()), [own.clone(), vec![word("fresh", FileChange::Create)]].concat());
        let below = vec![word("old/below", FileChange::Create), word("old/below", FileChange::Write), word("fresh", FileChange::Create)];
        assert_eq!(told(files.changes(&mut deep).unwrap()), [own, below].concat());
        inside(sandbox, "echo 3 > seen/fresh/new");
        assert_eq!(told(files.changes(&mut deep).unwrap())[0], word("fresh/new", FileChange::Create));
        assert!(files.changes(&mut flat).unwrap().is_empty());
    });
}
