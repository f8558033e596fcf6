//! Links test builds at a fixed address. Loading a relocatable program of this size takes milliseconds, and the tests
//! start it tens of thousands of times. Release builds stay relocatable.

#![expect(
    clippy::disallowed_methods,
    reason = "cargo passes settings to build scripts as variables"
)]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is_debug = std::env::var_os("PROFILE").is_some_and(|profile| profile == "debug");
    if is_debug {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
