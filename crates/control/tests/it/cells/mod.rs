//! Code contexts with their real workers, as plain child processes.

mod bash;
mod every;
mod ipython;
mod javascript;
mod python;
mod worker;
