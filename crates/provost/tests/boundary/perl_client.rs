//! A client without Provost's code, and shell scripts that call the daemon with it.

use std::{
    fs,
    process::{Command, Stdio},
};

use provost_testkit::env::{TestEnv, text};
use serde_json::{Value, json};

/// A client in plain Perl, without Provost's code.
///
/// `perl client.pl get SOCKET PATH` prints the status and the body. `line SOCKET LINE` sends a line
/// and prints the first line of the response. `borrow SOCKET PATH DIR` forks a child that connects
/// and exits, writes the child's pid to DIR/pid, and sends its request over that connection once
/// DIR/go exists.
const CLIENT_SCRIPT: &str = r#"
use strict; use Socket; $SIG{PIPE} = 'IGNORE';
my ($how, $socket, $what, $dir) = @ARGV;
sub dial { socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die; $s }
sub reach { my $s = shift; chdir(($socket =~ m{^(.*)/})[0]); my ($name) = $socket =~ m{([^/]+)$};
    connect($s, pack_sockaddr_un($name)) or die "connect: $!" }
sub get { my $s = shift; syswrite($s, "GET $what HTTP/1.1\r\nhost: provost\r\nconnection: close\r\n\r\n");
    my $all = ''; while (sysread($s, my $part, 65536)) { $all .= $part }
    my ($head, $body) = split(/\r\n\r\n/, $all, 2); my $status = (split / /, $head)[1]; "$status $body\n" }
my $s = dial();
if ($how eq 'get') { reach($s); print get($s) }
elsif ($how eq 'line') { reach($s); syswrite($s, "$what\n"); print scalar readline($s) }
else {
    # Connections are accepted in their order: once a later one is answered, this one was. A process that starts
    # within the same tick of 10 ms has the same start time, and the next one to have this pid must not.
    my $pid = fork(); if (!$pid) { reach($s); my $later = dial(); reach($later); get($later);
        select(undef, undef, undef, 0.05); exit 0 }
    waitpid($pid, 0);
    open(my $f, '>', "$dir/pid.new"); print $f $pid; close $f; rename("$dir/pid.new", "$dir/pid");
    select(undef, undef, undef, 0.01) until -e "$dir/go";
    open($f, '>', "$dir/said.new"); print $f get($s); close $f; rename("$dir/said.new", "$dir/said");
}
"#;

/// Writes `client.pl` next to the home and returns its path.
pub(crate) fn write_client(stage: &TestEnv) -> String {
    let path = stage.file("client.pl");
    fs::write(&path, CLIENT_SCRIPT).unwrap();
    path
}

pub(crate) fn daemon_socket(stage: &TestEnv) -> String {
    text(&stage.path().join("daemon.sock"))
}

/// Returns a shell command that asks the daemon whether the caller is the operator and prints the HTTP status first.
pub(crate) fn operator_query(stage: &TestEnv) -> String {
    format!("perl {} get {} /v1/daemon/operator", write_client(stage), daemon_socket(stage))
}

/// Returns a one-line request to a holder, with the id 1.
pub(crate) fn holder_request(op: &Value) -> String {
    json!({"v": 1, "id": 1, "op": op}).to_string()
}

pub(crate) fn holder_socket(stage: &TestEnv, session: &str) -> String {
    text(&stage.path().join(format!("launches/{session}.l1/io.sock")))
}

/// Starts a shell script as an agent.
pub(crate) fn spawn_script(stage: &TestEnv, script: &str) -> String {
    stage.spawn_in(stage.root(), &["--", "sh", "-c", script])
}

/// Runs a shell command to completion in its own session.
pub(crate) fn run_detached(script: &str) {
    let mut command = Command::new("setsid");
    command.args(["sh", "-c", script]).stdin(Stdio::null()).stdout(Stdio::null());
    assert!(command.status().unwrap().success());
}
