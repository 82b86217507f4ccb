//! Diagnostics on stderr: counts, flags, delays and status codes only, no names, ids, paths or payloads (decision 28).
//! Debug lines of the queue are switched by the runner's variables and by `DEBUG` ([`crate::jobs::log`]); everything else
//! by `WQ_LOG` (`error`, `info`, `wq_action=debug`, …).

use std::io::Write;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::jobs::log;

/// Variable that turns other diagnostics on.
const FILTER: &str = "WQ_LOG";

/// Standard error of a process that somebody may have started without reading it: what the pipe has no room for is left
/// out, so that no line can hold the process up.
struct Unread;

/// What a pipe that is ready has room for at least, in bytes.
const ROOM: usize = 4096;

impl Write for Unread {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let stderr = std::io::stderr();
        let mut asked = [PollFd::new(&stderr, PollFlags::OUT)];
        if poll(&mut asked, Some(&Timespec::default())).is_ok_and(|ready| ready > 0) {
            stderr.lock().write_all(&bytes[..bytes.len().min(ROOM)])?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Installs the subscriber. A filter that does not parse turns nothing on. `unread` is set where nobody may read standard
/// error.
pub(crate) fn start(unread: bool) {
    let stream =
        move || -> Box<dyn Write + Send> { if unread { Box::new(Unread) } else { Box::new(std::io::stderr()) } };
    let others = EnvFilter::try_from_env(FILTER)
        .ok()
        .map(|filter| tracing_subscriber::fmt::layer().with_writer(stream).with_ansi(false).with_filter(filter));
    let queue = log::of_process(stream()).with_filter(filter_fn(log::is_ours));
    // Only a second call could fail, and there is one.
    let _ = tracing_subscriber::registry().with(queue).with(others).try_init();
}
