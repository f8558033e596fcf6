//! The program `provost`.

fn main() -> std::process::ExitCode {
    provost::main([])
}
