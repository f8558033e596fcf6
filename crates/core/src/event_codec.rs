//! The `events!` macro, which defines an event enum and its stored form.

use std::fmt::Debug;

/// The reason why a stored event cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("event kind {kind} version {v} is unknown to this version of provost")]
    Unknown { kind: String, v: u16 },
    #[error("event of kind {kind} is malformed")]
    Malformed {
        kind: String,
        #[source]
        source: serde_json::Error,
    },
}

/// An event that is recorded in a stream.
pub trait StoredEvent: Clone + Debug + PartialEq + Send + Sync + 'static {
    /// Returns the kind of the event and the version of its payload.
    fn kind(&self) -> (&'static str, u16);

    /// Returns the payload in its stored form.
    fn encode(&self) -> String;

    /// Decodes a stored event.
    fn decode(kind: &str, v: u16, data: &str) -> Result<Self, DecodeError>;
}

/// Implements [`StoredEvent`] for an event enum with methods of the same names.
macro_rules! stored_event {
    ($event:ty) => {
        impl $crate::event_codec::StoredEvent for $event {
            fn kind(&self) -> (&'static str, u16) {
                <$event>::kind(self)
            }

            fn encode(&self) -> String {
                <$event>::encode(self)
            }

            fn decode(
                kind: &str,
                v: u16,
                data: &str,
            ) -> Result<Self, $crate::event_codec::DecodeError> {
                <$event>::decode(kind, v, data)
            }
        }
    };
}

/// Defines the events of a stream: one payload type per event kind, one enum per subject, the enum
/// of all subjects, and how events are stored. The stored form of an event does not contain its
/// subject.
macro_rules! events {
    ($($(#[$subject_doc:meta])* $subject:ident($events:ident) {
        $($(#[$doc:meta])* $variant:ident = $kind:literal, $v:literal {
            $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)?
        })+
    })+) => {
        $($(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
            pub struct $variant { $($(#[$field_doc])* pub $field: $type),* }

            impl From<$variant> for Event {
                fn from(event: $variant) -> Event {
                    Event::$subject($events::$variant(event))
                }
            }
        )+)+

        $(
            $(#[$subject_doc])*
            #[derive(Clone, Debug, PartialEq, Eq)]
            pub enum $events { $($variant($variant)),+ }

            impl From<$events> for Event {
                fn from(event: $events) -> Event {
                    Event::$subject(event)
                }
            }
        )+

        /// A recorded event.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Event { $($(#[$subject_doc])* $subject($events)),+ }

        impl Event {
            /// Every event kind with the payload version that this program writes.
            pub const KINDS: &'static [(&'static str, u16)] = &[$($(($kind, $v)),+),+];

            pub fn kind(&self) -> (&'static str, u16) {
                match self {
                    $($(Event::$subject($events::$variant(_)) => ($kind, $v)),+),+
                }
            }

            /// Returns the payload in its stored form.
            pub fn encode(&self) -> String {
                let text = match self {
                    $($(Event::$subject($events::$variant(event)) => serde_json::to_string(event)),+),+
                };
                text.expect("event payloads have string keys and no failing serializers")
            }

            /// Decodes a stored event.
            pub fn decode(kind: &str, v: u16, data: &str) -> Result<Event, $crate::event_codec::DecodeError> {
                match (kind, v) {
                    $($(($kind, $v) => serde_json::from_str(data).map($variant::into)),+),+,
                    _ => return Err($crate::event_codec::DecodeError::Unknown { kind: kind.to_owned(), v }),
                }
                .map_err(|source| $crate::event_codec::DecodeError::Malformed { kind: kind.to_owned(), source })
            }
        }
    };
}
