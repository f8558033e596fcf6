//! Masks secrets in the command's output before it reaches the journal. The secrets are kept only
//! in memory. They are masked byte for byte in both streams, even if a secret is split between two
//! reads.

use std::borrow::Cow;

use crate::journal::JournalChannel;
use crate::wire::MAX_FORM;

/// The maximum total length of all masked forms of secrets, in bytes.
const MAX_FORMS: usize = 64 << 10;
/// The minimum length of a masked form, in bytes. A shorter one would match unrelated output.
const MIN_FORM: usize = 8;

/// Masks both streams of a command.
#[derive(Default)]
pub(super) struct SecretMask {
    masks: MaskForms,
    out: MaskedStream,
    err: MaskedStream,
}

/// The forms in which secrets may appear in the output.
#[derive(Default)]
struct MaskForms {
    forms: Vec<Vec<u8>>,
    known: usize,
}

/// The part of one stream that was read but may still contain the start of a secret.
#[derive(Default)]
struct MaskedStream {
    bytes: Vec<u8>,
    /// The replacement for each byte, if it must be masked.
    replacements: Vec<Option<u8>>,
}

impl SecretMask {
    /// Starts masking a form. Returns true if the form was accepted.
    pub(super) fn add(&mut self, form: Vec<u8>) -> bool {
        self.masks.add(form)
    }

    /// Whether there is nothing to mask.
    pub(super) fn is_empty(&self) -> bool {
        self.masks.is_empty()
    }

    /// Takes bytes read from a stream and returns those that are safe to write. If there are no
    /// secrets, nothing is held back.
    pub(super) fn take<'a>(&mut self, channel: JournalChannel, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        match (self.masks.is_empty(), channel) {
            (true, _) => Cow::Borrowed(bytes),
            (false, JournalChannel::Stderr) => Cow::Owned(self.err.take(bytes, &self.masks)),
            (false, JournalChannel::Stdout | JournalChannel::Stdin | JournalChannel::Note) => {
                Cow::Owned(self.out.take(bytes, &self.masks))
            }
        }
    }

    /// Returns the bytes still held back when a stream ends.
    pub(super) fn finish(&mut self, channel: JournalChannel) -> Vec<u8> {
        match channel {
            JournalChannel::Stderr => self.err.finish(),
            JournalChannel::Stdout | JournalChannel::Stdin | JournalChannel::Note => {
                self.out.finish()
            }
        }
    }
}

impl MaskForms {
    fn add(&mut self, form: Vec<u8>) -> bool {
        if self.forms.contains(&form) {
            return true;
        }
        let fits = (MIN_FORM..=MAX_FORM).contains(&form.len());
        if !fits || form.contains(&b'\n') || self.known + form.len() > MAX_FORMS {
            return false;
        }
        self.known += form.len();
        self.forms.push(form);
        true
    }

    fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// Returns the number of trailing bytes that may be the start of a form. No form contains a
    /// line ending, so a complete line is never held back.
    fn open_end(&self, bytes: &[u8]) -> usize {
        let begun = |form: &Vec<u8>| {
            let most = bytes.len().min(form.len() - 1);
            (1..=most).rev().find(|length| bytes.ends_with(&form[..*length]))
        };
        self.forms.iter().filter_map(begun).max().unwrap_or(0)
    }
}

impl MaskedStream {
    fn take(&mut self, bytes: &[u8], masks: &MaskForms) -> Vec<u8> {
        self.bytes.extend_from_slice(bytes);
        self.replacements.resize(self.bytes.len(), None);
        for form in &masks.forms {
            self.hide(form);
        }
        self.release(self.bytes.len() - masks.open_end(&self.bytes))
    }

    /// Returns the remaining bytes. A secret that is cut off at the end is masked if it is long
    /// enough.
    fn finish(&mut self) -> Vec<u8> {
        if self.bytes.len() >= MIN_FORM {
            self.replacements.fill(Some(b'*'));
        }
        self.release(self.bytes.len())
    }

    fn hide(&mut self, form: &[u8]) {
        // A number must remain a number, because the line must remain valid JSON.
        let filler = if form.iter().all(u8::is_ascii_digit) { b'9' } else { b'*' };
        for at in 0..=self.bytes.len().saturating_sub(form.len()) {
            if self.bytes[at..].starts_with(form) {
                // The letter after a backslash is kept, because the line must remain valid JSON.
                let from = at + usize::from(is_escaped(&self.bytes[..at]));
                self.replacements[from..at + form.len()].fill(Some(filler));
            }
        }
    }

