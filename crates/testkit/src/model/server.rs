//! The server: one thread per connection, a record of all requests, and a control interface.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::{RecvFlags, recv};
use serde_json::{Value, json};

use super::events::PlainResponse;
use super::http::{self, HttpRequest};
use super::play;
use super::request::ModelRequest;
use super::scenario::ModelScenario;
use super::script::{Script, ServedAnswer};
use crate::clock::Deadline;
use crate::harness::eventually;

/// The interval at which a waiting stream checks whether its client is still connected.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The maximum time that a client may take to send its request or to read a piece of its answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The path for releasing a hold, which is followed by the name of the hold.
const RELEASE: &str = "/control/release/";

/// A scripted model that answers on loopback until it is dropped.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<ServerShared>,
    acceptor: Option<JoinHandle<()>>,
}

/// A request and its outcome.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    pub request: ModelRequest,
    pub served: ServedAnswer,
    pub outcome: AnswerOutcome,
}

/// The outcome of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerOutcome {
    /// The answer is in progress.
    Open,
    /// The answer was sent up to its scripted end.
    Answered,
    /// The client disconnected, or the server stopped, before the end of the answer.
    Disconnected,
}

impl ModelServer {
    /// Starts a server on a free port.
    ///
    /// # Panics
    /// If the machine has no loopback.
    #[track_caller]
    pub fn start(scenario: ModelScenario) -> Self {
        Self::bind(scenario, 0).expect("a port on loopback is available")
    }

    /// Starts a server with this text as its scenario.
    ///
    /// # Panics
    /// If the text is not a scenario, or the machine has no loopback.
    #[track_caller]
    pub fn play(scenario: &str) -> Self {
        let scenario = ModelScenario::parse(scenario);
        Self::start(scenario.unwrap_or_else(|error| panic!("not a scenario: {error}")))
    }

    /// Starts a server on this port, or on a free one if it is 0.
    pub fn bind(scenario: ModelScenario, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(ServerShared::new(scenario));
        let acceptor = thread::Builder::new().name("scripted-model".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        })?;
        Ok(Self { address, shared, acceptor: Some(acceptor) })
    }

    /// Returns the `base_url` of a model provider.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns all requests so far, in order.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.lock().requests.clone()
    }

    /// Waits for a matching request; fails the test if none arrives.
    #[track_caller]
    pub fn wait_for_request(
        &self,
        what: &str,
        is_wanted: impl Fn(&RecordedRequest) -> bool,
    ) -> RecordedRequest {
        eventually(what, || {
            let state = self.shared.lock();
            let found = state.requests.iter().find(|recorded| is_wanted(recorded)).cloned();
            found.ok_or_else(|| summary(&state.requests))
        })
    }

    /// Waits until a stream reaches this hold.
    #[track_caller]
    pub fn wait_for_hold(&self, name: &str) {
        eventually(&format!("a stream at the hold `{name}`"), || {
            let state = self.shared.lock();
            let held = state.held.iter().any(|held| held == name);
            held.then_some(()).ok_or_else(|| summary(&state.requests))
        });
    }

    /// Releases the streams at this hold, and all that reach it later.
    pub fn release(&self, name: &str) {
        self.shared.release(name);
    }

    /// Appends the threads of another scenario to the current ones.
    pub fn add(&self, scenario: ModelScenario) {
        self.shared.lock().script.add(scenario.threads);
    }

    /// Returns the number of answers in progress.
    pub fn open_streams(&self) -> usize {
        let open = |recorded: &&RecordedRequest| recorded.outcome == AnswerOutcome::Open;
        self.shared.lock().requests.iter().filter(open).count()
    }

    /// Describes the requests that were not scripted.
    pub fn unexpected(&self) -> Vec<String> {
        self.shared.lock().unexpected()
    }

    /// Describes the scripted answers that were not requested.
    pub fn left_over(&self) -> Vec<String> {
        self.shared.lock().script.left_over()
    }

    /// Fails the test if any request was not scripted.
    #[track_caller]
    pub fn assert_nothing_unexpected(&self) {
        let unexpected = self.unexpected();
        assert!(unexpected.is_empty(), "unexpected requests to the model: {unexpected:#?}");
    }

    /// Fails the test if a request was not scripted, or a scripted answer was not requested.
    #[track_caller]
    pub fn assert_all_as_scripted(&self) {
        self.assert_nothing_unexpected();
        let left = self.left_over();
        assert!(left.is_empty(), "scripted answers were not requested: {left:#?}");
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.stop();
        // The connection wakes the acceptor, which then sees the stop flag. If connecting fails,
        // the acceptor is already awake.
        drop(TcpStream::connect(self.address));
        if let Some(acceptor) = self.acceptor.take()
            && acceptor.join().is_err()
            && !thread::panicking()
        {
            panic!("a thread of the scripted model panicked");
        }
    }
}

