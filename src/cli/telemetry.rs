//! Diagnostics on stderr: counts, flags, delays and status codes only, no names, ids, paths or payloads (decision 28).
//! Debug lines of the queue are switched by the runner's variables and by `DEBUG` ([`crate::jobs::log`]); everything else
//! by `WQ_LOG` (`error`, `info`, `wq_action=debug`, …).

use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::jobs::log;

/// Variable that turns other diagnostics on.
const FILTER: &str = "WQ_LOG";

/// Installs the subscriber. A filter that does not parse turns nothing on.
pub(crate) fn start() {
    let others = EnvFilter::try_from_env(FILTER).ok().map(|filter| {
        tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false).with_filter(filter)
    });
    let queue = log::of_process().with_filter(filter_fn(log::is_ours));
    // Only a second call could fail, and there is one.
    let _ = tracing_subscriber::registry().with(queue).with(others).try_init();
}
