//! Compares two pictures in a project pixel by pixel.
//!
//! Only PNG files are read, up to a limit on bytes and pixels. Colors are compared as stored, with
//! eight bits per channel: profiles and gamma are not applied. Only the first frame of an animation is
//! compared. Pixels that are fully transparent in both pictures are equal, regardless of their color.

use std::{
    io::Cursor,
    path::{Component, Path},
};

use png::{ColorType, Decoder, Limits, Transformations};

use crate::{project::ProjectDir, reason::UnverifiedReason};

/// Maximum size of a picture file.
pub const MAX_PICTURE_BYTES: u64 = 32 << 20;

/// Maximum number of pixels in a picture.
pub const MAX_POINTS: u64 = 16 << 20;

/// Maximum memory for the decoder, in addition to the pixels themselves.
const MAX_DECODER_BYTES: usize = 16 << 20;

/// The full range of a color channel, in millionths.
const FULL_RANGE: u64 = 1_000_000;

/// Two pictures, and the number of pixels in which they differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    pub expected: PictureFile,
    pub actual: PictureFile,
    /// The number of differing pixels. If the sizes differ, all pixels count as different.
    pub differing: u64,
    pub points: u64,
}

/// A decoded picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureFile {
    /// The BLAKE3 digest of the file.
    pub digest: String,
    pub width: u32,
    pub height: u32,
}

/// The reason why a picture cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPicture {
    #[error("{0}")]
    File(UnverifiedReason),
    #[error("{path} is not a path inside the worktree")]
    Path { path: String },
    #[error("{path} is not a readable PNG picture: {why}")]
    Malformed { path: String, why: String },
    #[error("{path} has {width}x{height} pixels; the limit is {MAX_POINTS}")]
    TooManyPoints { path: String, width: u32, height: u32 },
}

/// The decoded pixels of a picture.
struct Pixels {
    width: u32,
    height: u32,
    /// Bytes per pixel: grey, grey and alpha, RGB, or RGBA.
    bytes: usize,
    data: Vec<u8>,
}

/// Compares two pictures below a directory. A pixel differs if any channel differs by more than
/// `tolerance`, in millionths of the channel's range.
pub fn compare(
    root: &Path,
    expected: &str,
    actual: &str,
    tolerance: u32,
) -> Result<Comparison, BadPicture> {
    let project = ProjectDir::open(root).map_err(BadPicture::File)?;
    let (expected_is, expected) = read(&project, expected)?;
    let (actual_is, actual) = read(&project, actual)?;
    let (differing, points) = expected.differing(&actual, tolerance);
    Ok(Comparison { expected: expected_is, actual: actual_is, differing, points })
}

fn read(project: &ProjectDir, path: &str) -> Result<(PictureFile, Pixels), BadPicture> {
    let below = |part: Component<'_>| matches!(part, Component::Normal(_));
    if path.is_empty() || !Path::new(path).components().all(below) {
        return Err(BadPicture::Path { path: path.to_owned() });
    }
    let bytes = project.bytes(Path::new(path), MAX_PICTURE_BYTES).map_err(BadPicture::File)?;
    let digest = blake3::hash(&bytes).to_hex().to_string();
    let points = decode(path, &bytes)?;
    let (width, height) = (points.width, points.height);
    Ok((PictureFile { digest, width, height }, points))
}

