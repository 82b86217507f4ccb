//! One child process: its own group, bounded in time and in output, killed as a group.

use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// Bytes of standard error that are kept; the rest is read and dropped.
const KEPT_STDERR: usize = 64 * 1024;

/// How a child ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// By itself.
    Exited { status: ExitStatus, stdout: Vec<u8>, stderr: Vec<u8> },
    /// It was killed because the wall clock ran out.
    TimedOut,
    /// It was killed because it wrote more than it may.
    TooLarge,
}

/// The child and its group. Dropping it while the child runs kills the group, so no exit path leaves one behind.
struct Group {
    child: Child,
    running: bool,
}

impl Group {
    fn kill(&mut self) {
        if self.running {
            if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
                // The group has the leader's id. The leader is not yet reaped, so the id cannot be another group's.
                let _ = kill_process_group(pid, Signal::KILL);
            }
            let _ = self.child.wait();
            self.running = false;
        }
    }

    /// Waits for the leader until the deadline. The first looks are close together: git mostly ends with its output.
    fn wait(&mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        let mut pause = Duration::from_micros(200);
        loop {
            if let Some(status) = self.child.try_wait()? {
                self.running = false;
                return Ok(Some(status));
            }
            let now = Instant::now();
            if now >= deadline {
                return Ok(None);
            }
            std::thread::sleep(pause.min(deadline - now));
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

enum Event {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Overflow,
}

/// Reads to the end, keeping at most `keep` bytes. Returns whether there was more.
fn drain(mut source: impl Read, keep: usize, stop_when_over: bool) -> (Vec<u8>, bool) {
    let mut kept = Vec::new();
    let mut over = false;
    let mut chunk = [0; 8 * 1024];
    loop {
        let count = match source.read(&mut chunk) {
            Ok(0) => return (kept, over),
            Ok(count) => count,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return (kept, over),
        };
        let room = keep - kept.len();
        kept.extend_from_slice(&chunk[..count.min(room)]);
        over |= count > room;
        if over && stop_when_over {
            return (kept, true);
        }
    }
}

/// Runs a command to its end, to the deadline, or to its `stdout` bound in bytes.
///
/// # Errors
/// The system's error when the program cannot be started or waited for.
pub(super) fn run(mut command: Command, wall: Duration, stdout_bound: usize) -> io::Result<Ended> {
    let deadline = Instant::now() + wall;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let child = command.spawn()?;
    let mut group = Group { child, running: true };
    let (sender, events) = mpsc::channel();
    if let Some(pipe) = group.child.stdout.take() {
        let sender = sender.clone();
        std::thread::spawn(move || {
            let (bytes, over) = drain(pipe, stdout_bound, true);
            let _ = sender.send(if over { Event::Overflow } else { Event::Stdout(bytes) });
        });
    }
    if let Some(pipe) = group.child.stderr.take() {
        std::thread::spawn(move || {
            let _ = sender.send(Event::Stderr(drain(pipe, KEPT_STDERR, false).0));
        });
    }

    // Both pipes close when the last process of the group that holds them ends, so a grandchild that lingers counts.
    let (mut stdout, mut stderr) = (None, None);
    while stdout.is_none() || stderr.is_none() {
        match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Event::Stdout(bytes)) => stdout = Some(bytes),
            Ok(Event::Stderr(bytes)) => stderr = Some(bytes),
            Ok(Event::Overflow) => {
                group.kill();
                return Ok(Ended::TooLarge);
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                group.kill();
                return Ok(Ended::TimedOut);
            }
        }
    }
    match group.wait(deadline)? {
        Some(status) => {
            Ok(Ended::Exited { status, stdout: stdout.unwrap_or_default(), stderr: stderr.unwrap_or_default() })
        }
        None => {
            group.kill();
            Ok(Ended::TimedOut)
        }
    }
}
