//! An image that is laid over another one: only what is new is kept. It comes from archives and Debian packages, in their order.
//!
//! Its digest is of its base and of what is laid over it, so that the same files over another base are another image.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use ringfence_policy::{ImageName, ImageTag};

use crate::caps::{Budget, Caps};
use crate::deb;
use crate::draft::Draft;
use crate::error::{At, ImageError};
use crate::furnish::check_over;
use crate::import::{Tell, facts, unpack_all};
use crate::layer::Layer;
use crate::measured::digest_of;
use crate::store::{Facts, Images};

/// What is laid over what.
#[derive(Debug)]
pub struct Over<'a> {
    /// The host's image, or one by its digest.
    pub base: &'a ImageName,
    /// The root of the base: where it has links in the place of folders, files go to where these lead.
    pub base_root: &'a Path,
    /// Archives and packages.
    pub files: &'a [PathBuf],
    /// Variables that the image sets.
    pub environment: BTreeMap<String, String>,
}

impl Images {
    /// Keeps files as an image over another one.
    pub fn import_over(&self, over: &Over<'_>, name: Option<&ImageTag>, caps: Caps, tell: Tell<'_>) -> Result<Facts, ImageError> {
        fs::create_dir_all(&self.folder).at("make", &self.folder)?;
        let draft = Draft::new(&self.folder)?;
        let (mut layers, mut budget) = (Vec::new(), Budget::of(caps));
        let mut identity = format!("{}\n", over.base);
        for (number, path) in over.files.iter().enumerate() {
            let mut layer = layer(path, &draft, number)?;
            let digest = layer.survey(&mut budget)?;
            identity.push_str(&format!("{digest}\n"));
            layer.content = Some(digest);
            layers.push(layer);
        }
        identity.extend(over.environment.iter().map(|(name, value)| format!("{name}={value}\n")));
        let (tree, tally) = unpack_all(&layers, &aliases(over.base_root), &draft, caps, tell)?;
        check_over(&tree)?;
        let known = facts(digest_of(identity.as_bytes()), None, over.environment.clone(), tally);
        let known = Facts { base: Some(over.base.clone()), ..known };
        self.keep(&draft, &known)?;
        name.map_or(Ok(()), |name| self.names.set(name, &known.digest))?;
        Ok(known)
    }
}

fn layer(path: &Path, draft: &Draft, number: usize) -> Result<Layer, ImageError> {
    let file = File::open(path).at("open", path)?;
    let file = match deb::is_deb(&file).at("read", path)? {
        true => deb::data(&file, &draft.path().join(format!("data-{number}")))?,
        false => file,
    };
    Ok(Layer { name: format!("`{}`", path.display()), file, content: None })
}

/// Names in a root that are links to the same name in `/usr`: a folder in their place would hide all that they lead to.
fn aliases(root: &Path) -> Vec<Vec<u8>> {
    let leads_to_usr = |name: &&str| {
        let to = fs::read_link(root.join(name)).unwrap_or_default();
        to.strip_prefix("/").unwrap_or(&to) == Path::new("usr").join(name)
    };
    ["bin", "sbin", "lib", "lib64", "lib32", "libx32"].into_iter().filter(leads_to_usr).map(|name| name.as_bytes().to_vec()).collect()
}
