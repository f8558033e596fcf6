//! The launches of this boot whose processes may still be alive.
//!
//! A launch is added before its holder starts. It is removed when its holder is seen to exit on its
//! own, because a holder exits only when no process of the launch is left. A launch whose holder
//! was killed remains until the next boot. The daemon writes the file but trusts only its own copy
//! in memory. The next daemon and the holders read the file. An agent that runs as the user without
//! a sandbox can change this file, like all of the user's files.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::process::{self, ProcessInstance, boot_id};

/// The maximum size of the file in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// The launches, and the boot to which they belong.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchRegister {
    boot_id: String,
    launches: Vec<RegisteredLaunch>,
}

/// A launch, check, hook or setup whose processes may still be alive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredLaunch {
    pub key: String,
    /// The start time of the launch, in clock ticks since boot. None of its processes is older.
    pub started: u64,
    /// The holder. `None` while it is starting.
    pub holder: Option<ProcessInstance>,
    /// Whether the holder is known to have exited before it was identified.
    #[serde(default)]
    pub lost: bool,
    /// The daemon that started the launch, and that daemon's ancestors. They adopt the launch's
    /// processes if the holder is killed.
    pub ancestors: Vec<HolderAncestor>,
    pub control_groups: String,
}

/// An ancestor of a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderAncestor {
    pub pid: u32,
    pub start_time: u64,
}

impl RegisteredLaunch {
    /// Creates the entry for a launch that this process is about to start.
    pub fn starting_now(key: &str) -> io::Result<RegisteredLaunch> {
        let own = std::process::id();
        let family = process::family(own)?;
        let ancestors = family
            .iter()
            .map(|stat| HolderAncestor { pid: stat.pid, start_time: stat.start_time })
            .collect();
        Ok(RegisteredLaunch {
            key: key.to_owned(),
            started: process::ticks_since_boot(),
            holder: None,
            lost: false,
            ancestors,
            control_groups: process::control_groups(own)?.unwrap_or_default(),
        })
    }

    /// Whether processes of the launch may be alive without a holder. While the holder is starting,
    /// the daemon that starts it is responsible for the launch.
    fn is_lost(&self, boot: &str) -> io::Result<bool> {
        if self.lost {
            return Ok(true);
        }
        let alive = |pid, start_time| {
            ProcessInstance { pid, start_time, boot_id: boot.to_owned() }.is_alive()
        };
        let alive = match (&self.holder, self.ancestors.first()) {
            (Some(holder), _) => holder.is_alive(),
            (None, Some(daemon)) => alive(daemon.pid, daemon.start_time),
            (None, None) => Ok(false),
        };
        Ok(!alive?)
    }
}

impl LaunchRegister {
    /// Reads the register. It is empty if the file is missing or belongs to another boot.
    pub fn read(path: &Path) -> io::Result<LaunchRegister> {
        let boot_id = boot_id()?;
        let empty = LaunchRegister { boot_id: boot_id.clone(), launches: Vec::new() };
        let about = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(empty),
            about => about?,
        };
        if about.len() > MAX_BYTES || !about.is_file() {
            return Err(io::Error::other(
                "the register of launches is not a regular file, or is too large",
            ));
        }
        let found: LaunchRegister = serde_json::from_slice(&fs::read(path)?)?;
        Ok(if found.boot_id == boot_id { found } else { empty })
    }

    /// Replaces the file. It does not have to survive a reboot, so it is not synced.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let new = path.with_extension("new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        fs::rename(&new, path)
    }

    /// Returns all launches.
    pub fn launches(&self) -> &[RegisteredLaunch] {
        &self.launches
    }

    pub fn has(&self, key: &str) -> bool {
        self.launches.iter().any(|launch| launch.key == key)
    }

    /// Adds a launch. An existing entry keeps its start time and holder.
    pub fn enter(&mut self, launch: RegisteredLaunch) {
        if !self.has(&launch.key) {
            self.launches.push(launch);
        }
    }

    pub fn set_holder(&mut self, key: &str, holder: ProcessInstance) {
        for launch in self.launches.iter_mut().filter(|launch| launch.key == key) {
            launch.holder.get_or_insert_with(|| holder.clone());
        }
    }

    /// Removes a launch that has no processes left.
    pub fn remove(&mut self, key: &str) {
        self.launches.retain(|launch| launch.key != key);
    }

    /// Returns the key of this holder's launch.
    pub fn key_of(&self, holder: &ProcessInstance) -> Option<&str> {
        let mut launches = self.launches.iter();
        launches
            .find(|launch| launch.holder.as_ref() == Some(holder))
            .map(|launch| launch.key.as_str())
    }

    /// Records that a launch has lost its holder, whose process is unknown.
    pub fn mark_lost(&mut self, key: &str) {
        for launch in self.launches.iter_mut().filter(|launch| launch.key == key) {
            launch.lost = true;
        }
    }

    /// Returns this register, or an empty one if this register belongs to another boot. If the
    /// current boot id cannot be read, returns this register.
    #[must_use]
    pub fn of_this_boot(self) -> LaunchRegister {
        match boot_id() {
            Ok(boot_id) if self.boot_id != boot_id => {
                LaunchRegister { boot_id, launches: Vec::new() }
            }
            Ok(_) | Err(_) => self,
        }
    }

    /// Returns the launches that have lost their holders.
    pub fn lost(&self) -> io::Result<Vec<&RegisteredLaunch>> {
        let mut lost = Vec::new();
        for launch in &self.launches {
            if launch.is_lost(&self.boot_id)? {
                lost.push(launch);
            }
        }
        Ok(lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unremoved_launch_without_holder_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("register");
        let mut register = LaunchRegister::read(&path).unwrap();
        register.enter(RegisteredLaunch::starting_now("a").unwrap());
        assert!(register.lost().unwrap().is_empty(), "this process starts it");
        let own = ProcessInstance::own().unwrap();
        register.set_holder("a", own.clone());
        assert!(register.lost().unwrap().is_empty(), "its holder lives");
        register.enter(RegisteredLaunch::starting_now("b").unwrap());
        register.set_holder("b", ProcessInstance { start_time: 1, ..own.clone() });
        let keys = |register: &LaunchRegister| -> Vec<String> {
            register.lost().unwrap().iter().map(|launch| launch.key.clone()).collect()
        };
        assert_eq!(keys(&register), ["b"]);
        register.write(&path).unwrap();
        assert_eq!(LaunchRegister::read(&path).unwrap(), register);
        assert_eq!(register.key_of(&own), Some("a"));
        register.remove("b");
        assert!(keys(&register).is_empty());
    }

    #[test]
    fn register_of_another_boot_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("register");
        let mut register = LaunchRegister { boot_id: "other".into(), ..LaunchRegister::default() };
        register.enter(RegisteredLaunch::starting_now("a").unwrap());
        register.write(&path).unwrap();
        assert!(!LaunchRegister::read(&path).unwrap().has("a"));
    }
}
