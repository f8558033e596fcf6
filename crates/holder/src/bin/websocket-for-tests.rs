//! A listening command for this crate's tests. `websocket-for-tests SOCKET STEP…` runs its steps in
//! order and exits with 0, or panics if a step's expectation is not met.

use std::fs;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitCode;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let socket = args.next().unwrap_or_default();
    let mut server = ScriptedServer { socket, listener: None, peer: None, key: String::new() };
    for step in args {
        let (name, value) = step.split_once(':').unwrap_or((&step, ""));
        if let Err(error) = server.step(name, value) {
            panic!("{step}: {error}");
        }
    }
    ExitCode::SUCCESS
}

struct ScriptedServer {
    socket: String,
    listener: Option<UnixListener>,
    peer: Option<BufReader<UnixStream>>,
    /// The key of the upgrade request that is still to be answered.
    key: String,
}

impl ScriptedServer {
    fn step(&mut self, name: &str, value: &str) -> io::Result<()> {
        match name {
            // Reading a named pipe to its end makes this step wait for the test.
            "await" => fs::read(value).map(drop),
            "listen" => {
                self.listener = Some(UnixListener::bind(&self.socket)?);
                Ok(())
            }
            // The call fails if the socket's path no longer exists.
            "chmod" => fs::set_permissions(&self.socket, fs::Permissions::from_mode(0o600)),
            "accept" => self.request().and_then(|()| self.answer()),
            "request" => self.request(),
            "answer" => self.answer(),
            "refuse" => self.refuse(),
            "visit" => self.visit(),
            "text" => self.send(0x81, value.as_bytes()),
            "part" => self.send(0x01, value.as_bytes()),
            "middle" => self.send(0x00, value.as_bytes()),
            "last" => self.send(0x80, value.as_bytes()),
            "ping" => self.send(0x89, value.as_bytes()),
            "binary" => self.send(0x82, value.as_bytes()),
            "close" => self.send(0x88, &[&[0x03, 0xe8], value.as_bytes()].concat()),
            "big" => self.send(0x81, &vec![b'x'; number(value)]),
            "batch" => self.batch(number(value)),
            "flood" => (0..number(value)).try_for_each(|at| self.send(0x81, line(at).as_bytes())),
            "pong" => self.expect(0x8a, value.as_bytes()),
            "closed" => self.expect(0x88, &[0x03, 0xe8]),
            "hear" => self.expect(0x81, value.as_bytes()),
            "echo" => (0..number(value)).try_for_each(|_| self.echo()),
            "say" => writeln!(io::stdout(), "{value}"),
            "complain" => writeln!(io::stderr(), "{value}"),
            "stdin" => self.send(0x81, io::read_to_string(io::stdin())?.as_bytes()),
            "hangup" => {
                self.peer = None;
                Ok(())
            }
            "park" => loop {
                std::thread::park();
            },
            _ => Err(io::Error::other("no such step")),
        }
    }

    fn answer(&mut self) -> io::Result<()> {
        let keyed = format!("{}258EAFA5-E914-47DA-95CA-C5AB0DC85B11", self.key);
        let accept = STANDARD.encode(Sha1::digest(keyed));
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-accept: {accept}\r\n\r\n"
        );
        self.peer()?.get_mut().write_all(answer.as_bytes())
    }

    /// Connects to another server as a client, and prints the status line of its response.
    fn visit(&self) -> io::Result<()> {
        let mut server = UnixStream::connect(&self.socket)?;
        // A client may be rejected before it sends its request, so this write may fail.
        server.write_all(b"GET / HTTP/1.1\r\nSec-WebSocket-Key: a\r\n\r\n").ok();
        let mut answer = [0; 100];
        let read = server.read(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer[..read]);
        writeln!(io::stdout(), "{}", answer.lines().next().unwrap_or_default())
    }

    fn refuse(&mut self) -> io::Result<()> {
        self.request()?;
        self.peer()?.get_mut().write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
    }

    /// Accepts the next connection and reads its request.
    fn request(&mut self) -> io::Result<()> {
        let listener = self.listener.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        self.peer = Some(BufReader::new(listener.accept()?.0));
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.peer()?.read_exact(&mut byte)?;
            request.push(byte[0]);
        }
        let request = String::from_utf8_lossy(&request).into_owned();
        let key = request.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "));
        self.key = key.ok_or(io::ErrorKind::InvalidData)?.to_owned();
        Ok(())
    }

    fn send(&mut self, first: u8, payload: &[u8]) -> io::Result<()> {
        let frame = frame(first, payload);
        self.peer()?.get_mut().write_all(&frame)
    }

    /// Sends many messages in one write.
    fn batch(&mut self, count: usize) -> io::Result<()> {
        let frames: Vec<u8> = (0..count).flat_map(|at| frame(0x81, line(at).as_bytes())).collect();
        self.peer()?.get_mut().write_all(&frames)
    }

    fn echo(&mut self) -> io::Result<()> {
        let (first, payload) = self.receive()?;
        self.send(first, &[b"got ", payload.as_slice()].concat())
    }

    fn expect(&mut self, first: u8, payload: &[u8]) -> io::Result<()> {
        let received = self.receive()?;
        assert!(received == (first, payload.to_vec()), "received {received:02x?}");
        Ok(())
    }

    /// Reads a client's frame, which must be masked.
    fn receive(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let peer = self.peer()?;
        let mut head = [0; 2];
        peer.read_exact(&mut head)?;
        assert!(head[1] & 0x80 != 0, "a client masks its frames");
        let length = match head[1] & 0x7f {
            126 => u64::from(u16::from_be_bytes(bytes(peer)?)),
            127 => u64::from_be_bytes(bytes(peer)?),
            short => u64::from(short),
        };
        let mask: [u8; 4] = bytes(peer)?;
        let mut payload = Vec::new();
        peer.take(length).read_to_end(&mut payload)?;
        payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
        Ok((head[0], payload))
    }

    fn peer(&mut self) -> io::Result<&mut BufReader<UnixStream>> {
        Ok(self.peer.as_mut().ok_or(io::ErrorKind::NotConnected)?)
    }
}

fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length @ ..126), _) => frame.push(length),
        (_, Ok(length)) => {
            frame.push(126);
            frame.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            frame.push(127);
            frame.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(payload);
    frame
}

fn line(at: usize) -> String {
    format!("message {at}")
}

fn bytes<const N: usize>(source: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    source.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn number(text: &str) -> usize {
    text.parse().unwrap_or(0)
}
