//! Who may speak with the holder: the daemon of its home about everything, the operator about the terminal.
//!
//! A holder outlives daemons, so it does not know its daemon by name. The daemon is the process that holds the lock of
//! the home's ledger, as the kernel says, and that is below no holder. Whoever else could take that lock could write
//! the ledger itself.

use std::os::fd::AsFd;

use provost_sys::origin::{Boundary, Origin};
use provost_sys::peer::{self, Peer, Pinning};
use provost_sys::process;
use provost_sys::register::Register;

use crate::wire::{FaultCode, Op, Reply, Request};

/// The rule of one holder.
#[derive(Debug, Clone)]
pub(super) struct Admission {
    boundary: Option<Boundary>,
}

/// A peer that may connect.
#[derive(Debug)]
pub(super) struct Admitted {
    peer: Peer,
    role: Role,
}

/// What a peer may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Everything.
    Daemon,
    /// To look at the terminal and to type there, and to be told what happens.
    Operator,
}

impl Admission {
    pub(super) fn new(boundary: Option<Boundary>) -> Self {
        Self { boundary }
    }

    /// Admits the peer of a connection that was just accepted, or says why not.
    pub(super) fn admit(&self, socket: impl AsFd) -> Result<Admitted, String> {
        let pinning = self.boundary.as_ref().map_or(Pinning::Best, |boundary| boundary.pinning);
        let failed =
            |why: peer::Error| format!("this process may not speak with the holder: {why}");
        let peer = Peer::pin(socket, pinning).map_err(failed)?;
        let role = self.role(&peer).map_err(failed)?;
        let role = role
            .ok_or("this process may not speak with the holder: an agent, check or hook may not")?;
        Ok(Admitted { peer, role })
    }

    fn role(&self, peer: &Peer) -> Result<Option<Role>, peer::Error> {
        let Some(boundary) = &self.boundary else {
            let own = std::process::id();
            let below = process::family(peer.pid())?.iter().any(|stat| stat.pid == own);
            peer.check()?;
            return Ok((!below).then_some(Role::Daemon));
        };
        let register = Register::read(&boundary.register)?;
        Ok(match boundary.judge(peer, &register)? {
            Origin::Daemon => Some(Role::Daemon),
            Origin::Operator => Some(Role::Operator),
            Origin::Held { .. }
            | Origin::Marked { .. }
            | Origin::Helper
            | Origin::Unproven { .. } => None,
        })
    }
}

impl Admitted {
    /// Lets a request through if the peer may make it and still is the process that connected.
    pub(super) fn allow(&self, request: Request) -> Result<Request, Reply> {
        let refused = |why: String| Reply::refused(Some(request.id), FaultCode::Forbidden, why);
        self.peer.check().map_err(|why| refused(why.to_string()))?;
        if self.role == Role::Daemon || is_for_operators(&request.op) {
            return Ok(request);
        }
        Err(refused("only the daemon may ask the holder for this; use provost's commands".into()))
    }
}

fn is_for_operators(op: &Op) -> bool {
    match op {
        Op::View
        | Op::Type { .. }
        | Op::Resize { .. }
        | Op::Attended { .. }
        | Op::Follow
        | Op::Ping => true,
        Op::Write { .. }
        | Op::Mask { .. }
        | Op::CloseStdin
        | Op::Signal { .. }
        | Op::Stop { .. }
        | Op::Limit { .. } => false,
    }
}
