//! Launching workers on GitHub: the settings and routes that it starts from, and what follows (publication.md 4 to 6).

pub mod route;
pub mod settings;
