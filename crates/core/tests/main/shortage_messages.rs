//! Messages that report a shortage of resources, and when the effect is retried.

use provost_core::shortage::{LONGEST_RETRY_MS, Resource, Shortage, retry_after_ms};

fn resource(text: &str) -> Option<Resource> {
    Shortage::from_text(text).map(|shortage| shortage.resource)
}

#[test]
fn system_message_is_classified_only_as_cause() {
    let made = "start it: make the directory \"/x\": No space left on device (os error 28)";
    assert_eq!(resource(made), Some(Resource::DiskSpace));
    assert_eq!(resource("Too many open files in system"), Some(Resource::Descriptors));
    assert_eq!(
        resource("start a holder: Resource temporarily unavailable (os error 11)"),
        Some(Resource::Threads)
    );
    assert_eq!(resource("open log: Read-only file system"), Some(Resource::WritableDisk));
    assert_eq!(resource("cannot run \"No space left on device\": not found"), None);
    assert_eq!(resource("cannot run \"codex\": Permission denied (os error 13)"), None);
    assert_eq!(resource("open \"No space left on device: x\": Permission denied"), None);
    let left = "its holder was killed: No space left on device; 1 of its processes is left";
    assert_eq!(resource(left), Some(Resource::DiskSpace));
    assert_eq!(resource(""), None);
}

#[test]
fn failed_git_write_means_no_disk_space() {
    let reset = "run git reset --hard: unable to write file big";
    assert_eq!(resource(reset), Some(Resource::DiskSpace));
    let listed = "error: unable to write file big\nfatal: Could not reset index file";
    assert_eq!(resource(listed), Some(Resource::DiskSpace));
    let leading = "fatal: could not create leading directories of 'a/b'";
    assert_eq!(resource(leading), Some(Resource::DiskSpace));
    assert_eq!(resource("fatal: not a git repository"), None);
}

#[test]
fn names_in_what_git_prints_are_not_its_messages() {
    let refused = "land: error: Your local changes to the following files would be \
                   overwritten by merge:\n\ta: No space left on device\nAborting";
    assert_eq!(resource(refused), None);
    let names = [
        "\ta: No space left on device",
        "a: No space left on device",
        "Auto-merging a: unable to write file",
        "error: pathspec 'a: No space left on device' did not match any file",
        "error: Entry 'a: No space left on device' not uptodate. Cannot merge.",
    ];
    for line in names {
        assert_eq!(Shortage::from_git(line), None, "{line}");
    }
    let short = "Updating a..b\nfatal: cannot create directory at 'x': No space left on device";
    assert!(Shortage::from_git(short).is_some());
}

#[test]
fn retry_delay_doubles_up_to_limit() {
    let waits: Vec<u64> = (1..8).map(retry_after_ms).collect();
    assert_eq!(waits, [1_000, 2_000, 4_000, 8_000, 15_000, 15_000, 15_000]);
    assert_eq!(retry_after_ms(u32::MAX), LONGEST_RETRY_MS);
}
