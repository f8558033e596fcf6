//! The instruction template, rendered strictly: an unknown name is an error instead of a gap.

use std::{cell::RefCell, fmt};

use liquid::{
    Object, ObjectView, ParserBuilder, ValueView,
    model::{DisplayCow, KStringCow, State, Value},
};

use super::Error;
use crate::issue::Issue;

/// The default instruction of a workflow without a body.
const NO_BODY: &str = "You are working on an issue from the configured tracker.\n\n{{ issue.identifier }}: {{ issue.title }}\n\n{{ issue.description }}";

/// The body of a workflow. It is parsed when it is rendered, so that a broken one fails an attempt
/// and not the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    text: String,
}

impl Template {
    pub fn new(body: &str) -> Self {
        let text = if body.trim().is_empty() { NO_BODY } else { body };
        Template { text: text.to_owned() }
    }

    /// Renders it for an issue. The first attempt has no number.
    pub fn render(&self, issue: &Issue, attempt: Option<u32>) -> Result<String, Error> {
        let parser = ParserBuilder::with_stdlib()
            .build()
            .map_err(|why| Error::TemplateParse(why.to_string()))?;
        let template = parser.parse(&self.text).map_err(|why| unread(&why.to_string()))?;
        let told = |why: String| Error::TemplateRender(why);
        let object = liquid::to_object(issue).map_err(|why| told(format!("the issue: {why}")))?;
        let missed = RefCell::new(None);
        let issue = Known { name: "issue.", object, inner: None, missed: &missed };
        let mut object = Object::new();
        object.insert(
            "attempt".into(),
            attempt.map_or(Value::Nil, |no| Value::scalar(i64::from(no))),
        );
        let globals = Known { name: "", object, inner: Some(Box::new(issue)), missed: &missed };
        let text = template.render(&globals).map_err(|why| told(why.to_string()))?;
        match missed.take() {
            Some(name) => Err(told(format!("{name} is not known"))),
            None => Ok(text.trim().to_owned()),
        }
    }
}

/// Maps a parser error. The parser already detects unknown filters, which count as render errors.
fn unread(why: &str) -> Error {
    if why.contains("Unknown filter") {
        Error::TemplateRender(why.trim_end().to_owned())
    } else {
        Error::TemplateParse(why.trim_end().to_owned())
    }
}

/// An object that records the first unknown name. Conditions treat an unknown name as nil and would
/// continue.
struct Known<'a> {
    /// The prefix of its keys in templates.
    name: &'static str,
    object: Object,
    /// The issue, if this is the global object.
    inner: Option<Box<Known<'a>>>,
    missed: &'a RefCell<Option<String>>,
}

/// The key of the issue.
const ISSUE: &str = "issue";

/// Names that the language itself looks up: a loop checks whether it is nested.
const OF_THE_LANGUAGE: [&str; 2] = ["forloop", "tablerowloop"];

impl Known<'_> {
    fn holds(&self, key: &str) -> bool {
        (self.inner.is_some() && key == ISSUE) || self.object.contains_key(key)
    }

    fn look(&self, key: &str) -> bool {
        let held = self.holds(key);
        if !held && !OF_THE_LANGUAGE.contains(&key) {
            self.missed.borrow_mut().get_or_insert_with(|| format!("{}{key}", self.name));
        }
        held
    }
}

impl fmt::Debug for Known<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object.fmt(out)
    }
}

impl ValueView for Known<'_> {
    fn as_debug(&self) -> &dyn fmt::Debug {
        self
    }

    fn render(&self) -> DisplayCow<'_> {
        self.object.render()
    }

    fn source(&self) -> DisplayCow<'_> {
        self.object.source()
    }

    fn type_name(&self) -> &'static str {
        self.object.type_name()
    }

    fn query_state(&self, state: State) -> bool {
        self.object.query_state(state)
    }

    fn to_kstr(&self) -> KStringCow<'_> {
        self.object.to_kstr()
    }

    fn to_value(&self) -> Value {
        self.object.to_value()
    }

    fn as_object(&self) -> Option<&dyn ObjectView> {
        Some(self)
    }
}

