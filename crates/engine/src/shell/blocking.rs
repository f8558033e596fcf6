//! Runs blocking work on threads that are started in advance.
//!
//! If the machine runs short of threads, such work only becomes slower, because it waits for a
//! thread of its lane. Requests have their own lane, so they are handled even while all other
//! threads are busy.

use std::{
    any::Any,
    collections::VecDeque,
    io,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use tokio::sync::oneshot;

/// How long a thread that was started on demand may be idle before it exits.
const IDLE: Duration = Duration::from_secs(2);

/// The maximum number of checkouts that are written at the same time.
const MAX_WRITES: usize = 16;

/// The stack size of a thread.
const STACK: usize = 512 << 10;

type LaneJob = Box<dyn FnOnce() + Send>;

/// Threads that share one queue.
struct Lane {
    name: &'static str,
    /// The number of threads that never exit.
    permanent: usize,
    /// The maximum number of threads.
    max: usize,
    state: Mutex<LaneState>,
    wake: Condvar,
}

#[derive(Default)]
struct LaneState {
    queue: VecDeque<LaneJob>,
    threads: usize,
    idle: usize,
}

/// Work for effects and followers.
static WORK: LazyLock<&'static Lane> = LazyLock::new(|| Lane::new("work", 4, 48));

/// Writes to checkouts. Each of these jobs waits for a holder, whose own jobs run in the `work` lane.
static WRITES: LazyLock<&'static Lane> = LazyLock::new(|| Lane::new("writes", 1, MAX_WRITES));

/// Work for requests.
static REQUESTS: LazyLock<&'static Lane> = LazyLock::new(|| Lane::new("requests", 2, 32));

/// Starts the permanent threads. Fails if a thread cannot be started, because the daemon could not respond to anything
/// without these threads.
pub fn start() -> io::Result<()> {
    WORK.start()?;
    WRITES.start()?;
    REQUESTS.start()
}

/// Runs blocking work for an effect or a follower.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    WORK.run(work).await
}

/// Runs work that writes to a checkout. Such work may wait for other work that runs in [`blocking`].
pub(crate) async fn blocking_write<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    WRITES.run(work).await
}

/// Runs blocking work for a request, without waiting for effects.
pub async fn blocking_request<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    REQUESTS.run(work).await
}

impl Lane {
    fn new(name: &'static str, kept: usize, most: usize) -> &'static Lane {
        let (state, wake) = (Mutex::default(), Condvar::new());
        Box::leak(Box::new(Lane { name, permanent: kept, max: most, state, wake }))
    }

    fn lock(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&'static self) -> io::Result<()> {
        while self.lock().threads < self.permanent {
            self.add_thread()?;
        }
        Ok(())
    }

    fn add_thread(&'static self) -> io::Result<()> {
        let stays = {
            let mut state = self.lock();
            state.threads += 1;
            state.threads <= self.permanent
        };
        let thread = thread::Builder::new().name(self.name.to_owned()).stack_size(STACK);
        let started = thread.spawn(move || self.serve(stays));
        if started.is_err() {
            self.lock().threads -= 1;
        }
        started.map(drop)
    }

    async fn run<T: Send + 'static>(&'static self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, result) = oneshot::channel::<Result<T, Box<dyn Any + Send>>>();
        self.enqueue(Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(work));
            // The caller may have been dropped in the meantime.
            done.send(result).ok();
        }));
        match result.await {
            Ok(Ok(value)) => value,
            Ok(Err(panic)) => resume_unwind(panic),
            // A job is lost only when the process exits.
            Err(_) => std::future::pending().await,
        }
    }

    fn enqueue(&'static self, job: LaneJob) {
        let busy = {
            let mut state = self.lock();
            state.queue.push_back(job);
            state.queue.len() > state.idle && state.threads < self.max
        };
        self.wake.notify_one();
        if busy {
            // If no further thread can be started, an existing thread runs the job later.
            self.add_thread().ok();
        }
    }

    fn serve(&self, stays: bool) {
        while let Some(job) = self.next_job(stays) {
            job();
        }
    }

    /// Waits for the next job. Returns `None` if a thread that was started on demand has been idle
    /// for too long.
    fn next_job(&self, stays: bool) -> Option<LaneJob> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                return Some(job);
            }
            state.idle += 1;
            let (woken, late) = if stays {
                (self.wake.wait(state).unwrap_or_else(PoisonError::into_inner), false)
            } else {
                let waited = self.wake.wait_timeout(state, IDLE);
                let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                (state, timeout.timed_out())
            };
            state = woken;
            state.idle -= 1;
            if late && state.queue.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::task::JoinSet;

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    #[test]
    fn more_jobs_than_threads_are_all_done() {
        let lane = Lane::new("test", 1, 1);
        lane.start().unwrap();
        let done = runtime().block_on(async {
            let jobs: JoinSet<i32> = (0..20).map(|no| lane.run(move || no)).collect();
            let mut done = jobs.join_all().await;
            done.sort_unstable();
            done
        });
        assert_eq!(done, Vec::from_iter(0..20));
        assert_eq!(lane.lock().threads, 1, "one thread is enough");
    }

    #[test]
    fn panic_reaches_its_caller_and_leaves_the_thread() {
        let lane = Lane::new("test", 1, 1);
        lane.start().unwrap();
        runtime().block_on(async {
            let mut broken = JoinSet::new();
            broken.spawn(lane.run(|| panic!("on purpose")));
            assert!(broken.join_next().await.unwrap().unwrap_err().is_panic());
            assert_eq!(lane.run(|| 7).await, 7);
        });
    }

    #[test]
    fn busy_lane_starts_another_thread() {
        let lane = Lane::new("test", 1, 2);
        lane.start().unwrap();
        let (release, wait) = mpsc::channel::<()>();
        runtime().block_on(async {
            let mut long = JoinSet::new();
            long.spawn(lane.run(move || wait.recv().is_ok()));
            // Either the first job is already running when the second one arrives, or the thread
            // for the second job runs it.
            assert_eq!(lane.run(|| 1).await, 1);
            release.send(()).unwrap();
            assert!(long.join_next().await.unwrap().unwrap());
        });
    }
}
