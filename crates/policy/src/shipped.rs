//! The profiles that ship with the program, compiled in, so that a lone binary has them.

/// A shipped profile: its name and its text.
#[derive(Debug, Clone, Copy)]
pub struct Shipped {
    /// The name.
    pub name: &'static str,
    /// The TOML.
    pub text: &'static str,
}

/// The shipped profiles, in the order in which they are printed.
pub fn shipped() -> &'static [Shipped] {
    &[
        Shipped { name: "no-code", text: include_str!("../../../profiles/no-code.toml") },
        Shipped { name: "data-analysis", text: include_str!("../../../profiles/data-analysis.toml") },
        Shipped { name: "code-change", text: include_str!("../../../profiles/code-change.toml") },
        Shipped { name: "web-research", text: include_str!("../../../profiles/web-research.toml") },
        Shipped { name: "scratch", text: include_str!("../../../profiles/scratch.toml") },
        Shipped { name: "governed-ops", text: include_str!("../../../profiles/governed-ops.toml") },
        Shipped { name: "high-assurance", text: include_str!("../../../profiles/high-assurance.toml") },
        Shipped { name: "base", text: include_str!("../../../profiles/base.toml") },
    ]
}
