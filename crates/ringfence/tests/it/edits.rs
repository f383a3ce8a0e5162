//! Edits of a real record that nobody thought of: bytes changed, put in and taken out, cuts, swaps, and parts of another run's record played back.
//! Each one must be found. `RINGFENCE_EDITS` says how many.

use std::fs;
use std::path::Path;

use ringfence_evidence::{EVENTS_FILE, PublicKey, STATEMENT_FILE, verify};

use crate::support::{Place, count};

/// Two records of one home and its key.
struct Records {
    key: PublicKey,
    one: [Vec<u8>; 2],
    other: [Vec<u8>; 2],
}

impl Records {
    fn of(place: &Place) -> Self {
        let read = |folder: &Path| [EVENTS_FILE, STATEMENT_FILE].map(|name| fs::read(folder.join(name)).unwrap());
        let run = |text: &str| {
            let (report, _) = place.report(&["--export", "r"], &["bash", "-c", &format!("echo {text} > r")]);
            read(&place.home().join("runs").join(report["run"].as_str().unwrap()))
        };
        let (one, other) = (run("one"), run("other"));
        let key = PublicKey::from_pem(&fs::read_to_string(place.home().join("keys/evidence.pub")).unwrap()).unwrap();
        Self { key, one, other }
    }

    fn is_found(&self, edited: &[Vec<u8>; 2]) -> bool {
        verify(&edited[0], &edited[1], &self.key).is_err()
    }
}

/// Numbers that look random and are the same in every run (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most as u64) as usize
    }
}

#[test]
fn every_one_of_many_random_edits_of_a_byte_is_found() {
    let records = Records::of(&Place::each().remove(0));
    assert!(!records.is_found(&records.one) && !records.is_found(&records.other));
    let (edits, mut numbers) = (count("RINGFENCE_EDITS", 1000), Numbers(0x9E37_79B9_7F4A_7C15));
    for edit in 0..edits {
        let mut edited = records.one.clone();
        let file = numbers.below(2);
        let (at, byte) = (numbers.below(edited[file].len()), numbers.below(256) as u8);
        match numbers.below(4) {
            0 => edited[file].insert(at, byte),
            1 => drop(edited[file].remove(at)),
            _ => edited[file][at] ^= byte.max(1),
        }
        assert!(records.is_found(&edited), "edit {edit}: file {file} byte {at} with {byte}");
    }
    println!("{edits} edits of one byte, {edits} found");
}

#[test]
fn every_cut_swap_and_replay_is_found() {
    let records = Records::of(&Place::each().remove(0));
    let lines = |record: &[Vec<u8>; 2]| record[0].split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (one, other) = (lines(&records.one), lines(&records.other));
    let mut edits: Vec<Vec<Vec<u8>>> = Vec::new();
    for at in 0..one.len() {
        edits.push(one[..at].to_vec());
        edits.push([&one[..at], &one[at + 1..]].concat());
        edits.push([&one[..=at], &one[at..]].concat());
        edits.push([&one[..at], &other[at..=at], &one[at + 1..]].concat());
        edits.push([&one[..at], &other[at..]].concat());
        for with in at + 1..one.len() {
            let mut swapped = one.clone();
            swapped.swap(at, with);
            edits.push(swapped);
        }
    }
    edits.retain(|lines| *lines != one);
    for (number, lines) in edits.iter().enumerate() {
        assert!(records.is_found(&[lines.concat(), records.one[1].clone()]), "edit {number}");
    }
    let cuts = records.one.each_ref().map(|file| file.len());
    for (file, length) in cuts.into_iter().enumerate() {
        for kept in 0..length {
            let mut cut = records.one.clone();
            cut[file].truncate(kept);
            assert!(records.is_found(&cut), "file {file} cut at {kept}");
        }
    }
    assert!(records.is_found(&[records.one[0].clone(), records.other[1].clone()]));
    println!("{} cuts, swaps and replays, all found", edits.len() + cuts.iter().sum::<usize>() + 1);
}
