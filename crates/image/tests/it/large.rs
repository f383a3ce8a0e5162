//! Archives that are larger than they look, or look larger than they are.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

use ringfence_image::{Caps, ImageError};

use crate::support::{Layout, Place, Tar, gzip, header};

/// One part compressed, and put down again and again: the file stays small, and nobody holds what it stands for.
fn repeated(place: &Place, part: &[u8], times: usize) -> std::path::PathBuf {
    let (path, member) = (place.path("large.tar.gz"), gzip(part));
    let mut file = std::io::BufWriter::new(fs::File::create(&path).unwrap());
    (0..times).for_each(|_| file.write_all(&member).unwrap());
    file.write_all(&gzip(&[0; 1024])).unwrap();
    file.flush().unwrap();
    path
}

fn too_much(error: ImageError) -> (&'static str, u64) {
    match error {
        ImageError::TooMuch { what, most } => (what, most),
        other => panic!("{other}"),
    }
}

#[test]
fn ten_million_entries_are_refused_before_one_is_written() {
    let place = Place::new();
    let thousands = (0..10_000).fold(Tar::default(), |tar, at| tar.file(&format!("f{at}"), "")).cut();
    let archive = repeated(&place, &thousands, 1000);
    let began = Instant::now();
    assert_eq!(too_much(place.import(&archive, "it").unwrap_err()), ("entries", 1_000_000));
    println!("refused {} bytes in {:?}", fs::metadata(&archive).unwrap().len(), began.elapsed());
    place.assert_nothing_kept();
}

#[test]
fn folders_that_are_only_implied_count_as_entries() {
    let place = Place::new();
    let tar = (0..30).fold(Tar::default(), |tar, at| tar.file(&format!("{at}/a/b/c/d/e/f"), ""));
    let caps = Caps { entries: 100, ..Caps::default() };
    let error = place.images.import(&place.write("deep.tar", tar.bytes()), None, caps, &mut |_, _| {}).unwrap_err();
    assert_eq!(too_much(error), ("entries", 100));
    place.assert_nothing_kept();
}

#[test]
fn what_grows_over_the_cap_is_refused_while_it_is_read() {
    let place = Place::new();
    let caps = Caps { bytes: 64 << 20, ..Caps::default() };
    let import = |source: &std::path::Path| too_much(place.images.import(source, None, caps, &mut |_, _| {}).unwrap_err());
    // As one file, as many files, as bytes that belong to none, and as bytes after the end.
    let head = header(b'0', "zeros", "", 1 << 30);
    let file = [head.as_bytes().as_slice(), &[0; 64 << 10]].concat();
    assert_eq!(import(&place.write("file.tar.gz", gzip(&file))), ("bytes", 64 << 20));
    let (many, zeros) = (Tar::default().file("a", &"\0".repeat(1 << 20)).cut(), vec![0; 1 << 20]);
    assert_eq!(import(&repeated(&place, &many, 100)), ("bytes", 64 << 20));
    assert_eq!(import(&repeated(&place, &Tar::default().entry(b'6', "p", "", &zeros).cut(), 100)), ("bytes", 64 << 20));
    assert_eq!(import(&repeated(&place, &zeros, 100)), ("bytes", 64 << 20));
    place.assert_nothing_kept();
}

#[test]
fn the_caps_hold_for_all_layers_together() {
    let place = Place::new();
    let layer = |name: &str| Tar::default().file(name, &"x".repeat(40 << 10)).bytes();
    let layers: Vec<_> = ["a", "b"].into_iter().map(|name| (layer(name), layer(name))).collect();
    let layout = Layout::new(place.path("layout"), &layers);
    let import = |caps| place.images.import(&layout.folder, None, caps, &mut |_, _| {}).map_err(too_much);
    assert_eq!(import(Caps { bytes: 64 << 10, ..Caps::default() }), Err(("bytes", 64 << 10)));
    assert_eq!(import(Caps { entries: 1, ..Caps::default() }), Err(("entries", 1)));
    assert_eq!(import(Caps { layers: 1, ..Caps::default() }), Err(("layers", 1)));
    place.assert_nothing_kept();
    assert!(import(Caps::default()).is_ok());
}

#[test]
fn holes_take_no_room_however_they_are_written() {
    let place = Place::new();
    let room = |path: &std::path::Path| fs::metadata(path).map(|meta| (meta.len(), meta.blocks() * 512 < 1 << 20)).unwrap();
    // As zeros.
    let head = header(b'0', "zeros", "", 1 << 30).as_bytes().to_vec();
    let (path, member) = (place.path("zeros.tar.gz"), gzip(&vec![0; 1 << 20]));
    fs::write(&path, [gzip(&head), member.repeat(1024), gzip(&[0; 1024])].concat()).unwrap();
    let facts = place.import(&path, "zeros").unwrap();
    assert_eq!((facts.bytes, room(&place.root(&facts).join("zeros"))), (1 << 30, (1 << 30, true)));
    // As a list of what is no hole.
    let facts = place.import(&place.write("sparse.tar", sparse(1 << 30, 1 << 29)), "sparse").unwrap();
    let file = place.root(&facts).join("sparse");
    assert_eq!((facts.bytes, room(&file)), (1 << 30, (1 << 30, true)));
    let mut text = [0; 4];
    std::os::unix::fs::FileExt::read_exact_at(&fs::File::open(file).unwrap(), &mut text, 1 << 29).unwrap();
    assert_eq!(&text, b"text");
    // And they count.
    let caps = Caps { bytes: 1 << 29, ..Caps::default() };
    let error = place.images.import(&place.write("sparse.tar", sparse(1 << 30, 0)), None, caps, &mut |_, _| {}).unwrap_err();
    assert_eq!(too_much(error), ("bytes", 1 << 29));
}

#[test]
fn a_list_of_holes_that_does_not_fit_is_refused() {
    let place = Place::new();
    for (whole, offset) in [(2, 0), (1 << 30, 1 << 31), (1 << 30, u64::MAX >> 1)] {
        let error = place.import(&place.write("sparse.tar", sparse(whole, offset)), "it").unwrap_err().to_string();
        assert!(error.contains("do not fit together"), "{error}");
    }
    place.assert_nothing_kept();
}

/// A file with holes in the old form of GNU tar, with one part.
fn sparse(whole: u64, offset: u64) -> Vec<u8> {
    let mut head = header(b'S', "sparse", "", 4);
    let gnu = head.as_gnu_mut().unwrap();
    gnu.set_real_size(whole);
    gnu.sparse[0].set_offset(offset);
    gnu.sparse[0].set_length(4);
    head.set_cksum();
    let mut data = b"text".to_vec();
    data.resize(512 + 1024, 0);
    [head.as_bytes().as_slice(), &data].concat()
}
