//! Ringfence as its users and its attackers see it: the real binary, the real kernel, as root and as an ordinary user.

mod absent;
mod bad_input;
mod command_line;
mod crash;
mod crowd;
mod evidence;
mod export;
mod limits;
mod project;
mod support;
