//! Applies one layer to a tree: what it adds, what it replaces and what it takes away.
//!
//! A layer takes away by whiteouts: `.wh.NAME` hides NAME of the layers below, `.wh..wh..opq` all of a folder. Both leave alone what the same layer
//! has put there, in whichever order the entries come, so what a layer has laid is remembered by a digest of each path.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use sha2::{Digest, Sha256};

use crate::archive::{Archive, Entry, EntryPath, Kind, joined};
use crate::caps::Budget;
use crate::error::ImageError;
use crate::layer::{Content, Layer};
use crate::tree::Tree;

const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
/// What an old union file system kept for itself.
const OF_AUFS: &[u8] = b".wh..wh.";

/// What was unpacked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Files, links and folders that were laid.
    pub(crate) files: u64,
    /// Bytes of the files.
    pub(crate) bytes: u64,
    /// Devices, pipes and other things that were left out.
    pub(crate) left_out: u64,
}

/// What a layer has put at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Laid {
    File,
    Folder,
    Other,
}

/// Applies a layer; what stands below one of `aliases` goes below the same name in `/usr`. Answers with the digest of its content, which the caller compares where nobody vouched for it before.
pub(crate) fn unpack(
    layer: &Layer,
    aliases: &[Vec<u8>],
    tree: &Tree,
    budget: &mut Budget,
    tally: &mut Tally,
) -> Result<ringfence_policy::ImageDigest, ImageError> {
    let mut unpacking = Unpacking { tree, laid: HashMap::new(), last_folder: None, tally };
    layer.walk(budget, |entry, archive, budget| unpacking.entry(&entry.in_usr(aliases), archive, budget))
}

struct Unpacking<'a> {
    tree: &'a Tree,
    laid: HashMap<[u8; 16], Laid>,
    /// The folder of the entry before, whose path is known to be laid.
    last_folder: Option<Vec<Vec<u8>>>,
    tally: &'a mut Tally,
}

impl Unpacking<'_> {
    fn entry(&mut self, entry: &Entry, archive: &mut Archive<Content<'_>>, budget: &mut Budget) -> Result<(), ImageError> {
        let Some((folder, name)) = entry.path.split() else { return self.root(entry) };
        if folder.iter().any(|part| part.starts_with(WHITEOUT)) {
            return Err(ImageError::entry(&entry.path.bytes(), "stands below a whiteout"));
        }
        if name.starts_with(WHITEOUT) {
            return self.whiteout(entry, folder, name);
        }
        let above = self.folder_above(folder, budget)?;
        self.lay(&entry.path, &entry.kind)?;
        self.tally.files += 1;
        match &entry.kind {
            Kind::Folder => self.tree.place_folder(&above, name).map(drop),
            Kind::Link { target } => self.tree.place_link(&above, name, target),
            Kind::HardLink { target } => self.tree.place_name(&above, name, target),
            Kind::File { bytes, is_executable } => {
                let file = self.tree.place_file(&above, name)?;
                archive.pieces(|offset, piece| file.write(offset, piece))?;
                self.tally.bytes += bytes;
                file.finish(*bytes, *is_executable, entry.modified_at)
            }
            Kind::Special => {
                (self.tally.files, self.tally.left_out) = (self.tally.files - 1, self.tally.left_out + 1);
                self.tree.remove(&above, name)
            }
        }
    }

    fn root(&self, entry: &Entry) -> Result<(), ImageError> {
        match entry.kind {
            Kind::Folder => Ok(()),
            Kind::File { .. } | Kind::HardLink { .. } | Kind::Link { .. } | Kind::Special => {
                Err(ImageError::entry(b".", "is the root, and not a folder"))
            }
        }
    }

    /// The folder of an entry, made where the layer does not say so itself.
    fn folder_above(&mut self, parts: &[Vec<u8>], budget: &mut Budget) -> Result<OwnedFd, ImageError> {
        let folder = self.tree.make_folder(parts, || budget.entry())?;
        if self.last_folder.as_deref() != Some(parts) {
            (1..=parts.len()).for_each(|length| {
                self.laid.entry(key(&parts[..length])).or_insert(Laid::Folder);
            });
            self.last_folder = Some(parts.to_vec());
        }
        Ok(folder)
    }

    /// A path comes once in a layer, but for folders, and for files of which the last one counts: anything else is read differently by different programs.
    fn lay(&mut self, path: &EntryPath, kind: &Kind) -> Result<(), ImageError> {
        let new = match kind {
            Kind::File { .. } => Laid::File,
            Kind::Folder => Laid::Folder,
            Kind::HardLink { .. } | Kind::Link { .. } | Kind::Special => Laid::Other,
        };
        match self.laid.insert(key(path.parts()), new) {
            None => Ok(()),
            Some(old) if old == new && new != Laid::Other => Ok(()),
            Some(_) => Err(ImageError::entry(&path.bytes(), "comes twice in one layer, and not both times as a file")),
        }
    }

    fn whiteout(&mut self, entry: &Entry, folder: &[Vec<u8>], name: &[u8]) -> Result<(), ImageError> {
        let refused = |cause: &str| Err(ImageError::entry(&entry.path.bytes(), cause));
        if !matches!(entry.kind, Kind::File { .. }) {
            return refused("is a whiteout, and not a file");
        }
        let Some(above) = self.tree.folder(folder)? else { return Ok(()) };
        match name.strip_prefix(WHITEOUT).unwrap_or_default() {
            _ if name == OPAQUE => self.clear(folder, &above),
            _ if name.starts_with(OF_AUFS) => {
                self.tally.left_out += 1;
                Ok(())
            }
            b"" | b"." | b".." => refused("is a whiteout of a folder that it does not stand in"),
            hidden => self.hide(folder, &above, hidden),
        }
    }

    /// Hides one name of the layers below.
    fn hide(&self, folder: &[Vec<u8>], above: &OwnedFd, name: &[u8]) -> Result<(), ImageError> {
        let path: Vec<Vec<u8>> = folder.iter().cloned().chain([name.to_vec()]).collect();
        match self.laid.get(&key(&path)) {
            None => self.tree.remove(above, name),
            Some(Laid::File | Laid::Other) => Ok(()),
            Some(Laid::Folder) => match self.tree.folder(&path)? {
                Some(inner) => self.clear(&path, &inner),
                None => Ok(()),
            },
        }
    }

    /// Hides everything of the layers below in a folder.
    fn clear(&self, parts: &[Vec<u8>], folder: &OwnedFd) -> Result<(), ImageError> {
        self.tree.names(folder)?.iter().try_for_each(|name| self.hide(parts, folder, name))
    }
}

/// What a path is remembered by: of fixed size, and such that nobody makes two paths look the same.
fn key(parts: &[Vec<u8>]) -> [u8; 16] {
    let digest = Sha256::digest(joined(parts));
    std::array::from_fn(|at| digest[at])
}