impl ObjectView for Known<'_> {
    fn as_value(&self) -> &dyn ValueView {
        self
    }

    fn size(&self) -> i64 {
        self.object.size()
    }

    fn keys<'k>(&'k self) -> Box<dyn Iterator<Item = KStringCow<'k>> + 'k> {
        ObjectView::keys(&self.object)
    }

    fn values<'k>(&'k self) -> Box<dyn Iterator<Item = &'k dyn ValueView> + 'k> {
        ObjectView::values(&self.object)
    }

    fn iter<'k>(&'k self) -> Box<dyn Iterator<Item = (KStringCow<'k>, &'k dyn ValueView)> + 'k> {
        ObjectView::iter(&self.object)
    }

    /// Called for the first part of a name, after the template's own variables.
    fn contains_key(&self, key: &str) -> bool {
        if self.inner.is_some() { self.look(key) } else { self.holds(key) }
    }

    fn get<'s>(&'s self, key: &str) -> Option<&'s dyn ValueView> {
        match &self.inner {
            Some(inner) if key == ISSUE => Some(inner.as_ref()),
            _ if self.look(key) => ObjectView::get(&self.object, key),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::issue::Blocker;

    fn issue() -> Issue {
        Issue {
            id: "1".to_owned(),
            identifier: "ABC-1".to_owned(),
            title: "Greet {{ attempt }}".to_owned(),
            state: "Todo".to_owned(),
            labels: vec!["ui".to_owned(), "bug".to_owned()],
            blocked_by: vec![Blocker {
                identifier: Some("ABC-0".to_owned()),
                ..Blocker::default()
            }],
            dispatchable: true,
            ..Issue::default()
        }
    }

    fn rendered(body: &str, attempt: Option<u32>) -> Result<String, Error> {
        Template::new(body).render(&issue(), attempt)
    }

    #[test]
    fn an_issue_and_the_attempt_are_filled_in() {
        let body = "{{ issue.identifier }}: {{ issue.title }}{% if attempt %} again ({{ attempt }}){% endif %}{% for label in issue.labels %} #{{ label | upcase }}{% endfor %}{% for one in issue.blocked_by %} after {{ one.identifier }}{% endfor %}{{ issue.priority }}";
        assert_eq!(
            rendered(body, None).unwrap(),
            "ABC-1: Greet {{ attempt }} #UI #BUG after ABC-0"
        );
        assert!(rendered(body, Some(2)).unwrap().contains("again (2)"));
    }

    #[test]
    fn every_field_of_an_issue_can_be_named() {
        let fields = "id native_ref identifier title description priority state branch_name url assignee_id labels blocked_by dispatchable created_at updated_at";
        for field in fields.split(' ') {
            rendered(
                &format!("{{% if issue.{field} %}}{{% endif %}}{{{{ issue.{field} }}}}"),
                None,
            )
            .unwrap();
        }
    }

    #[test]
    fn what_is_not_known_fails_in_texts_and_in_conditions() {
        for body in [
            "{{ isue.title }}",
            "{{ issue.titel }}",
            "{% if isue %}x{% endif %}",
            "{% if issue.titel %}x{% endif %}",
            "{% unless attemt %}x{% endunless %}",
            "{% for one in issue.label %}{{ one }}{% endfor %}",
            "{{ issue.title | shout }}",
        ] {
            assert_eq!(
                rendered(body, None).unwrap_err().class(),
                "template_render_error",
                "{body}"
            );
        }
    }

    #[test]
    fn names_that_the_template_makes_are_known() {
        let body = "{% assign all = issue.labels | join: '+' %}{% if all %}{{ all }}{% endif %}{% for l in issue.labels %}{% if forloop.first %}{% if l == 'ui' %}!{% endif %}{% endif %}{% endfor %}";
        assert_eq!(rendered(body, None).unwrap(), "ui+bug!");
    }

    #[test]
    fn a_template_that_is_none_is_another_error() {
        assert_eq!(rendered("{% if issue %}", None).unwrap_err().class(), "template_parse_error");
        assert_eq!(rendered("{{ issue.", None).unwrap_err().class(), "template_parse_error");
    }

    #[test]
    fn without_a_text_the_issue_itself_is_told() {
        assert!(rendered(" ", None).unwrap().contains("ABC-1: Greet"));
    }
}
