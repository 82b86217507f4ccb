//! The agent's side: the MCP server, `wq tool`, staging and collection, and what an agent cannot reach by any file.

mod captured;
mod collected;
mod confined;
mod desk;
mod forged;
mod python;
mod reads;
mod server;
mod stage;
mod tool;
