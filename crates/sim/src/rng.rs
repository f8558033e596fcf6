//! Randomness from a seed: the same seed always yields the same numbers, on every machine.

/// A random number generator (splitmix64).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Returns a generator that depends only on the seed and the names, not on earlier draws.
    pub fn from_names(seed: u64, names: &[u64]) -> Rng {
        names.iter().fold(Rng(seed), |rng, name| Rng(rng.0 ^ mix(name.wrapping_add(0x51ed)))).stir()
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number below `n`, which must not be 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.draw() % n
    }

    /// Returns an index below `len`, which must not be 0.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns true in `n` of 1,000 cases.
    pub fn permille(&mut self, n: u64) -> bool {
        self.below(1000) < n
    }

    pub fn percent(&mut self, n: u64) -> bool {
        self.below(100) < n
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())].clone()
    }

    /// Takes each item with a probability of `percent`.
    pub fn sample<T>(&mut self, from: impl IntoIterator<Item = T>, percent: u64) -> Vec<T> {
        let mut taken = Vec::new();
        for item in from {
            if self.percent(percent) {
                taken.push(item);
            }
        }
        taken
    }

    fn stir(mut self) -> Rng {
        Rng(self.draw())
    }
}

fn mix(seed: u64) -> u64 {
    let z = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
