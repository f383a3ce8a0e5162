//! From artifact to consequence: real repositories, real folders, real keys.

mod ahead;
mod branch;
mod decisions;
mod example;
mod faults;
mod kills;
mod patches;
mod races;
mod rig;
mod rules;
mod shown;
mod targets;
