//! Picture comparisons: the files, the tolerance and the verdict. This module does not read any files.

use serde::{Deserialize, Serialize};

use super::loop_evidence::{EvidenceMismatch, PictureComparison};
use crate::{
    ids::TreeId,
    text::{quote_name, shell_quote, visible},
    verdict::{CheckEnd, Receipt},
};

/// A share of 1, in millionths.
pub const WHOLE: u32 = 1_000_000;

/// Maximum color tolerance, in millionths of the value range. Above this tolerance, nearly all colors would match.
pub const MAX_TOLERANCE: u32 = 500_000;

/// Maximum length of a picture's path, in bytes.
pub const MAX_PATH: usize = 4 << 10;

/// Two files below the working directory, and the tolerance of their comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PictureFiles {
    pub expected: String,
    pub actual: String,
    /// The difference in a color channel up to which two pixels count as equal, in millionths of
    /// the channel's range.
    #[serde(default)]
    pub tolerance: u32,
}

/// A requested comparison, and the share of pixels that may differ, in millionths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PictureCheck {
    pub files: PictureFiles,
    pub differing: u32,
}

/// The properties of a picture that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PictureInfo {
    /// The BLAKE3 hash of the file.
    pub digest: String,
    pub width: u32,
    pub height: u32,
}

/// The result of comparing two pictures. Pictures of different sizes are not compared pixel by pixel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureMeasurement {
    pub expected: PictureInfo,
    pub actual: PictureInfo,
    pub differing: u64,
    pub points: u64,
}

/// The reason why two files cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PictureFilesError {
    #[error(
        "{0:?} is not a valid picture path: expected one below the working directory, without \"..\""
    )]
    Path(String),
    #[error("cannot compare {0:?} with itself: expected two different files")]
    Same(String),
    #[error("the tolerance is too high: expected at most half of the color range")]
    Tolerance,
}

impl PictureFiles {
    /// Checks that the files can be compared: two different files below the working directory.
    pub fn validate(&self) -> Result<(), PictureFilesError> {
        for path in [&self.expected, &self.actual] {
            let down = |part: &str| !matches!(part, "" | "." | "..");
            let fits = path.len() <= MAX_PATH && !path.contains('\0') && path.split('/').all(down);
            if !fits {
                return Err(PictureFilesError::Path(path.clone()));
            }
        }
        match (self.expected == self.actual, self.tolerance > MAX_TOLERANCE) {
            (true, _) => Err(PictureFilesError::Same(self.expected.clone())),
            (false, true) => Err(PictureFilesError::Tolerance),
            (false, false) => Ok(()),
        }
    }
}

impl PictureCheck {
    /// Returns the text that the receipt shows as its command.
    pub fn command(&self) -> String {
        let PictureFiles { expected, actual, tolerance } = &self.files;
        let mut text = format!("pictures {} {}", shell_quote(expected), shell_quote(actual));
        if *tolerance > 0 {
            text.push_str(&format!(" --tolerance {}", format_share(*tolerance)));
        }
        if self.differing > 0 {
            text.push_str(&format!(" --differing {}", format_share(self.differing)));
        }
        text
    }

    /// Returns the receipt of a comparison, and the comparison itself. The exit code is 0 if the
    /// difference is within the limit, 1 if it is not, and 2 if a picture cannot be read.
    pub fn receipt(
        &self,
        tree: TreeId,
        found: Result<PictureMeasurement, String>,
    ) -> (Receipt, Option<PictureComparison>) {
        let compared = found.map(|measured| self.compared(measured));
        let (end, tail) = match &compared {
            Err(why) => (2, visible(why)),
            Ok(compared) => match compared.check_limit(self.differing) {
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

    fn compared(&self, measured: PictureMeasurement) -> PictureComparison {
        let PictureMeasurement { expected, actual, differing, points } = measured;
        PictureComparison {
            expected: self.files.expected.clone(),
            actual: self.files.actual.clone(),
            differing: share_in_millionths(differing, points),
            tolerance: self.files.tolerance,
            expected_is: expected,
            actual_is: actual,
        }
    }
}

/// Returns a share in millionths, rounded up so that even a single differing pixel is not zero.
fn share_in_millionths(differing: u64, points: u64) -> u32 {
    let all = u128::from(points).max(1);
    let part = (u128::from(differing) * u128::from(WHOLE)).div_ceil(all);
    u32::try_from(part).unwrap_or(WHOLE).min(WHOLE)
}

impl PictureComparison {
    /// Describes the comparison.
    pub fn describe(&self) -> String {
        let of = |path: &str, one: &PictureInfo| {
            format!("{} ({}x{}, blake3 {})", quote_name(path), one.width, one.height, one.digest)
        };
        let exactly = match self.tolerance {
            0 => String::new(),
            tolerance => format!(", with a tolerance of {}", format_share(tolerance)),
        };
        format!(
            "{} of a million pixels differ between {} and {}{exactly}",
            self.differing,
            of(&self.expected, &self.expected_is),
            of(&self.actual, &self.actual_is)
        )
    }

    /// Returns the files and the tolerance of the comparison.
    pub(super) fn files(&self) -> PictureFiles {
        let (expected, actual) = (self.expected.clone(), self.actual.clone());
        PictureFiles { expected, actual, tolerance: self.tolerance }
    }

    /// Whether these files were compared, with this tolerance.
    pub(super) fn matches_files(&self, files: &PictureFiles) -> bool {
        self.files() == *files
    }

    /// Checks that at most `most` millionths of the pixels differ.
    pub fn check_limit(&self, most: u32) -> Result<(), EvidenceMismatch> {
        let size = |one: &PictureInfo| (one.width, one.height);
        let (expected, actual) = (size(&self.expected_is), size(&self.actual_is));
        if expected != actual {
            return Err(EvidenceMismatch::OtherSize { expected, actual });
        }
        let found = self.differing;
        if found <= most { Ok(()) } else { Err(EvidenceMismatch::Differs { found, most }) }
    }
}

/// Formats a share in millionths as a decimal number.
pub fn format_share(millionths: u32) -> String {
    let (whole, rest) = (millionths / WHOLE, millionths % WHOLE);
    match rest {
        0 => whole.to_string(),
        rest => format!("{whole}.{}", format!("{rest:06}").trim_end_matches('0')),
    }
}

/// Parses a share such as 0.01 into millionths.
pub fn parse_share(text: &str, most: u32) -> Option<u32> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(rest) || rest.len() > 6 || whole.len() > 3 {
        return None;
    }
    let (whole, rest): (u32, u32) = (whole.parse().ok()?, format!("{rest:0<6}").parse().ok()?);
    whole.checked_mul(WHOLE)?.checked_add(rest).filter(|share| *share <= most)
}