/// The state that a server's threads share.
#[derive(Debug)]
pub(super) struct ServerShared {
    state: Mutex<ServerState>,
    changed: Condvar,
    /// A text that makes ids unique across servers, because a thread may outlive its server.
    pub(super) nonce: String,
}

struct ServerState {
    script: Script,
    requests: Vec<RecordedRequest>,
    /// Requests to paths that the API does not have.
    strays: Vec<String>,
    /// The holds where streams are waiting now.
    held: Vec<String>,
    released: BTreeSet<String>,
    stopping: bool,
}

impl std::fmt::Debug for ServerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "State({})", summary(&self.requests))
    }
}

impl ServerState {
    fn unexpected(&self) -> Vec<String> {
        let requests = self.requests.iter().filter_map(|recorded| match &recorded.served {
            ServedAnswer::Unexpected(why) => {
                Some(format!("request {}: {why}", recorded.request.number))
            }
            ServedAnswer::Scripted(_) | ServedAnswer::Hidden(_) | ServedAnswer::Default => None,
        });
        requests.chain(self.strays.iter().cloned()).collect()
    }
}

impl ServerShared {
    fn new(scenario: ModelScenario) -> Self {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let started = STARTED.fetch_add(1, Ordering::Relaxed);
        let state = ServerState {
            script: Script::new(scenario),
            requests: Vec::new(),
            strays: Vec::new(),
            held: Vec::new(),
            released: BTreeSet::new(),
            stopping: false,
        };
        let nonce = format!("{:x}{started:x}", std::process::id());
        Self { state: Mutex::new(state), changed: Condvar::new(), nonce }
    }

    fn lock(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) {
        self.lock().stopping = true;
        self.changed.notify_all();
    }

    fn release(&self, name: &str) {
        self.lock().released.insert(name.to_owned());
        self.changed.notify_all();
    }

    /// Waits for this time, or until the client disconnects.
    pub(super) fn pause(&self, stream: &TcpStream, pause: Duration) -> io::Result<()> {
        let deadline = Deadline::after(pause);
        self.wait(stream, |_| deadline.passed(), || deadline.left())
    }

    /// Waits until the hold is released, or the client disconnects.
    pub(super) fn hold(&self, stream: &TcpStream, name: &str) -> io::Result<()> {
        self.lock().held.push(name.to_owned());
        let waited = self.wait(stream, |state| state.released.contains(name), || POLL_INTERVAL);
        let mut state = self.lock();
        if let Some(at) = state.held.iter().position(|held| held == name) {
            state.held.remove(at);
        }
        waited
    }

    /// Waits until the client disconnects.
    pub(super) fn hang(&self, stream: &TcpStream) -> io::Result<()> {
        self.wait(stream, |_| false, || POLL_INTERVAL)
    }

