//! The user's private files and sockets, which no sandboxed command can reach.

use std::path::{Path, PathBuf};

/// Paths in the home directory that contain credentials, keys or a history of secrets. The files of
/// agents are not listed, because agents need their own.
const IN_HOME: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".oci",
    ".password-store",
    ".netrc",
    ".git-credentials",
    ".pgpass",
    ".pypirc",
    ".vault-token",
    ".bash_history",
    ".zsh_history",
    ".docker/config.json",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".mozilla",
    ".thunderbird",
    ".pki",
];

/// Paths in the user's configuration directory.
const IN_CONFIG: &[&str] = &[
    "gh",
    "hub",
    "glab-cli",
    "gcloud",
    "git/credentials",
    "op",
    "rclone",
    "sops",
    "google-chrome",
    "chromium",
    // Provost's own settings and the trust store.
    "provost",
];

/// Paths in the user's data directory.
const IN_DATA: &[&str] = &["keyrings", "kwalletd", "containers"];

/// Directories with the sockets of services, such as D-Bus, container engines and tmux.
const SERVICES: &[&str] = &["/run", "/var/run"];

/// Regular files in [`SERVICES`] that programs need.
const NEEDED_IN_SERVICES: &[&str] = &[
    "/run/systemd/resolve/resolv.conf",
    "/run/systemd/resolve/stub-resolv.conf",
    "/run/resolvconf/resolv.conf",
    "/run/NetworkManager/resolv.conf",
    "/run/current-system",
    "/run/booted-system",
    "/run/opengl-driver",
];

/// Temporary directories that all programs share.
pub(crate) const TEMPORARY: &[&str] = &["/tmp", "/var/tmp"];

/// Environment variables that lead to a service of the user: key agents, D-Bus, displays, tmux.
pub const SERVICE_VARIABLES: &[&str] = &[
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_AGENT_INFO",
    "GNOME_KEYRING_CONTROL",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "TMUX",
    "TMUX_PANE",
    "STY",
    "NOTIFY_SOCKET",
    "DOCKER_HOST",
    "KUBECONFIG",
];

/// Variables whose values may be the path of a socket.
pub const SOCKET_VARIABLES: &[&str] = &["SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "XAUTHORITY"];

/// The directories of a user. Missing ones are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserDirs {
    pub home: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`, or its default in the home.
    pub config: Option<PathBuf>,
    /// `XDG_DATA_HOME`, or its default in the home.
    pub data: Option<PathBuf>,
    /// The values of [`SOCKET_VARIABLES`].
    pub sockets: Vec<PathBuf>,
}

impl UserDirs {
    /// Reads the directories from environment variables.
    pub fn from_variables(get: impl Fn(&str) -> Option<PathBuf>) -> Self {
        let absolute = |name: &str| get(name).filter(|path| path.is_absolute());
        let home = absolute("HOME");
        let below = |name: &str| home.as_ref().map(|home| home.join(name));
        Self {
            config: absolute("XDG_CONFIG_HOME").or_else(|| below(".config")),
            data: absolute("XDG_DATA_HOME").or_else(|| below(".local/share")),
            sockets: SOCKET_VARIABLES.iter().filter_map(|name| absolute(name)).collect(),
            home,
        }
    }

    /// Returns the paths to hide. Some of them may not exist.
    pub fn hidden(&self) -> Vec<PathBuf> {
        let all = [(&self.home, IN_HOME), (&self.config, IN_CONFIG), (&self.data, IN_DATA)];
        let private =
            all.iter().filter_map(|(directory, names)| Some((directory.as_ref()?, names)));
        let private = private
            .flat_map(|(directory, names)| names.iter().map(move |name| directory.join(name)));
        let services = SERVICES.iter().map(PathBuf::from);
        private.chain(services).chain(self.sockets.iter().cloned()).collect()
    }
}

/// Returns the files in hidden directories that programs need nevertheless.
pub(crate) fn needed() -> impl Iterator<Item = &'static Path> {
    NEEDED_IN_SERVICES.iter().map(Path::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_move_the_hidden_directories() {
        let hidden = |variables: &[(&str, &str)]| {
            let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
            UserDirs::from_variables(|name| Some(PathBuf::from(find(name)?.1))).hidden()
        };
        let usual = hidden(&[("HOME", "/h")]);
        for path in ["/h/.ssh", "/h/.config/gh", "/h/.local/share/keyrings", "/run"] {
            assert!(usual.contains(&PathBuf::from(path)), "{path}");
        }
        let moved = hidden(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/c"), ("SSH_AUTH_SOCK", "/a/s")]);
        assert!(moved.contains(&PathBuf::from("/c/gh")) && moved.contains(&PathBuf::from("/a/s")));
        assert!(!moved.contains(&PathBuf::from("/h/.config/gh")));
        assert!(!hidden(&[("HOME", "relative")]).iter().any(|path| path.is_relative()));
    }
}
