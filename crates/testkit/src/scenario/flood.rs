//! The text of a flood. It is known in advance, so that a reader can detect a lost byte.

use std::io::{self, Write};

use super::Flood;

/// The minimum width of a line with a digit and a newline.
const NARROWEST_LINE: usize = 2;

/// Writes the whole flood: numbered lines of one width, truncated so that the total is exact.
pub fn write_flood(out: &mut impl Write, flood: &Flood) -> io::Result<()> {
    let width = flood.line.max(NARROWEST_LINE);
    let (mut left, mut number) = (flood.bytes, 0_u64);
    while left > 0 {
        let line = numbered_line(number, width);
        let take = usize::try_from(left).map_or(line.len(), |left| left.min(line.len()));
        // A truncated line keeps its newline, so the flood always ends with one.
        out.write_all(&line[..take - 1])?;
        out.write_all(b"\n")?;
        left -= take as u64;
        number += 1;
    }
    out.flush()
}

fn numbered_line(number: u64, width: usize) -> Vec<u8> {
    let digits = number.to_string().into_bytes();
    let mut line = digits[digits.len().saturating_sub(width - 1)..].to_vec();
    line.resize(width - 1, b'.');
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::OutputChannel;

    #[test]
    fn flood_has_exact_byte_count() {
        for (bytes, line) in [(0, 80), (1, 80), (79, 80), (80, 80), (81, 80), (1000, 7), (30, 1)] {
            let mut out = Vec::new();
            write_flood(&mut out, &Flood { bytes, line, channel: OutputChannel::Stdout }).unwrap();
            assert_eq!(out.len() as u64, bytes, "{bytes} bytes in lines of {line}");
            assert!(out.is_empty() || out.ends_with(b"\n"));
        }
    }

    #[test]
    fn lines_are_numbered_with_fixed_width() {
        let mut out = Vec::new();
        write_flood(&mut out, &Flood { bytes: 12, line: 4, channel: OutputChannel::Stdout })
            .unwrap();
        assert_eq!(out, b"0..\n1..\n2..\n");
    }
}
