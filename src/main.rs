//! The `wq` binary: it hands its arguments to the command line and ends with the status that comes back.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(wq_action::cli::main())
}
