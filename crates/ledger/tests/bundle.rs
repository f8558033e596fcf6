//! Bundles: a written bundle can be read again, and an invalid one is rejected.

use std::fs;
use std::path::Path;

use provost_ledger::{
    Bundle, BundleError, OpenStreamPolicy, ReadLedger, SqliteLedger, write_bundle,
};

use crate::common::{add, error_chain, fold, id, open_fast};

fn filled(dir: &Path) -> SqliteLedger {
    let mut ledger = open_fast(dir);
    add(&mut ledger, "session/a", &["x"]);
    add(&mut ledger, "team/t", &["x", "y"]);
    add(&mut ledger, "session/other", &["x"]);
    add(&mut ledger, "session/a", &["close"]);
    add(&mut ledger, "team/t", &["close"]);
    add(&mut ledger, "session/other", &["x"]);
    ledger
}

fn bundled(ledger: &dyn ReadLedger, dir: &Path) {
    let streams = [id("team/t"), id("session/a")];
    write_bundle(ledger, &id("team/t"), &streams, false, dir).unwrap();
}

fn files(dir: &Path) -> Vec<Vec<u8>> {
    ["manifest.json", "streams.jsonl"].map(|name| fs::read(dir.join(name)).unwrap()).to_vec()
}

#[test]
fn bundle_of_an_import_is_identical() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = filled(&dir.path().join("here"));
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    bundled(&ledger, &first);
    let bundle = Bundle::open(&first).unwrap();
    let manifest = &bundle.manifest;
    let streams: Vec<_> =
        manifest.streams.iter().map(|one| (one.stream.as_str(), one.records)).collect();
    assert_eq!(streams, [("session/a", 2), ("team/t", 3)], "oldest first");
    assert_eq!((manifest.records, manifest.streams[1].last_seq), (5, 6));
    let mut there = open_fast(&dir.path().join("there"));
    let mut input = bundle.streams().unwrap();
    there.import(&mut input, &|_, _| true, &mut fold, OpenStreamPolicy::KeepOpen).unwrap();
    assert_eq!(
        there.read_stream(&id("team/t"), 0).unwrap(),
        ledger.read_stream(&id("team/t"), 0).unwrap()
    );
    bundled(&there, &second);
    assert_eq!(files(&first), files(&second));
}

#[test]
fn archived_streams_are_bundled() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = filled(&dir.path().join("here"));
    let (before, after) = (dir.path().join("before"), dir.path().join("after"));
    bundled(&ledger, &before);
    provost_ledger::Ledger::archive(&mut ledger, &[id("team/t")]).unwrap();
    bundled(&ledger, &after);
    assert_eq!(files(&before), files(&after));
}

#[test]
fn changed_bundle_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = filled(&dir.path().join("here"));
    let spoils: [(&str, &str, &str, &str); 8] = [
        ("manifest.json", "\"snapshot\": false", "\"snapshot\": true", "its own digest differs"),
        ("streams.jsonl", "\"x\"", "\"z\"", "its digest differs"),
        ("streams.jsonl", "user/1000", "user/0", "bytes, not"),
        ("manifest.json", "\"version\": 1", "\"version\": 2", "use a newer provost"),
        ("manifest.json", "provost-bundle", "bundle", "its format is \"bundle\""),
        ("manifest.json", "\"records\": 5", "\"records\": 6", "it holds 5 events, not 6"),
        (
            "manifest.json",
            "\"subject\": \"team/t\"",
            "\"subject\": \"team/u\"",
            "team/u is not among",
        ),
        (
            "manifest.json",
            "\"streams.jsonl\"",
            "\"../../streams.jsonl\"",
            "expected the file streams.jsonl",
        ),
    ];
    for (no, (file, from, to, why)) in spoils.into_iter().enumerate() {
        let bundle = dir.path().join(no.to_string());
        bundled(&ledger, &bundle);
        let path = bundle.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from} is in {text}");
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let error = error_chain(&Bundle::open(&bundle).unwrap_err());
        assert!(error.contains(why), "{from} → {to}: {error}");
    }
}

#[test]
fn forged_digest_does_not_hide_changed_line() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = filled(&dir.path().join("here"));
    let bundle = dir.path().join("bundle");
    bundled(&ledger, &bundle);
    let (manifest, streams) = (bundle.join("manifest.json"), bundle.join("streams.jsonl"));
    let before = fs::read(&streams).unwrap();
    let after = String::from_utf8(before.clone()).unwrap().replacen("\"x\"", "\"z\"", 1);
    fs::write(&streams, &after).unwrap();
    let digest = |bytes: &[u8]| blake3::hash(bytes).to_hex().to_string();
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace(&digest(&before), &digest(after.as_bytes()))).unwrap();
    let error = error_chain(&Bundle::open(&bundle).unwrap_err());
    assert!(error.contains("its checksum is wrong"), "{error}");
}

#[test]
fn bundle_overwrites_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = filled(&dir.path().join("here"));
    let error = write_bundle(&ledger, &id("team/t"), &[id("team/t")], false, dir.path());
    assert!(matches!(error, Err(BundleError::Exists { .. })), "{error:?}");
    let missing = Bundle::open(&dir.path().join("nowhere")).unwrap_err();
    assert!(matches!(missing, BundleError::Io { .. }), "{missing:?}");
}
