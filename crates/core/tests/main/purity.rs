//! The core stays a pure domain: it depends on no runtime, clock, random source or IO crate.

use std::process::Command;

const FORBIDDEN: [&str; 14] = [
    "tokio",
    "rusqlite",
    "rand",
    "getrandom",
    "rustix",
    "libc",
    "jiff",
    "chrono",
    "time",
    "axum",
    "hyper",
    "mio",
    "async-std",
    "smol",
];

#[test]
fn core_depends_on_no_runtime_or_io_crate() {
    let tree = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--package",
            "provost-core",
            "--edges",
            "normal",
            "--prefix",
            "none",
        ])
        .args(["--format", "{p}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).unwrap();
    let names: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(names.contains(&"serde"), "the tree was read: {names:?}");
    let found: Vec<_> = names.iter().filter(|name| FORBIDDEN.contains(name)).collect();
    assert!(found.is_empty(), "the core must not depend on {found:?}");
}
