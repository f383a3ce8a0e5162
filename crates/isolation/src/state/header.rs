//! The tar of a state: ustar headers, with PAX records for what does not fit in them (POSIX.1-2017, pax). Any tar reads it; we read our own alone.
//!
//! INVARIANT (bounded): what is read of a header is at most [`MOST_RECORDS`] bytes long, whatever the header says.

use std::collections::BTreeMap;
use std::io::{self, Read};

use super::error::{StateError, copying};
use super::{TMP, WORKSPACE};

pub(super) const BLOCK: usize = 512;
/// Bytes of the PAX records of one entry.
const MOST_RECORDS: usize = 1 << 20;
/// Bytes of a path beneath its tree, and of one name.
pub(super) const MOST_PATH: usize = 4000;
const MOST_NAME: usize = 255;
/// Two empty blocks end a tar.
pub(super) const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];
/// The agent's id as it stands in a tar; what is not the agent's is root's.
const AGENT: u64 = crate::identity::AGENT as u64;
/// How words beside a file stand in a PAX record.
const WORDS: &str = "SCHILY.xattr.user.e2b.";

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Folder,
    Link,
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// From the name of its tree on.
    pub(super) path: Vec<u8>,
    pub(super) kind: Kind,
    /// Permission bits.
    pub(super) mode: u32,
    pub(super) is_agents: bool,
    /// Seconds and nanoseconds since 1970.
    pub(super) modified: (i64, u32),
    /// Of a file's content.
    pub(super) bytes: u64,
    /// What a link says.
    pub(super) target: Vec<u8>,
    /// What was laid down beside a file.
    pub(super) words: BTreeMap<String, String>,
}

/// The headers of an entry, which its content follows.
pub(super) fn write(entry: &Entry) -> Vec<u8> {
    let records = records(entry);
    let mut blocks = Vec::new();
    if !records.is_empty() {
        blocks.extend(block(b"pax", b'x', 0o644, records.len() as u64, entry, b""));
        blocks.extend(&records);
        blocks.resize(blocks.len().next_multiple_of(BLOCK), 0);
    }
    let kind = match entry.kind {
        Kind::File => b'0',
        Kind::Folder => b'5',
        Kind::Link => b'2',
    };
    blocks.extend(block(&entry.path, kind, entry.mode, entry.bytes, entry, &entry.target));
    blocks
}

fn block(path: &[u8], kind: u8, mode: u32, bytes: u64, entry: &Entry, target: &[u8]) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let owner = if entry.is_agents { AGENT } else { 0 };
    put(&mut block[..100], path);
    put_octal(&mut block[100..108], mode.into());
    put_octal(&mut block[108..116], owner);
    put_octal(&mut block[116..124], owner);
    put_octal(&mut block[124..136], bytes);
    put_octal(&mut block[136..148], u64::try_from(entry.modified.0).unwrap_or(0));
    block[156] = kind;
    put(&mut block[157..257], target);
    block[257..265].copy_from_slice(b"ustar\x0000");
    let sum = checksum(&block);
    put_octal(&mut block[148..155], sum);
    block[155] = b' ';
    block
}

/// As much as fits: the PAX record has the whole.
fn put(field: &mut [u8], text: &[u8]) {
    let fits = text.len().min(field.len());
    field[..fits].copy_from_slice(&text[..fits]);
}

/// Digits and a NUL; a number that does not fit stands as zero, and in a PAX record.
fn put_octal(field: &mut [u8], number: u64) {
    let digits = field.len() - 1;
    let text = format!("{number:0digits$o}");
    put(field, if text.len() > digits { &[] } else { text.as_bytes() });
}

/// The sum of all bytes, where those of the sum itself count as spaces.
fn checksum(block: &[u8; BLOCK]) -> u64 {
    block.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u64::from(*byte) }).sum()
}

const MOST_OCTAL: u64 = (1 << 33) - 1;

fn records(entry: &Entry) -> Vec<u8> {
    let mut records = Vec::new();
    let (seconds, nanoseconds) = entry.modified;
    if [&entry.path, &entry.target].iter().any(|text| std::str::from_utf8(text).is_err()) {
        record(&mut records, "hdrcharset", b"BINARY");
    }
    if entry.path.len() > 100 || !entry.path.is_ascii() {
        record(&mut records, "path", &entry.path);
    }
    if entry.target.len() > 100 || !entry.target.is_ascii() {
        record(&mut records, "linkpath", &entry.target);
    }
    if entry.bytes > MOST_OCTAL {
        record(&mut records, "size", entry.bytes.to_string().as_bytes());
    }
    match u64::try_from(seconds) {
        Ok(seconds) if seconds <= MOST_OCTAL && nanoseconds == 0 => {}
        Ok(seconds) => record(&mut records, "mtime", format!("{seconds}.{nanoseconds:09}").as_bytes()),
        Err(_) => record(&mut records, "mtime", seconds.to_string().as_bytes()),
    }
    for (name, value) in &entry.words {
        record(&mut records, &format!("{WORDS}{name}"), value.as_bytes());
    }
    records
}

