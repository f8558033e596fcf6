//! `cargo xtask package`: builds the release archive and tests it as a user would install it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    demo,
    print::print_line,
    process::{capture, step},
    tools,
    workspace::{Programs, Workspace},
};

/// Documents in the archive.
const DOCUMENTS: &[&str] = &["LICENSE-MIT", "LICENSE-APACHE", "README.md", "CHANGELOG.md"];
/// Shells and the names of their completion files.
const SHELLS: &[(&str, &str)] =
    &[("bash", "provost.bash"), ("zsh", "_provost"), ("fish", "provost.fish")];
/// The variable that enables failpoints, the points where tests crash the daemon. A binary with
/// failpoints contains this name.
const FAILPOINT_SWITCH: &str = "PROVOST_FAILPOINT";
/// A failpoint that every daemon reaches as soon as it records anything.
const FIRST_FAILPOINT: &str = "commit.before:1";

/// Builds the archive, installs it into an empty directory and runs the demo from there.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.args([
        "build",
        "--release",
        "--locked",
        "--package",
        "provost",
        "--package",
        "provost-testkit",
    ]);
    step("release build", cargo.arg("--bins"))?;
    let archive = pack(workspace, &workspace.programs("release"))?;
    let installed = install(workspace, &archive)?;
    check_without_failpoints(&installed)?;
    let codex = tools::pinned_codex(workspace);
    demo::run(&installed.programs, codex.as_deref(), &installed.root.join("pv-demo"))?;
    fs::remove_dir_all(&installed.root)?;
    let size = fs::metadata(&archive)?.len();
    print_line(&format!("{} ({:.1} MB)", archive.display(), size as f64 / 1e6));
    Ok(())
}

/// An unpacked archive.
struct Installed {
    root: PathBuf,
    programs: Programs,
}

fn pack(workspace: &Workspace, programs: &Programs) -> Result<PathBuf> {
    let name = format!("provost-{}-{}", workspace.version, workspace.triple()?);
    let out = workspace.target.join("package");
    let dir = fresh(&out.join(&name))?;
    for (program, file) in
        [(&programs.provost, "provost"), (&programs.scripted_agent, "scripted-agent")]
    {
        fs::create_dir_all(dir.join("bin"))?;
        fs::copy(program, dir.join("bin").join(file))
            .with_context(|| format!("cannot copy {file}"))?;
    }
    for document in DOCUMENTS {
        fs::copy(workspace.root.join(document), dir.join(document))
            .with_context(|| format!("cannot copy {document}"))?;
    }
    fs::create_dir_all(dir.join("completions"))?;
    for (shell, file) in SHELLS {
        let text = capture(Command::new(&programs.provost).args(["completions", shell]))?;
        fs::write(dir.join("completions").join(file), text)?;
    }
    let archive = out.join(format!("{name}.tar.gz"));
    let mut tar = workspace.command("tar");
    // The same contents always produce the same archive.
    tar.args([
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--mtime=@0",
        "--directory",
    ]);
    step("pack", tar.arg(&out).args(["-czf"]).arg(&archive).arg(&name))?;
    fs::remove_dir_all(&dir)?;
    Ok(archive)
}

fn install(workspace: &Workspace, archive: &Path) -> Result<Installed> {
    let root = fresh(&workspace.target.join("package/installed"))?;
    let mut tar = workspace.command("tar");
    tar.args(["--strip-components=1", "--directory"]).arg(&root).arg("-xzf").arg(archive);
    step("install", &mut tar)?;
    let programs = Programs::in_dir(&root.join("bin"));
    Ok(Installed { root, programs })
}

/// Verifies that no environment variable can make a release crash.
fn check_without_failpoints(installed: &Installed) -> Result<()> {
    let program = fs::read(&installed.programs.provost)?;
    let named =
        program.windows(FAILPOINT_SWITCH.len()).any(|part| part == FAILPOINT_SWITCH.as_bytes());
    ensure!(!named, "the release has failpoints: it contains {FAILPOINT_SWITCH}");

    let home = fresh(&installed.root.join("empty-home"))?;
    let provost = |args: &[&str]| {
        let mut command = Command::new(&installed.programs.provost);
        command
            .args(args)
            .current_dir(&home)
            .env_clear()
            .env("HOME", &home)
            .env("PATH", "/usr/bin:/bin");
        capture(command.env(FAILPOINT_SWITCH, FIRST_FAILPOINT))
    };
    let spawned =
        provost(&["spawn", "--json", "--", "true"]).and_then(|_| provost(&["daemon", "status"]));
    let stopped = provost(&["daemon", "stop"]);
    spawned.context("the release obeys the failpoint variable, or does not work")?;
    stopped.context("cannot stop the daemon")?;
    Ok(())
}

/// Creates an empty directory, replacing an existing one.
fn fresh(dir: &Path) -> Result<PathBuf> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    Ok(dir.to_owned())
}
