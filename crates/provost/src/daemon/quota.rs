//! Limits on the daemon's resources per launch, regardless of how many processes the launch starts.
//!
//! Every connection is charged to a [`ResourceAccount`]. Only the global limits apply to the operator's account, while
//! every other account has a [`Quota`]. Some reads are reserved for the operator, so that launches cannot use up all
//! reads.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, Weak},
    task::{Context, Poll},
    time::Duration,
};

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use provost_api::{ApiError, ErrorCode};
use provost_sys::origin::ResourceAccount;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The limits that apply to one account.
#[derive(Clone, Copy, Debug)]
struct QuotaLimits {
    connections: usize,
    /// Concurrent requests. A request ends when its response has been sent.
    requests: usize,
    /// Concurrent reads of the ledger.
    reads: usize,
    /// Total number of bytes in state-changing requests over the daemon's lifetime, because their
    /// content may be stored.
    posted: u64,
}

/// The limits for a launch, check, hook or setup command.
const LAUNCH_LIMITS: QuotaLimits =
    QuotaLimits { connections: 64, requests: 16, reads: 2, posted: 64 << 20 };

/// The limits for [`ResourceAccount::Other`], which several processes may share.
const SHARED_LIMITS: QuotaLimits =
    QuotaLimits { connections: 256, requests: 64, reads: 4, posted: 256 << 20 };

/// The maximum number of concurrent ledger reads. Changes run on the same request threads as reads, and need the
/// remaining threads.
const MAX_READS: usize = 16;

/// How many of [`MAX_READS`] all launches together may use.
const MAX_LAUNCH_READS: usize = 12;

/// The number of accounts whose posted bytes are counted. When this number is reached, accounts that have posted at
/// most [`MIN_TRACKED_BYTES`] are forgotten.
const MAX_TRACKED_ACCOUNTS: usize = 4_096;
const MIN_TRACKED_BYTES: u64 = 1 << 20;

/// How long a request or a read waits for a permit.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);

/// The quotas of the accounts with open connections.
#[derive(Clone, Debug)]
pub(crate) struct Quotas {
    accounts: Arc<Mutex<BTreeMap<ResourceAccount, Weak<Quota>>>>,
    /// The bytes that each account has posted.
    posted: Arc<Mutex<BTreeMap<ResourceAccount, u64>>>,
    reads: Arc<Semaphore>,
    reads_of_launches: Arc<Semaphore>,
    /// How long a request or a read waits for a permit.
    turn_timeout: Duration,
}

/// The semaphores of one account.
#[derive(Debug)]
pub(crate) struct Quota {
    account: ResourceAccount,
    limits: QuotaLimits,
    connections: Arc<Semaphore>,
    requests: Arc<Semaphore>,
    reads: Arc<Semaphore>,
    turn_timeout: Duration,
}

/// A connection, which is charged to its account until this value is dropped.
#[derive(Debug)]
pub(crate) struct ChargedConnection {
    /// `None` for the operator.
    quota: Option<Arc<Quota>>,
    _connection: Option<OwnedSemaphorePermit>,
}

/// A permit to read the ledger, which is released when it is dropped.
#[derive(Debug)]
pub(crate) struct ReadPermit {
    _all: OwnedSemaphorePermit,
    _launches: Option<OwnedSemaphorePermit>,
    _own: Option<OwnedSemaphorePermit>,
}

/// A permit to process a request, which is released when it is dropped.
#[derive(Debug)]
pub(crate) struct RequestPermit {
    /// `None` for the operator.
    own: Option<OwnedSemaphorePermit>,
}

impl Default for Quotas {
    fn default() -> Quotas {
        Quotas {
            accounts: Arc::default(),
            posted: Arc::default(),
            reads: Arc::new(Semaphore::new(MAX_READS)),
            reads_of_launches: Arc::new(Semaphore::new(MAX_LAUNCH_READS)),
            turn_timeout: TURN_TIMEOUT,
        }
    }
}

