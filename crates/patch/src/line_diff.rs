//! Which lines differ between two texts, in time that grows with their length whatever they hold. The known algorithms are quadratic for texts
//! made to be hard, and both texts may be a stranger's; so they only see short stretches, between lines that occur once in both texts.

use std::collections::HashMap;
use std::ops::Range;

use imara_diff::{Algorithm, Diff, InternedInput, sources::byte_lines};

use crate::hunks::lines;

/// Stretches of so many lines, both texts together, are compared as well as can be.
const SHORT: usize = 512;
/// Longer ones than this are not compared any further, if no line of them is a landmark.
const LONG: usize = 4096;
/// Landmarks are looked for between landmarks so many times.
const DEPTH: usize = 8;

/// Lines removed and the lines added in their place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) before: Range<u32>,
    pub(crate) after: Range<u32>,
}

/// What differs, in order, with at least one equal line between.
pub(crate) fn changes(before: &[u8], after: &[u8]) -> Vec<Change> {
    let (old, new) = (Text::of(before), Text::of(after));
    let whole = Stretch { old: 0..old.len(), new: 0..new.len() };
    let mut comparison = Comparison { old, new, found: Vec::new() };
    comparison.compare(whole, DEPTH);
    comparison.found
}

/// A text, and where its lines begin and end.
struct Text<'a> {
    bytes: &'a [u8],
    lines: Vec<&'a [u8]>,
    starts: Vec<usize>,
}

impl<'a> Text<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        let lines = lines(bytes);
        let ends = lines.iter().scan(0, |end, line| {
            *end += line.len();
            Some(*end)
        });
        Self { bytes, starts: std::iter::once(0).chain(ends).collect(), lines }
    }

    fn len(&self) -> usize {
        self.lines.len()
    }

    fn bytes(&self, lines: &Range<usize>) -> &'a [u8] {
        &self.bytes[self.starts[lines.start]..self.starts[lines.end]]
    }
}

/// Lines of both texts that are compared with each other.
#[derive(Debug, Clone)]
struct Stretch {
    old: Range<usize>,
    new: Range<usize>,
}

impl Stretch {
    fn len(&self) -> usize {
        self.old.len() + self.new.len()
    }
}

struct Comparison<'a> {
    old: Text<'a>,
    new: Text<'a>,
    found: Vec<Change>,
}

impl Comparison<'_> {
    fn compare(&mut self, stretch: Stretch, depth: usize) {
        let stretch = self.without_equal_ends(stretch);
        if stretch.old.is_empty() || stretch.new.is_empty() {
            return self.differs(stretch);
        }
        if stretch.len() <= SHORT {
            return self.compare_with(Algorithm::Histogram, stretch);
        }
        let landmarks = if depth > 0 { self.landmarks(&stretch) } else { Vec::new() };
        match landmarks.is_empty() {
            false => self.compare_between(&landmarks, stretch, depth - 1),
            true if stretch.len() <= LONG => self.compare_with(Algorithm::Myers, stretch),
            true => self.differs(stretch),
        }
    }

    fn without_equal_ends(&self, Stretch { mut old, mut new }: Stretch) -> Stretch {
        let (before, after) = (&self.old.lines[old.clone()], &self.new.lines[new.clone()]);
        let start = before.iter().zip(after).take_while(|(old, new)| old == new).count();
        let end = before[start..].iter().rev().zip(after[start..].iter().rev()).take_while(|(old, new)| old == new).count();
        (old.start, new.start) = (old.start + start, new.start + start);
        (old.end, new.end) = (old.end - end, new.end - end);
        Stretch { old, new }
    }

    fn differs(&mut self, Stretch { old, new }: Stretch) {
        if !old.is_empty() || !new.is_empty() {
            self.found.push(Change { before: old.start as u32..old.end as u32, after: new.start as u32..new.end as u32 });
        }
    }

    fn compare_with(&mut self, algorithm: Algorithm, stretch: Stretch) {
        let (before, after) = (self.old.bytes(&stretch.old), self.new.bytes(&stretch.new));
        let input = InternedInput::new(byte_lines(before), byte_lines(after));
        let mut diff = Diff::compute(algorithm, &input);
        diff.postprocess_no_heuristic(&input);
        let shifted = |range: Range<u32>, by: usize| range.start + by as u32..range.end + by as u32;
        let found = diff
            .hunks()
            .map(|hunk| Change { before: shifted(hunk.before, stretch.old.start), after: shifted(hunk.after, stretch.new.start) });
        self.found.extend(found);
    }

    fn compare_between(&mut self, landmarks: &[(usize, usize)], stretch: Stretch, depth: usize) {
        let (mut old, mut new) = (stretch.old.start, stretch.new.start);
        for (at_old, at_new) in landmarks.iter().copied().chain([(stretch.old.end, stretch.new.end)]) {
            self.compare(Stretch { old: old..at_old, new: new..at_new }, depth);
            (old, new) = (at_old + 1, at_new + 1);
        }
    }

    /// The longest row of lines that each occur once in both texts of the stretch and stand in the same order there.
    fn landmarks(&self, stretch: &Stretch) -> Vec<(usize, usize)> {
        let (old, new) = (once(&self.old, &stretch.old), once(&self.new, &stretch.new));
        let mut pairs: Vec<(usize, usize)> = old.into_iter().filter_map(|(line, at)| Some((at, *new.get(line)?))).collect();
        pairs.sort_unstable();
        longest_rising(&pairs)
    }
}

