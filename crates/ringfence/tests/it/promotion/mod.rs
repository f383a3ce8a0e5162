//! From artifact to consequence: real repositories, real folders, real keys.

mod branch;
mod example;
mod rig;
mod targets;