/// `LENGTH KEY=VALUE` and a line feed; the length counts itself.
fn record(records: &mut Vec<u8>, key: &str, value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    records.extend(format!("{length} {key}=").bytes().chain(value.iter().copied()).chain([b'\n']));
}

/// The next entry; `None` at the end. Its content is to be read next, and then [`skip_padding`].
pub(super) fn read(from: &mut dyn Read) -> Result<Option<Entry>, StateError> {
    let mut block = read_block(from)?;
    let mut records = BTreeMap::new();
    if block[156] == b'x' {
        records = read_records(from, number(&block[124..136])?)?;
        block = read_block(from)?;
    }
    if block == [0; BLOCK] {
        return match (records.is_empty(), read_block(from)? == [0; BLOCK]) {
            (true, true) => Ok(None),
            _ => Err(StateError::damaged("it ends in the middle of an entry")),
        };
    }
    entry(&block, records).map(Some)
}

fn read_block(from: &mut dyn Read) -> Result<[u8; BLOCK], StateError> {
    let mut block = [0; BLOCK];
    read_exactly(from, &mut block)?;
    match block == [0; BLOCK] || (checksum(&block) == number(&block[148..156])? && &block[257..265] == b"ustar\x0000") {
        true => Ok(block),
        false => Err(StateError::damaged("a header does not have the sum that it says")),
    }
}

/// Fills a buffer; a tar that is cut short is damaged.
pub(super) fn read_exactly(from: &mut dyn Read, buffer: &mut [u8]) -> Result<(), StateError> {
    from.read_exact(buffer).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => StateError::damaged("it is cut short"),
        _ => copying("read")(error),
    })
}

/// What fills the last block of a content.
pub(super) fn skip_padding(from: &mut dyn Read, bytes: u64) -> Result<(), StateError> {
    let mut padding = [0; BLOCK];
    read_exactly(from, &mut padding[..padding_of(bytes)])
}

pub(super) fn padding_of(bytes: u64) -> usize {
    (BLOCK - (bytes % BLOCK as u64) as usize) % BLOCK
}

fn read_records(from: &mut dyn Read, bytes: u64) -> Result<BTreeMap<String, Vec<u8>>, StateError> {
    let length = usize::try_from(bytes).ok().filter(|length| *length <= MOST_RECORDS);
    let length = length.ok_or_else(|| StateError::damaged(format!("{bytes} bytes of records stand before one entry")))?;
    let mut text = vec![0; length];
    read_exactly(from, &mut text)?;
    skip_padding(from, bytes)?;
    let mut records = BTreeMap::new();
    let mut rest = text.as_slice();
    while !rest.is_empty() {
        let (key, value, after) = split_record(rest).ok_or_else(|| StateError::damaged("a record before an entry does not read"))?;
        records.insert(key, value);
        rest = after;
    }
    Ok(records)
}

fn split_record(text: &[u8]) -> Option<(String, Vec<u8>, &[u8])> {
    let space = text.iter().take(8).position(|byte| *byte == b' ')?;
    let length: usize = std::str::from_utf8(&text[..space]).ok()?.parse().ok()?;
    let body = text.get(space + 1..length)?.strip_suffix(b"\n")?;
    let equals = body.iter().position(|byte| *byte == b'=')?;
    Some((String::from_utf8(body[..equals].to_vec()).ok()?, body[equals + 1..].to_vec(), &text[length..]))
}

fn entry(block: &[u8; BLOCK], mut records: BTreeMap<String, Vec<u8>>) -> Result<Entry, StateError> {
    let kind = match block[156] {
        b'0' => Kind::File,
        b'5' => Kind::Folder,
        b'2' => Kind::Link,
        other => return Err(StateError::damaged(format!("an entry is of the unknown kind {other}"))),
    };
    let text = |field: &[u8]| field.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
    let bytes = match records.remove("size") {
        Some(size) => decimal(&size)?,
        None => number(&block[124..136])?,
    };
    let entry = Entry {
        path: records.remove("path").unwrap_or_else(|| text(&block[..100])),
        kind,
        mode: number(&block[100..108])? as u32 & 0o7777,
        is_agents: number(&block[108..116])? == AGENT,
        modified: match records.remove("mtime") {
            Some(time) => moment(&time)?,
            None => (number(&block[136..148])? as i64, 0),
        },
        bytes: if kind == Kind::File { bytes } else { 0 },
        target: records.remove("linkpath").unwrap_or_else(|| text(&block[157..257])),
        words: words(records),
    };
    check_path(&entry.path)?;
    Ok(entry)
}

fn words(records: BTreeMap<String, Vec<u8>>) -> BTreeMap<String, String> {
    let word = |(key, value): (String, Vec<u8>)| Some((key.strip_prefix(WORDS)?.to_owned(), String::from_utf8(value).ok()?));
    records.into_iter().filter_map(word).collect()
}

