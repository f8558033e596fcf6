//! Access rules: the daemon of the holder's home may request everything, the operator only terminal
//! operations.
//!
//! A holder outlives daemons, so it cannot recognize its daemon by pid. Instead, the daemon is the
//! process that holds the lock of the home's ledger, according to the kernel, and does not descend
//! from a holder. Any other process that could take that lock could write to the ledger anyway.

use std::os::fd::AsFd;

use provost_sys::origin::{Boundary, ProcessOrigin};
use provost_sys::peer::{self, PinnedPeer, Pinning};
use provost_sys::process;
use provost_sys::register::LaunchRegister;

use crate::wire::{HolderFaultCode, HolderOp, HolderReply, HolderRequest};

/// The access rules of one holder.
#[derive(Debug, Clone)]
pub(super) struct Admission {
    boundary: Option<Boundary>,
}

/// A peer that was allowed to connect.
#[derive(Debug)]
pub(super) struct AdmittedPeer {
    peer: PinnedPeer,
    role: PeerRole,
}

/// The requests that a peer may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PeerRole {
    /// The peer may make all requests.
    Daemon,
    /// The peer may view the terminal, type into it, and receive notices.
    Operator,
}

impl Admission {
    pub(super) fn new(boundary: Option<Boundary>) -> Self {
        Self { boundary }
    }

    /// Checks whether the peer of a newly accepted connection may connect. The error is the reason
    /// for a rejection.
    pub(super) fn admit(&self, socket: impl AsFd) -> Result<AdmittedPeer, String> {
        let pinning = self.boundary.as_ref().map_or(Pinning::Best, |boundary| boundary.pinning);
        let failed = |why: peer::Error| {
            format!("this process is not permitted to connect to the holder: {why}")
        };
        let peer = PinnedPeer::pin(socket, pinning).map_err(failed)?;
        let role = self.role(&peer).map_err(failed)?;
        let role = role.ok_or(
            "this process is not permitted to connect to the holder: it belongs to an agent, check or hook",
        )?;
        Ok(AdmittedPeer { peer, role })
    }

    fn role(&self, peer: &PinnedPeer) -> Result<Option<PeerRole>, peer::Error> {
        let Some(boundary) = &self.boundary else {
            let own = std::process::id();
            let below = process::family(peer.pid())?.iter().any(|stat| stat.pid == own);
            peer.check()?;
            return Ok((!below).then_some(PeerRole::Daemon));
        };
        let register = LaunchRegister::read(&boundary.register)?;
        Ok(match boundary.identify(peer, &register)? {
            ProcessOrigin::Daemon => Some(PeerRole::Daemon),
            ProcessOrigin::Operator => Some(PeerRole::Operator),
            ProcessOrigin::Supervised { .. }
            | ProcessOrigin::Marked { .. }
            | ProcessOrigin::Helper
            | ProcessOrigin::Unproven { .. } => None,
        })
    }
}

impl AdmittedPeer {
    /// Returns the request if the peer may make it and is still the process that connected.
    pub(super) fn allow(&self, request: HolderRequest) -> Result<HolderRequest, HolderReply> {
        let refused =
            |why: String| HolderReply::refused(Some(request.id), HolderFaultCode::Forbidden, why);
        self.peer.check().map_err(|why| refused(why.to_string()))?;
        if self.role == PeerRole::Daemon || is_for_operators(&request.op) {
            return Ok(request);
        }
        Err(refused(
            "only the daemon is permitted to make this request; use a provost command instead"
                .into(),
        ))
    }
}

fn is_for_operators(op: &HolderOp) -> bool {
    match op {
        HolderOp::View
        | HolderOp::Type { .. }
        | HolderOp::Resize { .. }
        | HolderOp::Attended { .. }
        | HolderOp::Follow
        | HolderOp::Ping => true,
        HolderOp::Write { .. }
        | HolderOp::Mask { .. }
        | HolderOp::CloseStdin
        | HolderOp::Signal { .. }
        | HolderOp::Stop { .. }
        | HolderOp::Limit { .. } => false,
    }
}
