//! Code contexts with their real workers, as plain child processes.

mod bash;
mod every;
mod javascript;
mod python;
mod worker;
