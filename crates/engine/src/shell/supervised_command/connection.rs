//! A connection to a running holder, and requests to it.

use std::{io, path::Path, time::Duration};

use provost_holder::{
    ProcessInstance, client, launch_dir,
    wire::{HolderMessage, HolderNotice, HolderOp, HolderRequest, OutputPause},
};
use provost_sys::process::descriptor_path;
use rustix::fs::{Mode, OFlags};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
};

use super::{ANSWER_TIMEOUT, OnFullDisk, blocking};

/// A connection to a running holder, which delivers notices.
#[derive(Debug)]
pub(crate) struct HolderConnection {
    pub(super) lines: tokio::io::Lines<BufReader<tokio::net::unix::OwnedReadHalf>>,
    pub(super) writer: tokio::net::unix::OwnedWriteHalf,
    pub(super) next_id: u64,
    /// The process at the other end of the connection.
    pub(super) server: Option<ProcessInstance>,
    /// Whether the holder reported the end of the entire process tree.
    pub(super) reported_gone: bool,
}

impl HolderConnection {
    /// Connects to a holder and requests notices.
    pub(crate) async fn follow(dir: &Path) -> io::Result<HolderConnection> {
        // Connect through the directory, because the full path may be too long for a socket address.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(dir, flags, Mode::empty())?;
        let path = descriptor_path(&handle).join(launch_dir::SOCKET_FILE);
        let stream = UnixStream::connect(path).await?;
        let listens = stream.peer_cred()?.pid().and_then(|pid| u32::try_from(pid).ok());
        let server = listens.and_then(|pid| ProcessInstance::of_pid(pid).ok().flatten());
        let (reader, writer) = stream.into_split();
        let lines = BufReader::new(reader).lines();
        let mut link = HolderConnection { lines, writer, next_id: 1, server, reported_gone: false };
        link.send(HolderOp::Follow).await?;
        Ok(link)
    }

    pub(crate) async fn send(&mut self, op: HolderOp) -> io::Result<()> {
        let mut line = serde_json::to_vec(&HolderRequest::new(self.next_id, op))?;
        self.next_id += 1;
        line.push(b'\n');
        self.writer.write_all(&line).await
    }

    /// Waits until the holder reports the end of its process tree or disconnects.
    pub(in crate::shell) async fn wait_gone(&mut self) {
        while !matches!(self.next_notice().await, None | Some(HolderNotice::Gone)) {}
    }

    /// Like [`HolderConnection::wait_gone`], but returns false as soon as the disk is full, if a full disk is to end
    /// the command.
    pub(super) async fn wait_gone_or_full(&mut self, on_full_disk: OnFullDisk) -> bool {
        let full = HolderNotice::Limit { limited: OutputPause::DiskFull };
        while let Some(notice) = self.next_notice().await {
            if notice == HolderNotice::Gone {
                return true;
            }
            if notice == full && on_full_disk == OnFullDisk::End {
                return false;
            }
        }
        true
    }

    /// Waits for the next notice. Returns `None` when the holder is gone.
    pub(crate) async fn next_notice(&mut self) -> Option<HolderNotice> {
        loop {
            // It does not matter whether the connection is broken or closed: the caller reads the
            // directory next.
            let line = self.lines.next_line().await.ok().flatten()?;
            match HolderMessage::parse(line.as_bytes()) {
                Ok(HolderMessage::Notice(notice)) => {
                    self.reported_gone |= notice == HolderNotice::Gone;
                    return Some(notice);
                }
                Ok(HolderMessage::Reply(_) | HolderMessage::View(_)) | Err(_) => {}
            }
        }
    }
}

/// Sends a request to a running holder and waits for its response.
pub(crate) async fn request(dir: &Path, op: HolderOp) -> Result<(), client::Error> {
    request_within(dir, op, ANSWER_TIMEOUT).await
}

/// Sends a request to a holder that may be stuck, with a time limit.
pub(crate) async fn request_within(
    dir: &Path,
    op: HolderOp,
    time: Duration,
) -> Result<(), client::Error> {
    let dir = dir.to_owned();
    blocking(move || {
        let mut link = client::HolderLink::connect(&dir)?;
        link.set_timeout(time)?;
        link.request(op).map(drop)
    })
    .await
}