fn decode(path: &str, bytes: &[u8]) -> Result<Pixels, BadPicture> {
    let malformed = |why: &dyn std::fmt::Display| BadPicture::Malformed {
        path: path.to_owned(),
        why: why.to_string(),
    };
    let mut decoder =
        Decoder::new_with_limits(Cursor::new(bytes), Limits { bytes: MAX_DECODER_BYTES });
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_transformations(Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(|why| malformed(&why))?;
    let (width, height) = reader.info().size();
    if u64::from(width) * u64::from(height) > MAX_POINTS {
        return Err(BadPicture::TooManyPoints { path: path.to_owned(), width, height });
    }
    let size = reader.output_buffer_size().ok_or_else(|| malformed(&"the file is too large"))?;
    let mut data = vec![0; size];
    let frame = reader.next_frame(&mut data).map_err(|why| malformed(&why))?;
    let bytes = match frame.color_type {
        ColorType::Grayscale => 1,
        ColorType::GrayscaleAlpha => 2,
        ColorType::Rgb => 3,
        ColorType::Rgba => 4,
        ColorType::Indexed => return Err(malformed(&"the palette was not applied")),
    };
    // The first frame of an animation can be smaller than the picture.
    if (frame.width, frame.height) != (width, height) {
        return Err(malformed(&"the first frame does not fill the picture"));
    }
    Ok(Pixels { width, height, bytes, data })
}

impl Pixels {
    /// Returns the number of differing pixels and the total number of pixels.
    fn differing(&self, other: &Pixels, tolerance: u32) -> (u64, u64) {
        let count = |points: &Pixels| u64::from(points.width) * u64::from(points.height);
        if (self.width, self.height) != (other.width, other.height) {
            let points = count(self).max(count(other));
            return (points, points);
        }
        let pairs = self.pixels().zip(other.pixels());
        let differing = pairs.filter(|(one, other)| !is_similar(*one, *other, tolerance)).count();
        (differing as u64, count(self))
    }

    /// Returns all pixels as red, green, blue and alpha.
    fn pixels(&self) -> impl Iterator<Item = [u8; 4]> {
        self.data.chunks_exact(self.bytes).map(|point| match *point {
            [grey] => [grey, grey, grey, u8::MAX],
            [grey, alpha] => [grey, grey, grey, alpha],
            [red, green, blue] => [red, green, blue, u8::MAX],
            [red, green, blue, alpha, ..] => [red, green, blue, alpha],
            [] => [0; 4],
        })
    }
}

fn is_similar(one: [u8; 4], other: [u8; 4], tolerance: u32) -> bool {
    let near = |(one, other): (u8, u8)| {
        u64::from(one.abs_diff(other)) * FULL_RANGE <= u64::from(tolerance) * u64::from(u8::MAX)
    };
    (one[3] == 0 && other[3] == 0) || one.into_iter().zip(other).all(near)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use png::{BitDepth, Encoder};

    use super::*;

    /// Writes an RGBA picture whose pixels are computed from their coordinates.
    fn written(
        dir: &Path,
        name: &str,
        width: u32,
        height: u32,
        point: impl Fn(u32, u32) -> [u8; 4],
    ) {
        let places = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        let data: Vec<u8> = places.flat_map(|(x, y)| point(x, y)).collect();
        encoded(dir, name, width, height, ColorType::Rgba, BitDepth::Eight, &data);
    }

    fn encoded(
        dir: &Path,
        name: &str,
        width: u32,
        height: u32,
        colours: ColorType,
        depth: BitDepth,
        data: &[u8],
    ) {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, width, height);
        encoder.set_color(colours);
        encoder.set_depth(depth);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(data).unwrap();
        writer.finish().unwrap();
        fs::write(dir.join(name), bytes).unwrap();
    }

    fn plain(_: u32, _: u32) -> [u8; 4] {
        [10, 20, 30, 255]
    }

    #[test]
    fn equal_pixels_match_across_encodings() {
        let dir = tempfile::tempdir().unwrap();
        written(dir.path(), "a.png", 8, 4, plain);
        let grey: Vec<u8> = [200; 32].to_vec();
        encoded(dir.path(), "g.png", 8, 4, ColorType::Grayscale, BitDepth::Eight, &grey);
        written(dir.path(), "h.png", 8, 4, |_, _| [200, 200, 200, 255]);
        let same = compare(dir.path(), "g.png", "h.png", 0).unwrap();
        assert_eq!((same.differing, same.points), (0, 32));
        assert_ne!(same.expected.digest, same.actual.digest);
        let other = compare(dir.path(), "a.png", "h.png", 0).unwrap();
        assert_eq!((other.differing, other.points), (32, 32));
        assert_eq!((other.expected.width, other.expected.height), (8, 4));
    }

    #[test]
    fn pixel_differs_beyond_tolerance() {
        let dir = tempfile::tempdir().unwrap();
        written(dir.path(), "a.png", 10, 10, plain);
        // The difference is 5 of 255, a little less than 2 %.
        written(dir.path(), "b.png", 10, 10, |x, y| match (x, y) {
            (0, 0) | (9, 9) => [10, 25, 30, 255],
            _ => plain(x, y),
        });
        let found = |tolerance| compare(dir.path(), "a.png", "b.png", tolerance).unwrap().differing;
        assert_eq!((found(0), found(19_000), found(20_000)), (2, 2, 0));
    }

    #[test]
    fn transparent_pixels_match_opacity_counts() {
        let dir = tempfile::tempdir().unwrap();
        written(dir.path(), "a.png", 2, 1, |_, _| [0, 0, 0, 0]);
        written(dir.path(), "b.png", 2, 1, |x, _| if x == 0 { [9, 9, 9, 0] } else { [0, 0, 0, 1] });
        assert_eq!(compare(dir.path(), "a.png", "b.png", 0).unwrap().differing, 1);
    }

    #[test]
    fn different_sizes_differ_in_all_pixels() {
        let dir = tempfile::tempdir().unwrap();
        written(dir.path(), "a.png", 4, 4, plain);
        written(dir.path(), "b.png", 4, 5, plain);
        let found = compare(dir.path(), "a.png", "b.png", 0).unwrap();
        assert_eq!((found.differing, found.points), (20, 20));
        assert_eq!((found.actual.width, found.actual.height), (4, 5));
    }

    #[test]
    fn invalid_picture_error_has_reason() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        written(dir.path(), "a.png", 4, 4, plain);
        fs::write(at("empty.png"), "").unwrap();
        fs::write(at("text.png"), "this is no picture").unwrap();
        let mut cut = fs::read(at("a.png")).unwrap();
        cut.truncate(cut.len() - 20);
        fs::write(at("cut.png"), &cut).unwrap();
        let mut spoiled = fs::read(at("a.png")).unwrap();
        let middle = spoiled.len() / 2;
        spoiled[middle] ^= 0xff;
        fs::write(at("spoiled.png"), &spoiled).unwrap();
        fs::File::create(at("large.png")).unwrap().set_len(MAX_PICTURE_BYTES + 1).unwrap();
        let why = |name: &str| match compare(dir.path(), "a.png", name, 0) {
            Ok(found) => panic!("{name}: {found:?}"),
            Err(why) => why.to_string(),
        };
        for name in ["empty.png", "text.png", "cut.png", "spoiled.png"] {
            let why = why(name);
            assert!(why.starts_with(&format!("{name} is not a readable PNG picture")), "{why}");
        }
        assert!(why("large.png").contains("large.png"), "{}", why("large.png"));
        assert!(why("nothing.png").contains("nothing.png"), "{}", why("nothing.png"));
        for path in ["/etc/passwd", "../a.png", "", "./a.png"] {
            assert!(why(path).contains("is not a path"), "{path}");
        }
    }

    #[test]
    fn oversized_picture_is_not_decoded() {
        let dir = tempfile::tempdir().unwrap();
        written(dir.path(), "a.png", 1, 1, plain);
        let mut bytes = fs::read(dir.path().join("a.png")).unwrap();
        // The width and height come after the signature and the length and name of the first chunk.
        // The checksum of the chunk comes after its content.
        bytes[16..20].copy_from_slice(&100_000_u32.to_be_bytes());
        bytes[20..24].copy_from_slice(&100_000_u32.to_be_bytes());
        let sum = crc(&bytes[12..29]);
        bytes[29..33].copy_from_slice(&sum.to_be_bytes());
        fs::write(dir.path().join("huge.png"), bytes).unwrap();
        let why = compare(dir.path(), "a.png", "huge.png", 0).unwrap_err().to_string();
        assert!(why.contains("100000x100000 pixels"), "{why}");
    }

    fn crc(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(u32::MAX, |sum, byte| {
            (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
                if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 }
            })
        })
    }
}