/// Lines that occur once, and where.
fn once<'a>(text: &Text<'a>, stretch: &Range<usize>) -> HashMap<&'a [u8], usize> {
    let mut places: HashMap<&[u8], Option<usize>> = HashMap::with_capacity(stretch.len());
    for at in stretch.clone() {
        places.entry(text.lines[at]).and_modify(|place| *place = None).or_insert(Some(at));
    }
    places.into_iter().filter_map(|(line, at)| Some((line, at?))).collect()
}

/// Of pairs with rising first numbers, the longest row in which the second ones rise too.
fn longest_rising(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut ends: Vec<usize> = Vec::new(); // the pair that ends the best row of each length
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (index, (_, second)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].1 < *second);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let mut row: Vec<(usize, usize)> =
        std::iter::successors(ends.last().copied(), |index| before[*index]).map(|index| pairs[index]).collect();
    row.reverse();
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(numbers: impl Iterator<Item = usize>) -> String {
        numbers.map(|number| format!("{number}\n")).collect()
    }

    #[test]
    fn lines_that_occur_once_are_landmarks() {
        let old = numbered(0..2000);
        let new = old.replace("\n500\n", "\nx\n").replace("\n1500\n", "\n").replace("\n1900\n", "\n1900\ny\n");
        let change = |before, after| Change { before, after };
        assert_eq!(
            changes(old.as_bytes(), new.as_bytes()),
            [change(500..501, 500..501), change(1500..1501, 1500..1500), change(1901..1901, 1900..1901)]
        );
    }

    #[test]
    fn equal_texts_have_no_changes() {
        assert_eq!(changes(b"", b""), []);
        assert_eq!(changes(b"a\nb", b"a\nb"), []);
        assert_eq!(changes(b"a\n", b"a").len(), 1);
    }

    #[test]
    fn long_stretches_without_landmarks_are_one_change() {
        let (old, new) = ("a\nb\n".repeat(3000), "b\nb\na\n".repeat(2000));
        assert_eq!(changes(old.as_bytes(), new.as_bytes()), [Change { before: 0..6000, after: 0..6000 }]);
        assert!(changes(&old.as_bytes()[..4000], &new.as_bytes()[..4000]).len() > 1);
    }

    #[test]
    fn rows_rise() {
        assert_eq!(longest_rising(&[(0, 5), (1, 1), (2, 2), (3, 0), (4, 3)]), [(1, 1), (2, 2), (4, 3)]);
        assert_eq!(longest_rising(&[]), []);
    }
}
