//! The broker by its behaviour: what a hostile client says to it, and what hostile hosts answer.

mod hostile;
mod limits;
mod names;
mod requests;
mod rig;
mod secrets;
mod tunnels;
