//! The template for instructions. Rendering is strict: an unknown name is an error and does not
//! render as empty text.

use std::{cell::RefCell, fmt};

use liquid::{
    Object, ObjectView, ParserBuilder, ValueView,
    model::{DisplayCow, KStringCow, State, Value},
};

use super::Error;
use crate::issue::Issue;

/// The template to use if the workflow has no body.
const DEFAULT_BODY: &str = "You are working on an issue from the configured tracker.\n\n{{ issue.identifier }}: {{ issue.title }}\n\n{{ issue.description }}";

/// The body of a workflow. It is parsed only when it is rendered, so that an invalid body fails a
/// single attempt instead of `serve` itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueTemplate {
    text: String,
}

impl IssueTemplate {
    pub fn new(body: &str) -> Self {
        let text = if body.trim().is_empty() { DEFAULT_BODY } else { body };
        IssueTemplate { text: text.to_owned() }
    }

    /// Renders the template for an issue. `attempt` is `None` for the first attempt.
    pub fn render(&self, issue: &Issue, attempt: Option<u32>) -> Result<String, Error> {
        let parser = ParserBuilder::with_stdlib()
            .build()
            .map_err(|why| Error::TemplateParse(why.to_string()))?;
        let template = parser.parse(&self.text).map_err(|why| parse_error(&why.to_string()))?;
        let error = |why: String| Error::TemplateRender(why);
        let object = liquid::to_object(issue).map_err(|why| error(format!("the issue: {why}")))?;
        let missed = RefCell::new(None);
        let issue = StrictObject { name: "issue.", object, inner: None, missed: &missed };
        let mut object = Object::new();
        object.insert(
            "attempt".into(),
            attempt.map_or(Value::Nil, |no| Value::scalar(i64::from(no))),
        );
        let globals =
            StrictObject { name: "", object, inner: Some(Box::new(issue)), missed: &missed };
        let text = template.render(&globals).map_err(|why| error(why.to_string()))?;
        match missed.take() {
            Some(name) => Err(error(format!("{name} is not known"))),
            None => Ok(text.trim().to_owned()),
        }
    }
}

/// Converts a parser error. Unknown filters are already detected by the parser, but count as render errors.
fn parse_error(why: &str) -> Error {
    if why.contains("Unknown filter") {
        Error::TemplateRender(why.trim_end().to_owned())
    } else {
        Error::TemplateParse(why.trim_end().to_owned())
    }
}

/// An object that records the first unknown name that is looked up. Without this, Liquid would
/// treat unknown names in conditions as nil and continue.
struct StrictObject<'a> {
    /// The prefix of the object's keys in templates.
    name: &'static str,
    object: Object,
    /// The issue, if this is the root object.
    inner: Option<Box<StrictObject<'a>>>,
    missed: &'a RefCell<Option<String>>,
}

/// The name by which templates refer to the issue.
const ISSUE: &str = "issue";

/// Names that Liquid itself looks up to check whether a loop is nested.
const LANGUAGE_NAMES: [&str; 2] = ["forloop", "tablerowloop"];

impl StrictObject<'_> {
    fn contains(&self, key: &str) -> bool {
        (self.inner.is_some() && key == ISSUE) || self.object.contains_key(key)
    }

    fn lookup(&self, key: &str) -> bool {
        let held = self.contains(key);
        if !held && !LANGUAGE_NAMES.contains(&key) {
            self.missed.borrow_mut().get_or_insert_with(|| format!("{}{key}", self.name));
        }
        held
    }
}

impl fmt::Debug for StrictObject<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object.fmt(out)
    }
}

impl ValueView for StrictObject<'_> {
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

impl ObjectView for StrictObject<'_> {
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

    /// Whether a name exists. Liquid calls this for the first part of a name, after it has looked
    /// among the template's own variables.
    fn contains_key(&self, key: &str) -> bool {
        if self.inner.is_some() { self.lookup(key) } else { self.contains(key) }
    }

    fn get<'s>(&'s self, key: &str) -> Option<&'s dyn ValueView> {
        match &self.inner {
            Some(inner) if key == ISSUE => Some(inner.as_ref()),
            _ if self.lookup(key) => ObjectView::get(&self.object, key),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::issue::IssueBlocker;

    fn issue() -> Issue {
        Issue {
            id: "1".to_owned(),
            identifier: "ABC-1".to_owned(),
            title: "Greet {{ attempt }}".to_owned(),
            state: "Todo".to_owned(),
            labels: vec!["ui".to_owned(), "bug".to_owned()],
            blocked_by: vec![IssueBlocker {
                identifier: Some("ABC-0".to_owned()),
                ..IssueBlocker::default()
            }],
            dispatchable: true,
            ..Issue::default()
        }
    }

    fn rendered(body: &str, attempt: Option<u32>) -> Result<String, Error> {
        IssueTemplate::new(body).render(&issue(), attempt)
    }

    #[test]
    fn template_renders_issue_and_attempt() {
        let body = "{{ issue.identifier }}: {{ issue.title }}{% if attempt %} again ({{ attempt }}){% endif %}{% for label in issue.labels %} #{{ label | upcase }}{% endfor %}{% for one in issue.blocked_by %} after {{ one.identifier }}{% endfor %}{{ issue.priority }}";
        assert_eq!(
            rendered(body, None).unwrap(),
            "ABC-1: Greet {{ attempt }} #UI #BUG after ABC-0"
        );
        assert!(rendered(body, Some(2)).unwrap().contains("again (2)"));
    }

    #[test]
    fn template_knows_every_issue_field() {
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
    fn unknown_names_fail_everywhere() {
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
    fn template_variables_are_known() {
        let body = "{% assign all = issue.labels | join: '+' %}{% if all %}{{ all }}{% endif %}{% for l in issue.labels %}{% if forloop.first %}{% if l == 'ui' %}!{% endif %}{% endif %}{% endfor %}";
        assert_eq!(rendered(body, None).unwrap(), "ui+bug!");
    }

    #[test]
    fn invalid_template_is_a_parse_error() {
        assert_eq!(rendered("{% if issue %}", None).unwrap_err().class(), "template_parse_error");
        assert_eq!(rendered("{{ issue.", None).unwrap_err().class(), "template_parse_error");
    }

    #[test]
    fn default_template_shows_issue() {
        assert!(rendered(" ", None).unwrap().contains("ABC-1: Greet"));
    }
}
