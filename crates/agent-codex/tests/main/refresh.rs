//! Several sessions refresh the user's token at the same time, at a token
//! server that accepts each refresh token once, as the real one does.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use provost_agent_codex::prepare;
use serde_json::{Value, json};

use crate::real::{self, AppServer};
use crate::test_env::CodexHomeEnv;

#[test]
fn parallel_token_refresh_succeeds() {
    let Some(codex) = real::codex() else { return };
    let env = CodexHomeEnv::new();
    let expired = tokens("refresh-0", EXPIRED);
    let login = json!({
        "auth_mode": "chatgpt", "tokens": expired, "last_refresh": "2026-01-01T00:00:00Z",
    });
    env.write("home/.codex/auth.json", &login.to_string());
    let server = TokenServer::start();
    let sessions = ["s1", "s2", "s3"].map(|name| prepare(&env.session(name)).unwrap());

    let has_token: Vec<bool> = thread::scope(|scope| {
        let asked: Vec<_> = sessions
            .iter()
            .map(|session| {
                let mut command = real::command(&env, &codex, &session.dir);
                command.env("CODEX_REFRESH_TOKEN_URL_OVERRIDE", &server.url);
                scope.spawn(move || has_token(AppServer::start_as(command)))
            })
            .collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    });

    assert_eq!(has_token, [true; 3]);
    let stored: Value =
        serde_json::from_slice(&fs::read(env.path("home/.codex/auth.json")).unwrap()).unwrap();
    assert_eq!(stored["tokens"]["refresh_token"], "refresh-1", "the user has the new token");
    for session in &sessions {
        assert!(session.dir.join("auth.json").is_symlink());
    }
    assert_eq!(server.end(), ["refresh-0"], "one refresh token was spent, once");
}

const EXPIRED: u64 = 1_000_000_000;
const VALID: u64 = 4_000_000_000;

fn has_token(mut server: AppServer) -> bool {
    let status = server.ask("getAuthStatus", json!({"includeToken": true, "refreshToken": false}));
    status["authToken"].is_string()
}

fn tokens(refresh: &str, expiry: u64) -> Value {
    let part = |value: Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let account =
        json!({"chatgpt_account_id": "a", "chatgpt_plan_type": "plus", "chatgpt_user_id": "u"});
    let claims = json!({"exp": expiry, "email": "a@b.c", "https://api.openai.com/auth": account});
    let token = format!("{}.{}.c2ln", part(json!({"alg": "none"})), part(claims));
    json!({"id_token": token, "access_token": token, "refresh_token": refresh, "account_id": "a"})
}

/// Issues new tokens on loopback.
struct TokenServer {
    url: String,
    address: std::net::SocketAddr,
    spent: Receiver<String>,
    thread: JoinHandle<()>,
}

impl TokenServer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, spent) = channel();
        let thread = thread::spawn(move || serve(&listener, &sender));
        Self { url: format!("http://{address}/oauth/token"), address, spent, thread }
    }

    /// Stops the server and returns the accepted refresh tokens.
    fn end(self) -> Vec<String> {
        // A connection without a request is the signal to stop.
        drop(TcpStream::connect(self.address).unwrap());
        self.thread.join().unwrap();
        self.spent.into_iter().collect()
    }
}

fn serve(listener: &TcpListener, spent: &Sender<String>) {
    let mut number = 0;
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let Some(request) = read_request(&stream) else { return };
        let (status, answer) = if request["refresh_token"] == format!("refresh-{number}") {
            spent.send(format!("refresh-{number}")).unwrap();
            number += 1;
            ("200 OK", tokens(&format!("refresh-{number}"), VALID))
        } else {
            let error = json!({"error": {"code": "refresh_token_reused", "message": "reused"}});
            ("401 Unauthorized", error)
        };
        let body = answer.to_string();
        let length = body.len();
        let head =
            format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n");
        write!(stream, "{head}content-type: application/json\r\n\r\n{body}").unwrap();
    }
}

/// Returns the body of a request; None if none exists.
fn read_request(stream: &TcpStream) -> Option<Value> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}
