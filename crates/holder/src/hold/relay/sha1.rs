//! SHA-1, which the WebSocket handshake requires. It does not protect anything there, but only
//! shows that the server speaks the protocol.

const BLOCK: usize = 64;

/// Returns the SHA-1 digest of a short input.
pub(crate) fn sha1(bytes: &[u8]) -> [u8; 20] {
    let mut state = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0];
    for block in padded(bytes).chunks_exact(BLOCK) {
        let mixed = mix(state, &schedule(block));
        state = std::array::from_fn(|at| mixed[at].wrapping_add(state[at]));
    }
    let mut digest = [0; 20];
    for (to, word) in digest.chunks_exact_mut(4).zip(state) {
        to.copy_from_slice(&u32::to_be_bytes(word));
    }
    digest
}

/// Pads the bytes with a one bit, zeros, and the length in bits at the end of the last block.
fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut all = bytes.to_vec();
    all.push(0x80);
    all.resize((all.len() + 8).next_multiple_of(BLOCK) - 8, 0);
    all.extend_from_slice(&(bytes.len() as u64 * 8).to_be_bytes());
    all
}

fn schedule(block: &[u8]) -> [u32; 80] {
    let mut words = [0; 80];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    for at in 16..80 {
        let mixed = words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16];
        words[at] = mixed.rotate_left(1);
    }
    words
}

fn mix(state: [u32; 5], words: &[u32; 80]) -> [u32; 5] {
    words.iter().enumerate().fold(state, |[a, b, c, d, e], (round, word)| {
        let (chosen, constant): (u32, u32) = match round {
            0..20 => (b & c | !b & d, 0x5A82_7999),
            20..40 => (b ^ c ^ d, 0x6ED9_EBA1),
            40..60 => (b & c | b & d | c & d, 0x8F1B_BCDC),
            _ => (b ^ c ^ d, 0xCA62_C1D6),
        };
        let first = [a.rotate_left(5), chosen, e, constant, *word];
        let first = first.into_iter().fold(0, u32::wrapping_add);
        [first, a, b.rotate_left(30), c, d]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: &str) {
        let found: String = sha1(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn known_digests() {
        check(b"", "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        check(b"abc", "a9993e364706816aba3e25717850c26c9cd0d89d");
        check(
            b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
        );
        check(&[b'a'; 1_000_000], "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    }
}
