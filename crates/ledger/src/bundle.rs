//! A bundle: a directory that contains some streams of a ledger and a manifest.
//!
//! The manifest is derived only from the streams, so exporting an imported bundle yields the same
//! bundle. Its digests detect damage and edits, but they are not a signature and do not identify
//! the author.

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::export::{self, export_streams};
use crate::lines::{self, ExportHeader, ExportLine, LineReader};
use crate::{ReadLedger, StreamId};

/// The version of the bundle format.
pub const BUNDLE_VERSION: u32 = 1;

const FORMAT: &str = "provost-bundle";
const MANIFEST: &str = "manifest.json";
const STREAMS: &str = "streams.jsonl";
/// The maximum size of a manifest that is read.
const MAX_MANIFEST_BYTES: u64 = 4 << 20;

/// Describes the contents of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: String,
    pub version: u32,
    /// The main stream of the bundle. The other streams belong to this stream.
    pub subject: StreamId,
    /// Whether any stream in the bundle was still open.
    pub snapshot: bool,
    /// The streams, oldest first.
    pub streams: Vec<BundledStream>,
    pub records: u64,
    pub files: Vec<BundledFile>,
    /// The BLAKE3 hash of the manifest itself, with this field empty.
    #[serde(default)]
    pub blake3: String,
}

impl Manifest {
    /// Returns the digest over all other fields.
    fn digest(&self) -> Result<String, serde_json::Error> {
        let bare = Manifest { blake3: String::new(), ..self.clone() };
        Ok(blake3::hash(&serde_json::to_vec(&bare)?).to_hex().to_string())
    }
}

/// A stream in a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundledStream {
    pub stream: StreamId,
    pub records: u64,
    pub first_seq: u64,
    pub last_seq: u64,
}

/// A file in a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundledFile {
    pub name: String,
    pub bytes: u64,
    /// The BLAKE3 hash, in hexadecimal.
    pub blake3: String,
}

/// A bundle that was read and matches its manifest.
#[derive(Debug)]
pub struct Bundle {
    pub manifest: Manifest,
    path: PathBuf,
}

/// The reason why a bundle could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{} already exists; a bundle needs a new directory", path.display())]
    Exists { path: PathBuf },
    #[error("could not {doing} {}", path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is not a regular file", path.display())]
    NotRegular { path: PathBuf },
    #[error(transparent)]
    Export(#[from] export::Error),
    #[error("{} is not a bundle manifest: {what}", path.display())]
    InvalidManifest { path: PathBuf, what: String },
    #[error(
        "the bundle has version {found}, but this program reads version {BUNDLE_VERSION}; use a newer provost"
    )]
    Version { found: u32 },
    #[error("{} does not match the manifest: {what}", path.display())]
    Altered { path: PathBuf, what: String },
    #[error("{}", path.display())]
    Line {
        path: PathBuf,
        #[source]
        source: lines::Error,
    },
}

/// Writes a bundle of streams into a directory that does not exist yet.
pub fn write_bundle(
    ledger: &dyn ReadLedger,
    subject: &StreamId,
    streams: &[StreamId],
    snapshot: bool,
    dir: &Path,
) -> Result<Manifest, Error> {
    make_dir(dir)?;
    let path = dir.join(STREAMS);
    let mut file = create(&path)?;
    export_streams(ledger, streams, &mut file)?;
    file.sync_all().map_err(|source| io_error("write", &path, source))?;
    let streams = streams_in(&path)?;
    let mut manifest = Manifest {
        format: FORMAT.to_owned(),
        version: BUNDLE_VERSION,
        subject: subject.clone(),
        snapshot,
        records: streams.iter().map(|stream| stream.records).sum(),
        streams,
        files: vec![describe_file(dir, STREAMS)?],
        blake3: String::new(),
    };
    // The manifest is written last, so a directory with a manifest is a complete bundle.
    let path = dir.join(MANIFEST);
    let unwritten = |why: serde_json::Error| io_error("write", &path, io::Error::from(why));
    manifest.blake3 = manifest.digest().map_err(unwritten)?;
    let mut text = serde_json::to_vec_pretty(&manifest).map_err(unwritten)?;
    text.push(b'\n');
    let mut file = create(&path)?;
    file.write_all(&text)
        .and_then(|()| file.sync_all())
        .map_err(|source| io_error("write", &path, source))?;
    Ok(manifest)
}

