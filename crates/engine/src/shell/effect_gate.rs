//! Grants permits to the effects that others can see: pushes, pull requests, merges into a branch
//! that users share, and hooks.

use super::effects::EffectName;

/// The permission to carry out one effect that others can see. Only [`EffectGate`] creates permits, so that such an
/// effect cannot be started without a request to the gate.
#[derive(Debug)]
pub(crate) struct Permit {
    effect: EffectName,
}

impl Permit {
    /// The effect to which this permit applies.
    pub(crate) fn effect(&self) -> &EffectName {
        &self.effect
    }
}

/// Decides whether this machine may carry out an effect.
#[derive(Clone, Copy, Debug, Default)]
pub enum EffectGate {
    /// No other machine works on the same runs, so every effect is permitted.
    #[default]
    Local,
}

impl EffectGate {
    pub(crate) fn permit(self, effect: EffectName) -> Permit {
        match self {
            EffectGate::Local => Permit { effect },
        }
    }
}
