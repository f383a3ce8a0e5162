//! Policy as those who use it see it: laws, decisions, the shipped profiles, and the generated schema.

mod laws;
mod resolve;
mod shipped;
