//! From a source to a kept image: looked through, unpacked into a draft, furnished, and put in its place under its digest.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;

use ringfence_policy::{ImageDigest, ImageTag};

use crate::caps::{Budget, Caps};
use crate::draft::Draft;
use crate::error::{At, ImageError};
use crate::furnish::furnish;
use crate::layer::Layer;
use crate::layout::{Layout, Parts};
use crate::store::{FACTS, Facts, Images, ROOT};
use crate::tree::Tree;
use crate::unpack::{Tally, unpack};

/// Is told of long work while it goes on: so many of something are done.
pub type Tell<'a> = &'a mut dyn FnMut(&str, u64);

impl Images {
    /// Imports the folder of an OCI layout, an archive of one or of `docker save`, or the tar of a root file system. A name that is given stands for the
    /// image from then on. Nothing is kept of an image that is refused.
    pub fn import(&self, source: &Path, name: Option<&ImageTag>, caps: Caps, tell: Tell<'_>) -> Result<Facts, ImageError> {
        fs::create_dir_all(&self.folder).at("make", &self.folder)?;
        let draft = Draft::new(&self.folder)?;
        let facts = match fs::metadata(source).at("open", source)?.is_dir() {
            true => layout(source, &draft, caps, tell)?.ok_or_else(|| not_an_image(source))?,
            false => archive(source, &draft, caps, tell)?,
        };
        self.keep(&draft, &facts)?;
        name.map_or(Ok(()), |name| self.names.set(name, &facts.digest))?;
        Ok(facts)
    }

    /// Puts a finished draft in its place. Whoever imported the same before was first, and has the same.
    pub(crate) fn keep(&self, draft: &Draft, facts: &Facts) -> Result<(), ImageError> {
        let (kept, image) = (self.path(&facts.digest), draft.folder("image")?);
        let (root, text) = (image.join(ROOT), serde_json::to_vec_pretty(facts).map_err(|e| ImageError::damaged("the image", e))?);
        fs::rename(draft.path().join(ROOT), &root).at("move", &root)?;
        fs::write(image.join(FACTS), text).at("write", &image)?;
        // The name must not outlive a power cut that the content does not.
        let folder = File::open(&image).at("open", &image)?;
        rustix::fs::syncfs(folder.as_fd()).at("flush", &image)?;
        match fs::rename(&image, &kept) {
            Err(_) if kept.join(FACTS).exists() => Ok(()),
            renamed => renamed.at("make", &kept),
        }
    }
}

/// A tar of either kind: what is in it shows which, once it is unpacked.
fn archive(source: &Path, draft: &Draft, caps: Caps, tell: Tell<'_>) -> Result<Facts, ImageError> {
    let file = File::open(source).at("open", source)?;
    if !file.metadata().at("look at", source)?.is_file() {
        return Err(not_an_image(source));
    }
    let mut layer = Layer { name: "the archive".into(), file, content: None };
    layer.content = Some(layer.survey(&mut Budget::of(caps))?);
    let digest = layer.content.clone();
    let (root, tally) = unpack_all(std::slice::from_ref(&layer), &[], draft, caps, tell)?;
    let parts = draft.path().join("parts");
    fs::rename(draft.path().join(ROOT), &parts).at("move", &parts)?;
    match (layout(&parts, draft, caps, tell)?, digest) {
        (Some(facts), _) => Ok(facts),
        (None, Some(digest)) => {
            fs::rename(&parts, draft.path().join(ROOT)).at("move", &parts)?;
            furnish(&root)?;
            Ok(facts(digest, None, BTreeMap::new(), tally))
        }
        (None, None) => Err(not_an_image(source)),
    }
}

/// A folder with the parts of an image; `None` if it is something else.
fn layout(source: &Path, draft: &Draft, caps: Caps, tell: Tell<'_>) -> Result<Option<Facts>, ImageError> {
    let Some(layout) = Layout::open(source, caps)? else { return Ok(None) };
    let Parts { digest, config, layers } = layout.parts()?;
    let mut budget = Budget::of(caps);
    layers.iter().try_for_each(|layer| layer.survey(&mut budget).map(drop))?;
    let (root, tally) = unpack_all(&layers, &[], draft, caps, tell)?;
    furnish(&root)?;
    Ok(Some(facts(digest, config.created.clone(), config.environment(), tally)))
}

pub(crate) fn unpack_all(
    layers: &[Layer],
    aliases: &[Vec<u8>],
    draft: &Draft,
    caps: Caps,
    tell: Tell<'_>,
) -> Result<(Tree, Tally), ImageError> {
    let tree = Tree::open(&draft.folder(ROOT)?)?;
    let (mut budget, mut tally) = (Budget::of(caps), Tally::default());
    for layer in layers {
        unpack(layer, aliases, &tree, &mut budget, &mut tally)?;
        tell("files unpacked", tally.files);
    }
    Ok((tree, tally))
}

pub(crate) fn facts(digest: ImageDigest, created: Option<String>, environment: BTreeMap<String, String>, tally: Tally) -> Facts {
    Facts { digest, base: None, created, files: tally.files, bytes: tally.bytes, left_out: tally.left_out, environment }
}

fn not_an_image(source: &Path) -> ImageError {
    ImageError::NotAnImage { path: source.to_owned(), cause: "it is neither a layout nor an archive".into() }
}