impl Quotas {
    /// Charges a connection to an account. Returns `None` if the account has too many connections.
    pub(crate) fn charge(&self, account: ResourceAccount) -> Option<ChargedConnection> {
        if account == ResourceAccount::Operator {
            return Some(ChargedConnection { quota: None, _connection: None });
        }
        let quota = self.quota(account);
        let connection = Arc::clone(&quota.connections).try_acquire_owned().ok()?;
        Some(ChargedConnection { quota: Some(quota), _connection: Some(connection) })
    }

    fn quota(&self, account: ResourceAccount) -> Arc<Quota> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(quota) = accounts.get(&account).and_then(Weak::upgrade) {
            return quota;
        }
        accounts.retain(|_, quota| quota.strong_count() > 0);
        let share = if account == ResourceAccount::Other { SHARED_LIMITS } else { LAUNCH_LIMITS };
        let quota = Arc::new(Quota {
            account: account.clone(),
            limits: share,
            connections: Arc::new(Semaphore::new(share.connections)),
            requests: Arc::new(Semaphore::new(share.requests)),
            reads: Arc::new(Semaphore::new(share.reads)),
            turn_timeout: self.turn_timeout,
        });
        accounts.insert(account, Arc::downgrade(&quota));
        quota
    }

    /// Adds the size of a state-changing request to the bytes that its account has posted.
    pub(crate) fn count_posted(
        &self,
        charged: &ChargedConnection,
        bytes: u64,
    ) -> Result<(), ApiError> {
        let Some(quota) = &charged.quota else { return Ok(()) };
        let mut posted = self.posted.lock().unwrap_or_else(PoisonError::into_inner);
        if posted.len() >= MAX_TRACKED_ACCOUNTS && !posted.contains_key(&quota.account) {
            // Make room by forgetting the accounts that have posted little.
            posted.retain(|_, bytes| *bytes > MIN_TRACKED_BYTES);
        }
        let all = posted.entry(quota.account.clone()).or_default();
        let limit = quota.limits.posted;
        if all.saturating_add(bytes) > limit {
            let message = format!(
                "this launch has reached its limit of {} MiB of requests per daemon run",
                limit >> 20
            );
            return Err(ApiError::new(ErrorCode::Refused, message).next("provost status"));
        }
        *all += bytes;
        Ok(())
    }

    /// Waits for a permit to read the ledger.
    pub(crate) async fn acquire_read(
        &self,
        charged: &ChargedConnection,
    ) -> Result<ReadPermit, ApiError> {
        let turn = async {
            let (mut own, mut launches) = (None, None);
            if let Some(quota) = &charged.quota {
                own = Some(Arc::clone(&quota.reads).acquire_owned().await?);
                launches = Some(Arc::clone(&self.reads_of_launches).acquire_owned().await?);
            }
            let all = Arc::clone(&self.reads).acquire_owned().await?;
            Ok::<_, tokio::sync::AcquireError>(ReadPermit {
                _all: all,
                _launches: launches,
                _own: own,
            })
        };
        if let Ok(Ok(turn)) = tokio::time::timeout(self.turn_timeout, turn).await {
            return Ok(turn);
        }
        let limit = match &charged.quota {
            None => format!("{MAX_READS} reads"),
            Some(quota) => {
                let own = quota.limits.reads;
                format!("{own} reads of this launch, or {MAX_LAUNCH_READS} of all launches,")
            }
        };
        Err(busy_error(&limit))
    }
}

impl ChargedConnection {
    /// Waits for a permit to process a request.
    pub(crate) async fn acquire_request(&self) -> Result<RequestPermit, ApiError> {
        let Some(quota) = &self.quota else { return Ok(RequestPermit { own: None }) };
        match tokio::time::timeout(quota.turn_timeout, Arc::clone(&quota.requests).acquire_owned())
            .await
        {
            Ok(Ok(own)) => Ok(RequestPermit { own: Some(own) }),
            Ok(Err(_)) | Err(_) => {
                Err(busy_error(&format!("{} requests of this launch", quota.limits.requests)))
            }
        }
    }
}

impl RequestPermit {
    /// Wraps a response so that it holds the permit until it has been sent.
    pub(crate) fn hold_until_sent(self, answer: Body) -> Body {
        if self.own.is_none() {
            answer
        } else {
            Body::new(PermitBody { body: answer, _turn: self })
        }
    }
}