impl Bundle {
    /// Reads a bundle and compares everything in it with its manifest.
    pub fn open(dir: &Path) -> Result<Bundle, Error> {
        let manifest = read_manifest(&dir.join(MANIFEST))?;
        let [file] = manifest.files.as_slice() else {
            return Err(no_manifest(dir, "expected one file of streams"));
        };
        // The name is compared but never used as a path, because a forged name could point to
        // another file.
        if file.name != STREAMS {
            return Err(no_manifest(dir, format!("expected the file {STREAMS}")));
        }
        let path = dir.join(STREAMS);
        let found = describe_file(dir, STREAMS)?;
        let altered = |what: String| Error::Altered { path: path.clone(), what };
        if found.bytes != file.bytes {
            return Err(altered(format!("it has {} bytes, not {}", found.bytes, file.bytes)));
        }
        if found.blake3 != file.blake3 {
            return Err(altered("its digest differs".to_owned()));
        }
        let streams = streams_in(&path)?;
        if streams != manifest.streams {
            return Err(altered("it contains different streams".to_owned()));
        }
        let records: u64 = streams.iter().map(|stream| stream.records).sum();
        if records != manifest.records {
            return Err(altered(format!("it holds {records} events, not {}", manifest.records)));
        }
        if !streams.iter().any(|stream| stream.stream == manifest.subject) {
            return Err(altered(format!("{} is not among its streams", manifest.subject)));
        }
        // The manifest's own digest is checked last, because a mismatch with the streams themselves
        // yields a better error.
        let digest = manifest.digest().map_err(|why| no_manifest(dir, why))?;
        if digest != manifest.blake3 {
            let path = dir.join(MANIFEST);
            let what = "its own digest differs: it was changed after it was written".to_owned();
            return Err(Error::Altered { path, what });
        }
        Ok(Bundle { manifest, path })
    }

    /// Opens the file with the streams, which is the input for `SqliteLedger::import`.
    pub fn streams(&self) -> Result<BufReader<File>, Error> {
        open(&self.path)
    }
}

fn read_manifest(path: &Path) -> Result<Manifest, Error> {
    #[derive(Deserialize)]
    struct Version {
        format: String,
        version: u32,
    }
    let mut text = String::new();
    let mut file = open(path)?.take(MAX_MANIFEST_BYTES);
    file.read_to_string(&mut text).map_err(|source| io_error("read", path, source))?;
    // Read only the version at first, because another version may have fields that this program
    // does not know.
    let Version { format, version } =
        serde_json::from_str(&text).map_err(|why| no_manifest(path, why))?;
    match (format.as_str(), version) {
        (FORMAT, BUNDLE_VERSION) => {
            serde_json::from_str(&text).map_err(|why| no_manifest(path, why))
        }
        (FORMAT, found) => Err(Error::Version { found }),
        (other, _) => Err(no_manifest(path, format!("its format is \"{other}\""))),
    }
}

/// Reads a file of streams to its end, verifies all checksums, and returns the streams.
fn streams_in(path: &Path) -> Result<Vec<BundledStream>, Error> {
    let failed = |source| Error::Line { path: path.to_owned(), source };
    let mut lines = LineReader::new(open(path)?);
    let header = lines.next_text().map_err(failed)?.unwrap_or_default();
    if serde_json::from_str::<ExportHeader>(header).is_err() {
        return Err(failed(lines.content_error("this is not the header of an export")));
    }
    let mut streams: Vec<BundledStream> = Vec::new();
    loop {
        match lines.next_line().map_err(failed)? {
            ExportLine::End(_) => return Ok(streams),
            ExportLine::Reply(_) => {
                return Err(failed(lines.content_error("a bundle cannot contain a reply")));
            }
            ExportLine::Record(line) => match line.into_recorded() {
                Err(why) => return Err(failed(lines.content_error(why))),
                Ok(record) => match streams.last_mut() {
                    Some(last) if last.stream == record.stream => {
                        last.records += 1;
                        last.last_seq = record.seq;
                    }
                    _ => streams.push(BundledStream {
                        stream: record.stream,
                        records: 1,
                        first_seq: record.seq,
                        last_seq: record.seq,
                    }),
                },
            },
        }
    }
}

fn describe_file(dir: &Path, name: &str) -> Result<BundledFile, Error> {
    let path = dir.join(name);
    let mut hasher = blake3::Hasher::new();
    let mut file = open(&path)?;
    let bytes =
        io::copy(&mut file, &mut hasher).map_err(|source| io_error("read", &path, source))?;
    Ok(BundledFile { name: name.to_owned(), bytes, blake3: hasher.finalize().to_hex().to_string() })
}

fn make_dir(dir: &Path) -> Result<(), Error> {
    if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(|source| io_error("make", parent, source))?;
    }
    match DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => Ok(()),
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
            Err(Error::Exists { path: dir.to_owned() })
        }
        Err(source) => Err(io_error("make", dir, source)),
    }
}

fn create(path: &Path) -> Result<File, Error> {
    let mut options = File::options();
    let created = options.write(true).create_new(true).mode(0o600).open(path);
    created.map_err(|source| io_error("make", path, source))
}

/// Opens a file in a bundle, but only if it is a regular file, because opening a pipe would block.
fn open(path: &Path) -> Result<BufReader<File>, Error> {
    let mut options = File::options();
    let opened = options.read(true).custom_flags(NONBLOCK).open(path);
    let file = opened.map_err(|source| io_error("open", path, source))?;
    let metadata = file.metadata().map_err(|source| io_error("look at", path, source))?;
    if metadata.is_file() {
        Ok(BufReader::new(file))
    } else {
        Err(Error::NotRegular { path: path.to_owned() })
    }
}

/// Opens a pipe without waiting for its writer. Has no effect on a regular file.
const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();

fn io_error(doing: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Io { doing, path: path.to_owned(), source }
}

fn no_manifest(path: &Path, what: impl ToString) -> Error {
    Error::InvalidManifest { path: path.to_owned(), what: what.to_string() }
}
