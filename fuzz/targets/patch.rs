//! A patch as a stranger writes it, on a small tree: it is refused, or makes files with one of two modes where no git looks.
#![no_main]

use std::io;

use libfuzzer_sys::fuzz_target;
use ringfence_patch::{Base, BaseEntry, Edit, Limits, Mode, Patch, is_git, is_modules, render, review, secrets};

const LIMITS: Limits = Limits { patch_bytes: 64 << 10, files: 64, file_bytes: 64 << 10, result_bytes: 256 << 10 };

fuzz_target!(|bytes: &[u8]| {
    let patch = match Patch::parse(bytes, &LIMITS) {
        Ok(patch) => patch,
        Err(error) => {
            let lines = bytes.split(|byte| *byte == b'\n').count();
            assert!((1..=lines).contains(&error.line), "{error}");
            assert!(error.to_string().chars().all(|c| !c.is_control()), "{error}");
            return;
        }
    };
    match patch.apply(&Small) {
        Ok(edits) => holds(&edits),
        Err(error) => assert!(error.to_string().chars().all(|c| !c.is_control()), "{error}"),
    }
});

fn holds(edits: &[Edit]) {
    for edit in edits {
        assert!(!edit.path.split(|byte| *byte == b'/' || *byte == b'\\').any(is_git) && !is_modules(&edit.path));
        assert!(!edit.path.starts_with(b"/") && edit.path.split(|byte| *byte == b'/').all(|part| !matches!(part, b"" | b"." | b"..")));
        assert!(!edit.path.starts_with(b"link/") && !edit.path.starts_with(b"module/") && edit.path != b"odd");
        assert_eq!(edit.old.is_some(), matches!(Small.entry(&edit.path), Ok(Some(BaseEntry::File { .. }))));
        assert_ne!(edit.old, edit.new);
        assert!(
            edit.new.as_ref().is_none_or(|new| matches!(new.mode, Mode::Plain | Mode::Executable) && new.bytes.len() <= LIMITS.file_bytes)
        );
    }
    let text = render(edits);
    assert!(text.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
    assert_eq!(review(edits).files.len(), edits.len());
    secrets(edits, &[b"secret"]);
}

struct Small;

impl Base for Small {
    fn entry(&self, path: &[u8]) -> io::Result<Option<BaseEntry>> {
        let file = |mode, text: &str| Some(BaseEntry::File { mode, bytes: text.as_bytes().to_vec() });
        Ok(match path {
            b"x" => file(0o100644, "a\nb\nc\nd\ne\nf\ng\nh\n"),
            b"crlf" => file(0o100644, "a\r\nb\r\nc\r\n"),
            b"end" => file(0o100644, "a\nb"),
            b"empty" => file(0o100644, ""),
            b"bin" => file(0o100755, "a\0b\0c\0"),
            b"dir/y" => file(0o100755, "y\ny\ny\ny\n"),
            b"odd" => file(0o100664, "odd\n"),
            b"dir" => Some(BaseEntry::Folder),
            b"link" => Some(BaseEntry::Link),
            b"module" => Some(BaseEntry::Gitlink),
            _ => None,
        })
    }

    fn names(&self, folder: &[u8]) -> io::Result<Option<Vec<Vec<u8>>>> {
        Ok((folder == b"dir").then(|| vec![b"y".to_vec()]))
    }
}
