//! What a hostile client and a hostile host try, by subject. Each is a thing that must not work.

mod amounts;
mod names;
mod record;
mod secrets;
mod wire;
