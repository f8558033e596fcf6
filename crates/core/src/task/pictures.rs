//! Pictures that Provost compares: which, how exactly, and what of their figures counts. Who reads them is elsewhere.

use serde::{Deserialize, Serialize};

use super::gate::{Compared, Unfit};
use crate::{
    ids::TreeId,
    text::{named, shell_word, visible},
    verdict::{CheckEnd, Receipt},
};

/// The whole, in millionths.
pub const WHOLE: u32 = 1_000_000;

/// How far a colour may be off at the most, in millionths of its range: with more nearly everything would be alike.
pub const MAX_TOLERANCE: u32 = 500_000;

/// The longest path of a picture.
pub const MAX_PATH: usize = 4 << 10;

/// Two files, below the directory that is worked in, and how exactly they are looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    pub expected: String,
    pub actual: String,
    /// So far may each colour of a point be off before it counts as different, in millionths of its range.
    #[serde(default)]
    pub tolerance: u32,
}

/// A comparison that is owed, with the share of the points that may differ, in millionths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pictures {
    pub files: Files,
    pub differing: u32,
}

/// A picture as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Picture {
    /// BLAKE3 of the file.
    pub digest: String,
    pub width: u32,
    pub height: u32,
}

/// What was measured of two pictures. Points of pictures that are not of one size were not compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    pub expected: Picture,
    pub actual: Picture,
    pub differing: u64,
    pub points: u64,
}

/// Why two files cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFiles {
    #[error(
        "{0:?} is no path of a picture: expected one below the directory of the work, without \"..\""
    )]
    Path(String),
    #[error("{0:?} would be compared with itself")]
    Same(String),
    #[error("a colour may be off by half of its range at the most")]
    Tolerance,
}

impl Files {
    /// Says whether they can be compared: two of them, below the directory of the work.
    pub fn check(&self) -> Result<(), BadFiles> {
        for path in [&self.expected, &self.actual] {
            let down = |part: &str| !matches!(part, "" | "." | "..");
            let fits = path.len() <= MAX_PATH && !path.contains('\0') && path.split('/').all(down);
            if !fits {
                return Err(BadFiles::Path(path.clone()));
            }
        }
        match (self.expected == self.actual, self.tolerance > MAX_TOLERANCE) {
            (true, _) => Err(BadFiles::Same(self.expected.clone())),
            (false, true) => Err(BadFiles::Tolerance),
            (false, false) => Ok(()),
        }
    }
}

impl Pictures {
    /// Gives what a receipt has as its command.
    pub fn command(&self) -> String {
        let Files { expected, actual, tolerance } = &self.files;
        let mut text = format!("pictures {} {}", shell_word(expected), shell_word(actual));
        if *tolerance > 0 {
            text.push_str(&format!(" --tolerance {}", share(*tolerance)));
        }
        if self.differing > 0 {
            text.push_str(&format!(" --differing {}", share(self.differing)));
        }
        text
    }

    /// Gives the receipt of a comparison, and what was compared: exit 0 if it is what is wanted, 1 if the pictures
    /// differ, 2 if one of them is none.
    pub fn receipt(
        &self,
        tree: TreeId,
        found: Result<Measured, String>,
    ) -> (Receipt, Option<Compared>) {
        let compared = found.map(|measured| self.compared(measured));
        let (end, tail) = match &compared {
            Err(why) => (2, visible(why)),
            Ok(compared) => match compared.fits(self.differing) {
                Ok(()) => (0, String::new()),
                Err(why) => (1, why.to_string()),
            },
        };
        let receipt = Receipt {
            command: self.command(),
            tree,
            end: CheckEnd::Exit(end),
            duration_ms: 0,
            output_digest: String::new(),
            output: String::new(),
            tail,
            warm: false,
            environment: None,
            overlay: None,
        };
        (receipt, compared.ok())
    }

    fn compared(&self, measured: Measured) -> Compared {
        let Measured { expected, actual, differing, points } = measured;
        Compared {
            expected: self.files.expected.clone(),
            actual: self.files.actual.clone(),
            differing: part(differing, points),
            tolerance: self.files.tolerance,
            expected_is: expected,
            actual_is: actual,
        }
    }
}

/// Gives a share in millionths, upwards: one point that differs is never none.
fn part(differing: u64, points: u64) -> u32 {
    let all = u128::from(points).max(1);
    let part = (u128::from(differing) * u128::from(WHOLE)).div_ceil(all);
    u32::try_from(part).unwrap_or(WHOLE).min(WHOLE)
}

impl Compared {
    /// Says in words what was compared.
    pub fn words(&self) -> String {
        let of = |path: &str, one: &Picture| {
            format!("{} ({}x{}, blake3 {})", named(path), one.width, one.height, one.digest)
        };
        let exactly = match self.tolerance {
            0 => String::new(),
            tolerance => format!(", with a tolerance of {}", share(tolerance)),
        };
        format!(
            "{} of a million points differ between {} and {}{exactly}",
            self.differing,
            of(&self.expected, &self.expected_is),
            of(&self.actual, &self.actual_is)
        )
    }

    /// Gives the files that it is of, and how exactly they were looked at.
    pub(super) fn files(&self) -> Files {
        let (expected, actual) = (self.expected.clone(), self.actual.clone());
        Files { expected, actual, tolerance: self.tolerance }
    }

    /// Says whether it is of these files, looked at like this.
    pub(super) fn is_of(&self, files: &Files) -> bool {
        self.files() == *files
    }

    /// Says whether the pictures are as much alike as is wanted.
    pub fn fits(&self, most: u32) -> Result<(), Unfit> {
        let size = |one: &Picture| (one.width, one.height);
        let (expected, actual) = (size(&self.expected_is), size(&self.actual_is));
        if expected != actual {
            return Err(Unfit::OtherSize { expected, actual });
        }
        let found = self.differing;
        if found <= most { Ok(()) } else { Err(Unfit::Differs { found, most }) }
    }
}

/// Writes a share in millionths as a number.
pub fn share(millionths: u32) -> String {
    let (whole, rest) = (millionths / WHOLE, millionths % WHOLE);
    match rest {
        0 => whole.to_string(),
        rest => format!("{whole}.{}", format!("{rest:06}").trim_end_matches('0')),
    }
}

/// Reads a share of the whole, as in 0.01, in millionths.
pub fn read_share(text: &str, most: u32) -> Option<u32> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(rest) || rest.len() > 6 || whole.len() > 3 {
        return None;
    }
    let (whole, rest): (u32, u32) = (whole.parse().ok()?, format!("{rest:0<6}").parse().ok()?);
    whole.checked_mul(WHOLE)?.checked_add(rest).filter(|share| *share <= most)
}
