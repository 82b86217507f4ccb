//! External observations: what answers mean, whose they must be, how many are asked, and what a grant makes of them.

mod admission;
mod budget;
mod credentials;
mod decisions;
mod fake;
mod identity;
mod mapping;
mod publication;
mod world;
