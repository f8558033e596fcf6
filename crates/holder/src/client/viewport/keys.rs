//! Separates the user's keys for the command from the key that detaches.

/// Ctrl-\ in its traditional one-byte form.
const DETACH_KEY: u8 = 0x1c;
/// The code point of the backslash, which is pressed together with Ctrl.
const BACKSLASH: &str = "92";
/// The Ctrl modifier in extended key encodings. Active lock keys are added to this value.
const CTRL: u32 = 4;
const LOCKS: u32 = 64 | 128;

/// The typed keys up to the detach key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TypedKeys<'a> {
    pub(super) keys: &'a [u8],
    pub(super) detaches: bool,
}

/// Splits typed bytes into the command's keys and the detach key. A program may have switched the
/// terminal to an extended key encoding, so the detach key is recognized in all its forms.
pub(super) fn split_keys(bytes: &[u8]) -> TypedKeys<'_> {
    let leave = (0..bytes.len()).find(|at| starts_with_detach_key(&bytes[*at..]));
    TypedKeys { keys: &bytes[..leave.unwrap_or(bytes.len())], detaches: leave.is_some() }
}

fn starts_with_detach_key(bytes: &[u8]) -> bool {
    match bytes {
        [DETACH_KEY, ..] => true,
        [0x1b, b'[', rest @ ..] => is_long_form(rest),
        _ => false,
    }
}

/// Matches `92;5u`, where `:1` after the 5 marks a key press, and `27;5;92~`.
fn is_long_form(bytes: &[u8]) -> bool {
    let is_parameter = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b';' | b':');
    let end = bytes.iter().position(|byte| !is_parameter(byte)).unwrap_or(bytes.len());
    let parameters: Vec<&str> =
        std::str::from_utf8(&bytes[..end]).unwrap_or_default().split(';').collect();
    match (bytes.get(end), parameters.as_slice()) {
        (Some(b'u'), [key, held, ..]) => key.split(':').next() == Some(BACKSLASH) && is_ctrl(held),
        (Some(b'~'), ["27", held, BACKSLASH]) => is_ctrl(held),
        _ => false,
    }
}

fn is_ctrl(held: &str) -> bool {
    let (keys, event) = held.split_once(':').unwrap_or((held, "1"));
    let keys: Option<u32> = keys.parse().ok().and_then(|keys: u32| keys.checked_sub(1));
    keys.is_some_and(|keys| keys & !LOCKS == CTRL) && event == "1"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detach_key_is_recognized_in_every_encoding() {
        let forms: [&[u8]; 6] = [
            b"\x1c",
            b"\x1b[92;5u",
            b"\x1b[92;5:1u",
            b"\x1b[92:124;69u",
            b"\x1b[92;133;28u",
            b"\x1b[27;5;92~",
        ];
        for form in forms {
            let all = [b"ab\x1b[A", form, b"lost"].concat();
            assert_eq!(
                split_keys(&all),
                TypedKeys { keys: b"ab\x1b[A", detaches: true },
                "{form:?}"
            );
        }
    }

    #[test]
    fn other_keys_go_to_the_command() {
        let others: [&[u8]; 8] = [
            b"\x03\x1a\x1d\x1b",
            b"\x1b[92u",
            b"\x1b[92;6u",
            b"\x1b[92;5:3u",
            b"\x1b[92;5",
            b"\x1b[93;5u",
            b"\x1b[27;5;93~",
            "\u{e9}\u{1f600}\u{ff}".as_bytes(),
        ];
        for keys in others {
            assert_eq!(split_keys(keys), TypedKeys { keys, detaches: false });
        }
    }
}