/// A path of one of the two trees, none of whose parts leads anywhere else.
fn check_path(path: &[u8]) -> Result<(), StateError> {
    let mut parts = path.split(|byte| *byte == b'/');
    let is_tree = parts.next().is_some_and(|tree| tree == WORKSPACE.as_bytes() || tree == TMP.as_bytes());
    let is_name = |part: &[u8]| !matches!(part, b"" | b"." | b"..") && part.len() <= MOST_NAME && !part.contains(&0);
    match is_tree && path.len() <= MOST_PATH + WORKSPACE.len() + 1 && parts.all(is_name) {
        true => Ok(()),
        false => Err(StateError::damaged(format!("`{}` is no path of a state", super::error::escaped(path)))),
    }
}

/// A number in octal digits, which a NUL or a space ends.
fn number(field: &[u8]) -> Result<u64, StateError> {
    let digits = field.split(|byte| matches!(byte, 0 | b' ')).next().unwrap_or_default();
    let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match text {
        Some("") => Ok(0),
        Some(text) => u64::from_str_radix(text, 8).map_err(|_| StateError::damaged("a number in a header does not read")),
        None => Err(StateError::damaged("a number in a header does not read")),
    }
}

fn decimal<T: std::str::FromStr>(text: &[u8]) -> Result<T, StateError> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| StateError::damaged("a number in a record does not read"))
}

/// Seconds, and a fraction of nine digits where there is one.
fn moment(text: &[u8]) -> Result<(i64, u32), StateError> {
    match text.iter().position(|byte| *byte == b'.') {
        Some(dot) if text.len() == dot + 10 => Ok((decimal(&text[..dot])?, decimal(&text[dot + 1..])?)),
        Some(_) => Err(StateError::damaged("a time in a record does not read")),
        None => Ok((decimal(text)?, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &[u8]) -> Entry {
        Entry {
            path: path.to_vec(),
            kind: Kind::File,
            mode: 0o640,
            is_agents: true,
            modified: (1_700_000_000, 0),
            bytes: 0,
            target: Vec::new(),
            words: BTreeMap::new(),
        }
    }

    fn again(entry: &Entry) -> Entry {
        let bytes = [write(entry), END.to_vec()].concat();
        let mut from = bytes.as_slice();
        let read_entry = read(&mut from).unwrap().unwrap();
        assert!(read(&mut from).unwrap().is_none() && from.is_empty());
        read_entry
    }

    #[test]
    fn what_is_written_is_read_again() {
        let words = BTreeMap::from([("author".to_owned(), "a=b\nc".to_owned()), ("empty".to_owned(), String::new())]);
        let long = [b"workspace/".as_slice(), &[b'x'; 200], b"/", &[b'y'; 255]].concat();
        for path in
            [b"workspace/a".as_slice(), b"tmp/new\nline", b"tmp/\xff\xfe", "workspace/é".as_bytes(), &long, b"workspace", b"tmp/a=b"]
        {
            for modified in [(0, 0), (1_700_000_000, 7), (-5, 0), (1 << 40, 1)] {
                let entry = Entry { modified, words: words.clone(), bytes: 1 << 40, ..file(path) };
                assert_eq!(again(&entry), entry);
            }
            let link = Entry { kind: Kind::Link, target: long.clone(), is_agents: false, ..file(path) };
            assert_eq!(again(&link), link);
            let folder = Entry { kind: Kind::Folder, mode: 0o1777, ..file(path) };
            assert_eq!(again(&folder), folder);
        }
    }

    #[test]
    fn a_record_counts_its_own_length() {
        for length in 0..1200 {
            let mut records = Vec::new();
            record(&mut records, "path", &vec![b'x'; length]);
            let (key, value, rest) = split_record(&records).unwrap();
            assert_eq!((key.as_str(), value.len(), rest), ("path", length, &b""[..]));
        }
    }

    #[test]
    fn every_changed_byte_of_a_header_is_found_or_means_nothing_else() {
        let whole = [write(&file(b"workspace/name")), END.to_vec()].concat();
        for at in 0..BLOCK {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            let found = read(&mut changed.as_slice());
            assert!(found.is_err() || found.unwrap() == Some(file(b"workspace/name")), "byte {at}");
        }
        for cut in [0, 1, 511, 513, 1023] {
            assert!(
                matches!(read(&mut &whole[..cut]).and_then(|_| read(&mut &whole[BLOCK..cut.max(BLOCK)])), Err(StateError::Damaged { .. })),
                "{cut}"
            );
        }
    }

    #[test]
    fn a_path_leads_nowhere_else() {
        for path in
            ["", "/", "etc/passwd", "workspace/../x", "workspace//x", "workspace/.", "/workspace/x", "workspace/", "workspacex/y", ".."]
        {
            let damaged = read(&mut write(&file(path.as_bytes())).as_slice());
            assert!(matches!(damaged, Err(StateError::Damaged { .. })), "{path}: {damaged:?}");
        }
    }

    #[test]
    fn records_are_bounded() {
        let mut giant = block(b"pax", b'x', 0o644, u64::from(u32::MAX), &file(b"x"), b"").to_vec();
        giant.extend([b'1'; 4096]);
        assert!(matches!(read(&mut giant.as_slice()), Err(StateError::Damaged { cause }) if cause.contains("4294967295 bytes")));
    }
}
