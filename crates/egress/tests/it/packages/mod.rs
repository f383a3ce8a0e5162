//! pip, uv, npm and cargo install from an index of ours, which asks an upstream that the test plays.

mod archives;
mod faults;
mod node;
mod parcel;
mod python;
mod rig;
mod rust;
mod secure;
mod shelf;
mod upstream;
