//! Diagnostics on stderr, off unless `WQ_LOG` asks for them (`error`, `info`, `wq_action=debug`, …). Counts, flags,
//! delays and status codes only: no names, ids, paths or payloads (decision 28).

use tracing_subscriber::EnvFilter;

/// Variable that turns diagnostics on.
const FILTER: &str = "WQ_LOG";

/// Installs the subscriber if `WQ_LOG` is set. A filter that does not parse turns nothing on.
pub(crate) fn start() {
    let Ok(filter) = EnvFilter::try_from_env(FILTER) else { return };
    // Only a second call could fail, and there is one.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).try_init();
}