/// Returns the error for an account with too many connections.
pub(crate) fn too_many_connections() -> ApiError {
    let message = "this launch has too many connections; close some";
    ApiError::new(ErrorCode::Refused, message).next("provost daemon status")
}

fn busy_error(limit: &str) -> ApiError {
    let message =
        format!("{limit} are in progress, and none finished within {} s", TURN_TIMEOUT.as_secs());
    ApiError::new(ErrorCode::Refused, message).next("provost daemon status")
}

/// A response body that holds the permit of its request.
struct PermitBody {
    body: Body,
    _turn: RequestPermit,
}

impl HttpBody for PermitBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(name: &str) -> ResourceAccount {
        ResourceAccount::Supervised(name.into())
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.unwrap().block_on(test);
    }

    fn short_timeouts() -> Quotas {
        Quotas { turn_timeout: Duration::from_millis(1), ..Quotas::default() }
    }

    #[test]
    fn connections_are_charged_to_their_account() {
        let quotas = Quotas::default();
        let held: Vec<ChargedConnection> =
            (0..LAUNCH_LIMITS.connections).map(|_| quotas.charge(launch("a")).unwrap()).collect();
        assert!(quotas.charge(launch("a")).is_none());
        assert!(quotas.charge(launch("b")).is_some());
        assert!((0..1_000).all(|_| quotas.charge(ResourceAccount::Operator).is_some()));
        drop(held);
        assert!(quotas.charge(launch("a")).is_some());
        assert_eq!(quotas.accounts.lock().unwrap().len(), 1, "an unused quota is dropped");
    }

    #[test]
    fn posted_bytes_count_after_the_connection() {
        let quotas = Quotas::default();
        let post = |account, bytes| quotas.count_posted(&quotas.charge(account).unwrap(), bytes);
        post(launch("a"), LAUNCH_LIMITS.posted - 10).unwrap();
        post(launch("a"), 10).unwrap();
        let error = post(launch("a"), 1).unwrap_err();
        assert!(error.message.contains("64 MiB"), "{error:?}");
        post(launch("b"), 1).unwrap();
        post(ResourceAccount::Operator, u64::MAX).unwrap();
        for no in 0..2 * MAX_TRACKED_ACCOUNTS {
            post(launch(&no.to_string()), 1).unwrap();
        }
        assert!(quotas.posted.lock().unwrap().len() <= MAX_TRACKED_ACCOUNTS + 1);
        post(launch("a"), 1).unwrap_err();
    }

    #[test]
    fn launches_leave_reads_to_the_operator() {
        run(async {
            let quotas = short_timeouts();
            let (mut turns, mut refused) = (Vec::new(), 0);
            for no in 0..20 {
                let charged = quotas.charge(launch(&no.to_string())).unwrap();
                for _ in 0..3 {
                    match quotas.acquire_read(&charged).await {
                        Ok(turn) => turns.push(turn),
                        Err(error) => {
                            assert!(error.message.contains("2 reads of this launch"), "{error:?}");
                            refused += 1;
                        }
                    }
                }
            }
            assert_eq!((turns.len(), refused), (MAX_LAUNCH_READS, 60 - MAX_LAUNCH_READS));
            let operator = quotas.charge(ResourceAccount::Operator).unwrap();
            for _ in MAX_LAUNCH_READS..MAX_READS {
                turns.push(quotas.acquire_read(&operator).await.unwrap());
            }
            assert!(quotas.acquire_read(&operator).await.is_err());
        });
    }

    #[test]
    fn request_permit_is_held_until_the_response() {
        run(async {
            let quotas = short_timeouts();
            let charged = quotas.charge(launch("a")).unwrap();
            let mut answers = Vec::new();
            for _ in 0..LAUNCH_LIMITS.requests {
                let turn = charged.acquire_request().await.unwrap();
                answers.push(turn.hold_until_sent(Body::from("text")));
            }
            let error = charged.acquire_request().await.unwrap_err();
            assert!(error.message.contains("16 requests of this launch"), "{error:?}");
            assert_eq!(answers[0].size_hint().exact(), Some(4));
            answers.pop();
            assert!(charged.acquire_request().await.is_ok());
        });
    }
}