    fn wait(
        &self,
        stream: &TcpStream,
        done: impl Fn(&ServerState) -> bool,
        next: impl Fn() -> Duration,
    ) -> io::Result<()> {
        let mut state = self.lock();
        while !done(&state) {
            if state.stopping || is_disconnected(stream) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            let waited = self.changed.wait_timeout(state, next().min(POLL_INTERVAL));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// Records a request and returns its scripted answer.
    fn record_request(&self, headers: BTreeMap<String, String>, body: Value) -> TakenRequest {
        let mut state = self.lock();
        let request = ModelRequest::new(state.requests.len() + 1, headers, body);
        let (served, response) = state.script.answer(&request);
        let outcome = AnswerOutcome::Open;
        state.requests.push(RecordedRequest {
            request: request.clone(),
            served: served.clone(),
            outcome,
        });
        TakenRequest { usage: state.script.usage(), request, served, response }
    }

    pub(super) fn record(&self, number: usize, outcome: AnswerOutcome) {
        if let Some(recorded) = self.lock().requests.get_mut(number - 1) {
            recorded.outcome = outcome;
        }
    }

    fn refuse(&self, number: usize, why: &str) -> PlainResponse {
        if let Some(recorded) = self.lock().requests.get_mut(number - 1) {
            recorded.served = ServedAnswer::Unexpected(why.to_owned());
            recorded.outcome = AnswerOutcome::Answered;
        }
        refusal(500, &format!("not scripted: {why}"))
    }

    fn stray(&self, message: &HttpRequest, why: &str) -> PlainResponse {
        let what = format!("{} {}: {why}", message.method, message.path);
        self.lock().strays.push(what.clone());
        refusal(404, &what)
    }
}

struct TakenRequest {
    usage: super::scenario::ScriptedUsage,
    request: ModelRequest,
    served: ServedAnswer,
    response: Option<super::scenario::Response>,
}

fn accept(listener: &TcpListener, shared: &Arc<ServerShared>) {
    let mut connections: Vec<JoinHandle<()>> = Vec::new();
    for stream in listener.incoming() {
        if shared.lock().stopping {
            break;
        }
        connections.retain(|connection| !connection.is_finished());
        // A connection that is lost before it is accepted is ignored.
        let Ok(stream) = stream else { continue };
        let shared = Arc::clone(shared);
        connections.push(thread::spawn(move || serve(stream, &shared)));
    }
    let panicked = connections.into_iter().filter_map(|connection| connection.join().err()).count();
    assert!(panicked == 0, "{panicked} connections of the scripted model panicked");
}

/// Answers one request. Connection errors are ignored, because the client notices them.
fn serve(mut stream: TcpStream, shared: &ServerShared) {
    let prepared = stream
        .set_nodelay(true)
        .and_then(|()| stream.set_read_timeout(Some(POLL_INTERVAL)))
        .and_then(|()| stream.set_write_timeout(Some(TIMEOUT)));
    let deadline = Deadline::after(TIMEOUT);
    let read = http::read(&mut DeadlineReader { stream: &stream, shared, deadline });
    if let (Ok(()), Ok(message)) = (prepared, read)
        && let Some(plain) = route(&mut stream, shared, message)
    {
        drop(play::answer(&mut stream, &plain));
    }
}

/// Streams the answer of a request, or returns an answer that is not a stream.
fn route(
    stream: &mut TcpStream,
    shared: &ServerShared,
    message: HttpRequest,
) -> Option<PlainResponse> {
    let path = message.path.split('?').next().unwrap_or_default();
    match (message.method.as_str(), path) {
        ("POST", "/v1/responses") => model_call(stream, shared, message),
        ("GET", "/v1/models") => {
            Some(json_answer(&json!({"object": "list", "data": [], "models": []})))
        }
        ("GET", "/control/state") => Some(json_answer(&shared.lock().to_json())),
        ("GET", "/control/requests") => Some(json_answer(&requests_json(&shared.lock().requests))),
        ("POST", _) if path.starts_with(RELEASE) => Some(released(shared, &message, path)),
        _ => Some(shared.stray(&message, "no such path")),
    }
}

fn released(shared: &ServerShared, message: &HttpRequest, path: &str) -> PlainResponse {
    match path.strip_prefix(RELEASE).and_then(http::percent_decode) {
        Some(name) => {
            shared.release(&name);
            json_answer(&json!({}))
        }
        None => shared.stray(message, "the name of the hold is not valid percent-encoding"),
    }
}

fn model_call(
    stream: &mut TcpStream,
    shared: &ServerShared,
    message: HttpRequest,
) -> Option<PlainResponse> {
    let Ok(body) = serde_json::from_slice(&message.body) else {
        return Some(shared.stray(&message, "the body is not JSON, or is compressed"));
    };
    let taken = shared.record_request(message.headers, body);
    let number = taken.request.number;
    let Some(response) = taken.response else {
        let ServedAnswer::Unexpected(why) = taken.served else { return None };
        return Some(shared.refuse(number, &why));
    };
    match play::play(stream, shared, &taken.request, &response, taken.usage) {
        Ok(()) => None,
        Err(why) => Some(shared.refuse(number, &why)),
    }
}

fn json_answer(body: &Value) -> PlainResponse {
    PlainResponse { status: 200, headers: BTreeMap::new(), body: body.to_string() }
}

fn refusal(status: u16, why: &str) -> PlainResponse {
    let body = json!({"error": {"message": why, "code": "not_scripted"}}).to_string();
    PlainResponse { status, headers: BTreeMap::new(), body }
}

impl ServerState {
    fn to_json(&self) -> Value {
        json!({
            "requests": self.requests.len(),
            "held": self.held,
            "unexpected": self.unexpected(),
            "left_over": self.script.left_over(),
        })
    }
}

fn requests_json(requests: &[RecordedRequest]) -> Value {
    let one = |recorded: &RecordedRequest| {
        let RecordedRequest { request, served, outcome } = recorded;
        json!({
            "number": request.number, "thread": request.thread(), "turn": request.turn(),
            "prompt": request.prompt(), "served": format!("{served:?}"),
            "outcome": format!("{outcome:?}"), "body": request.body,
        })
    };
    requests.iter().map(one).collect()
}

fn summary(requests: &[RecordedRequest]) -> String {
    let one = |recorded: &RecordedRequest| {
        let (number, outcome) = (recorded.request.number, recorded.outcome);
        format!("{number}: {:?} {outcome:?}", recorded.served)
    };
    let all: Vec<String> = requests.iter().map(one).collect();
    format!("{} requests: {}", all.len(), all.join("; "))
}

/// Whether the peer has closed its end.
fn is_disconnected(stream: &TcpStream) -> bool {
    let mut byte = [0_u8; 1];
    match recv(stream, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((_, length)) => length == 0,
        Err(error) => error != rustix::io::Errno::AGAIN,
    }
}

/// A reader with a deadline, which also ends when the server stops.
struct DeadlineReader<'a> {
    stream: &'a TcpStream,
    shared: &'a ServerShared,
    deadline: Deadline,
}

impl io::Read for DeadlineReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match (&mut &*self.stream).read(buffer) {
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) && !self.deadline.passed()
                        && !self.shared.lock().stopping => {}
                read => return read,
            }
        }
    }
}