    fn release(&mut self, length: usize) -> Vec<u8> {
        let (bytes, veil) = (self.bytes.drain(..length), self.replacements.drain(..length));
        bytes.zip(veil).map(|(byte, veil)| veil.unwrap_or(byte)).collect()
    }
}

/// Whether the next byte is the second half of an escape, which is the case after an odd number of
/// backslashes.
fn is_escaped(before: &[u8]) -> bool {
    before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn masks(forms: &[&str]) -> MaskForms {
        let mut masks = MaskForms::default();
        assert!(forms.iter().all(|form| masks.add(form.as_bytes().to_vec())));
        masks
    }

    fn masked(forms: &[&str], parts: &[&str]) -> String {
        let (masks, mut veiled) = (masks(forms), MaskedStream::default());
        let mut output: Vec<u8> =
            parts.iter().flat_map(|part| veiled.take(part.as_bytes(), &masks)).collect();
        output.extend(veiled.finish());
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn secret_split_between_reads_is_masked() {
        let text = "a s3cr3t-token, twice: s3cr3t-tokens3cr3t-token\n";
        let expected = "a ************, twice: ************************\n";
        for at in 0..=text.len() {
            let (one, two) = text.split_at(at);
            assert_eq!(masked(&["s3cr3t-token"], &[one, two]), expected, "split at {at}");
        }
        let each: Vec<String> = text.chars().map(String::from).collect();
        let each: Vec<&str> = each.iter().map(String::as_str).collect();
        assert_eq!(masked(&["s3cr3t-token"], &each), expected);
    }

    #[test]
    fn overlapping_forms_are_masked() {
        let forms = ["AAAAAAAABBBB", "BBBBCCCCCCCC", "AAAAAAAABBBBBBBB"];
        assert_eq!(
            masked(&forms, &["xAAAAAAAABBBB", "CCCCCCCCx"]),
            format!("x{}x", "*".repeat(20))
        );
        assert_eq!(masked(&forms, &["xAAAAAAAABBBB", "BBBBx"]), format!("x{}x", "*".repeat(16)));
    }

    #[test]
    fn false_start_is_released_and_whole_lines_at_once() {
        let (masks, mut veiled) = (masks(&["s3cr3t-token"]), MaskedStream::default());
        assert_eq!(veiled.take(b"the s3cr", &masks), b"the ");
        assert_eq!(veiled.take(b"etary\n", &masks), b"s3cretary\n");
        assert_eq!(veiled.take(b"s3cr3t-tok\n", &masks), b"s3cr3t-tok\n");
        assert_eq!(veiled.take(b"s3cr3t-t", &masks), b"");
        assert_eq!(veiled.finish(), b"********", "a truncated secret is masked too");
        assert_eq!(veiled.take(b"s3c", &masks), b"");
        assert_eq!(veiled.finish(), b"s3c");
    }

    #[test]
    fn masked_line_is_still_json() {
        let line =
            |text: &str| serde_json::json!({"n": 1_712_345_678_i64, "text": text}).to_string();
        for (secret, text) in [("12345678", "12345678"), ("tok-12345", "\tok-12345 tok-12345")] {
            let output = masked(&[secret], &[&line(text)]);
            let read: serde_json::Value = serde_json::from_str(&output).unwrap();
            assert!(!output.contains(secret) && read["n"].is_i64(), "{output}");
        }
    }

    #[test]
    fn forms_outside_the_limits_are_rejected() {
        let mut masks = MaskForms::default();
        assert!(!masks.add(b"1234567".to_vec()) && masks.is_empty());
        assert!(!masks.add(b"1234\n5678".to_vec()));
        assert!(!masks.add(vec![b'x'; MAX_FORM + 1]));
        let taken = (0..100).filter(|no| masks.add(format!("{no:0>MAX_FORM$}").into_bytes()));
        assert_eq!(taken.count(), MAX_FORMS / MAX_FORM);
        assert!(masks.add(format!("{:0>MAX_FORM$}", 0).into_bytes()), "it is known");
    }

    proptest! {
        #[test]
        fn read_boundaries_do_not_change_output(text in "[ab\n]{0,60}", cuts in prop::collection::vec(0usize..60, 0..8)) {
            let forms = ["aaaaaaaa", "abababab", "aaaabbbba"];
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let parts: Vec<&str> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
            prop_assert_eq!(masked(&forms, &parts), masked(&forms, &[&text]));
            prop_assert_eq!(masked(&forms, &parts).len(), text.len());
        }
    }
}
