//! Sizes: `"64MiB"`, `"1GB"`, or whole bytes.

use serde_json::{Value as Json, json};

use super::units;
use crate::node::{NodeValue, ValueNode};
use crate::problem::{ValueFault, quote};
use crate::shape::ValueShape;
use crate::suggest::nearest;
use crate::value::{ConfigValue, invalid, text};

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(u64);

/// The units and their sizes. [`format`] uses the first one that divides the size evenly.
const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1000),
    ("B", 1),
];

impl Bytes {
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    pub const fn get(self) -> u64 {
        self.0
    }
}

impl ConfigValue for Bytes {
    fn shape() -> ValueShape {
        ValueShape::Size
    }

    fn read(node: &ValueNode) -> Result<Self, Vec<ValueFault>> {
        if let NodeValue::Integer(bytes) = node.item {
            return u64::try_from(bytes)
                .map(Self)
                .map_err(|_| invalid(node, "a size cannot be negative"));
        }
        let text = text::<Self>(node)?;
        parse(text)
            .map(Self)
            .map_err(|why| invalid(node, format!("{} is not a size: {why}", quote(text))))
    }

    fn show(&self) -> Json {
        json!(format(self.0))
    }

    fn bounded_amount(&self) -> Option<u64> {
        Some(self.0)
    }
}

fn parse(text: &str) -> Result<u64, String> {
    units::parse(text, "64MiB", scale_of)
}

fn scale_of(unit: &str) -> Result<u64, String> {
    let found = UNITS.iter().find(|(name, _)| *name == unit);
    found.map(|(_, scale)| *scale).ok_or_else(|| unknown_unit(unit))
}

fn unknown_unit(unit: &str) -> String {
    let same_but_case =
        UNITS.iter().map(|(name, _)| *name).find(|name| name.eq_ignore_ascii_case(unit));
    let suggestion = same_but_case.or_else(|| nearest(unit, UNITS.iter().map(|(name, _)| *name)));
    match suggestion {
        Some(name) => format!("unknown unit {}, did you mean {name:?}?", quote(unit)),
        None => format!(
            "unknown unit {}, expected B, KB, MB, GB, TB, KiB, MiB, GiB or TiB",
            quote(unit)
        ),
    }
}

/// Formats a size in the largest unit that yields a whole number.
pub(crate) fn format(bytes: u64) -> String {
    units::format(bytes, &UNITS, "B")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_read_strictly() {
        let ok = [
            ("0", 0),
            ("17", 17),
            ("5B", 5),
            ("1KB", 1000),
            ("1KiB", 1024),
            ("64MiB", 64 << 20),
            ("1GB", 1_000_000_000),
        ];
        for (text, bytes) in ok {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        let bad = [
            "",
            "MiB",
            "-1",
            "1.5GB",
            "1 MiB",
            "64mib",
            "64M",
            "1KBKB",
            "1KB2B",
            "99999999999999999999",
            "99999999999TiB",
        ];
        for text in bad {
            assert!(parse(text).is_err(), "{text:?} was taken");
        }
    }

    #[test]
    fn a_wrong_unit_names_the_right_one() {
        assert_eq!(parse("64mib").unwrap_err(), r#"unknown unit "mib", did you mean "MiB"?"#);
        assert_eq!(
            parse("64quux").unwrap_err(),
            r#"unknown unit "quux", expected B, KB, MB, GB, TB, KiB, MiB, GiB or TiB"#
        );
    }

    proptest! {
        #[test]
        fn a_written_size_reads_back(bytes in any::<u64>()) {
            prop_assert_eq!(parse(&format(bytes)), Ok(bytes));
        }
    }
}
