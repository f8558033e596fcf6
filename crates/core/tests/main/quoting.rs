//! Names in texts for people.

use provost_core::text::quote_name;

#[test]
fn pronouns_are_quoted_as_names() {
    assert_eq!(quote_name("me"), "\"me\"");
    assert_eq!(quote_name("You"), "\"You\"");
    assert_eq!(quote_name("boss-2"), "boss-2");
}
