//! Ringfence as its users and its attackers see it: the real binary, the real kernel, as root and as an ordinary user.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "a test may stop, and starts what it tests")]

mod absent;
mod agents;
mod audit;
mod bad_input;
mod cases;
mod checkpoint;
mod checks;
mod clock;
mod command_line;
mod crash;
mod crowd;
mod edits;
mod evidence;
mod export;
mod faults;
mod filter;
mod full;
mod image;
mod kills;
mod left;
mod limits;
mod network;
mod packages;
mod persons;
mod project;
mod promotion;
mod race;
mod recipe;
mod registry;
mod replay;
mod serve;
mod state;
mod storage;
mod support;
mod tools;
