use super::*;

fn row(id: &str, after: &[&str], state: &str) -> GraphTaskRow {
    GraphTaskRow {
        id: id.to_owned(),
        title: format!("Title of {id}"),
        after: after.iter().map(|on| (*on).to_owned()).collect(),
        state: state.to_owned(),
        note: String::new(),
    }
}

/// Returns waiting tasks, each of which depends on the task that is `back` positions before it.
fn strands(count: usize, back: usize) -> Vec<GraphTaskRow> {
    let name = |no: usize| format!("t{no}");
    let before = |no: usize| no.checked_sub(back).map(name);
    let task = |no: usize| {
        row(&name(no), &before(no).as_deref().into_iter().collect::<Vec<_>>(), "waiting")
    };
    (0..count).map(task).collect()
}

fn shown(rows: &[GraphTaskRow], columns: usize) -> String {
    graph_lines(Paint::OFF, Screen::with_columns(columns), rows, GraphExtent::Folded).join("\n")
}

#[test]
fn renders_one_task() {
    insta::assert_snapshot!(shown(&[row("parser", &[], "working")], 80), @"
      TASK    STATE    TITLE
    ● parser  working  Title of parser
    ");
}

#[test]
fn renders_chain() {
    let rows = [
        row("format", &[], "succeeded"),
        row("parser", &["format"], "working"),
        row("docs", &["parser"], "waiting"),
    ];
    insta::assert_snapshot!(shown(&rows, 80), @"
       TASK    STATE      TITLE
    ╭✓ format  succeeded  Title of format
    ├● parser  working    Title of parser
    ╰○ docs    waiting    Title of docs
    ");
}

#[test]
fn renders_diamond() {
    let mut rows = [
        row("format", &[], "succeeded"),
        row("parser", &["format"], "needs_input"),
        row("printer", &["format"], "rework"),
        row("docs", &["parser", "printer"], "waiting"),
    ];
    rows[1].note = "15b2a3ba.q1 waits for a person".to_owned();
    insta::assert_snapshot!(shown(&rows, 80), @"
         TASK     STATE        TITLE             NOTE
    ╭✓   format   succeeded    Title of format
    ├─┬? parser   needs input  Title of parser   15b2a3ba.q1 waits for a person
    ├●│  printer  rework       Title of printer
    ╰○╯  docs     waiting      Title of docs
    ");
    insta::assert_snapshot!(shown(&rows, 44), @"
         TASK     STATE        NOTE
    ╭✓   format   succeeded
    ├─┬? parser   needs input  15b2a3ba.q1 wait…
    ├●│  printer  rework
    ╰○╯  docs     waiting
    ");
}

#[test]
fn renders_unrelated_chains() {
    let rows = [
        row("a1", &[], "succeeded"),
        row("b1", &[], "failed"),
        row("a2", &["a1"], "working"),
        row("b2", &["b1"], "cancelled"),
        row("alone", &[], "working"),
        row("also-alone", &[], "working"),
        row("a3", &["a2"], "waiting"),
    ];
    insta::assert_snapshot!(shown(&rows, 80), @"
       TASK        STATE      TITLE
    ╭✓ a1          succeeded  Title of a1
    ├● a2          working    Title of a2
    ╰○ a3          waiting    Title of a3
    ╭✗ b1          failed     Title of b1
    ╰× b2          cancelled  Title of b2
     ● alone       working    Title of alone
     ● also-alone  working    Title of also-alone
    ");
}

#[test]
fn renders_fan_out_and_join() {
    let names: Vec<String> = (1..=12).map(|no| format!("part-{no}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut rows = vec![row("root", &[], "succeeded")];
    rows.extend(names.iter().map(|name| row(name, &["root"], "working")));
    rows.push(row("join", &names, "waiting"));
    insta::assert_snapshot!(shown(&rows, 100), @"
                             TASK     STATE      TITLE
    ╭✓                       root     succeeded  Title of root
    ├─┬●                     part-1   working    Title of part-1
    ├─│─┬●                   part-2   working    Title of part-2
    ├─│─│─┬●                 part-3   working    Title of part-3
    ├─│─│─│─┬●               part-4   working    Title of part-4
    ├─│─│─│─│─┬●             part-5   working    Title of part-5
    ├─│─│─│─│─│─┬●           part-6   working    Title of part-6
    ├─│─│─│─│─│─│─┬●         part-7   working    Title of part-7
    ├─│─│─│─│─│─│─│─┬●       part-8   working    Title of part-8
    ├─│─│─│─│─│─│─│─│─┬●     part-9   working    Title of part-9
    ├─│─│─│─│─│─│─│─│─│─┬●   part-10  working    Title of part-10
    ├─│─│─│─│─│─│─│─│─│─│─┬● part-11  working    Title of part-11
    ├●│ │ │ │ │ │ │ │ │ │ │  part-12  working    Title of part-12
    ╰○┴─┴─┴─┴─┴─┴─┴─┴─┴─┴─╯  join     waiting    Title of join
    ");
}

/// The merge line of one task crosses an unrelated task, and one link is transitive.
#[test]
fn renders_crossing_lines() {
    let rows = [
        row("a", &[], "succeeded"),
        row("b", &["a"], "succeeded"),
        row("c", &["a"], "succeeded"),
        row("d", &["a"], "succeeded"),
        row("e", &["a", "b", "d"], "working"),
        row("f", &["c"], "working"),
        row("g", &["c", "e"], "waiting"),
        row("h", &["b"], "waiting"),
        row("i", &["a", "g", "h"], "waiting"),
    ];
    insta::assert_snapshot!(shown(&rows, 80), @"
               TASK  STATE      TITLE
    ╭✓         a     succeeded  Title of a
    ├─┬✓       b     succeeded  Title of b
    │ ├─┬○     h     waiting    Title of h
    ├─│─│─┬✓   c     succeeded  Title of c
    │ │ │ ├──● f     working    Title of f
    ├✓│ │ │    d     succeeded  Title of d
    ├●╯ │ │    e     working    Title of e
    ├○──│─╯    g     waiting    Title of g
    ╰○──╯      i     waiting    Title of i
    ");
}

/// Returns five layers of twelve tasks, each of which depends on some tasks in the previous layer.
/// The first two layers are finished.
fn sixty() -> Vec<GraphTaskRow> {
    let name = |layer: usize, no: usize| format!("l{layer}-{no:02}");
    let task = |no: usize| {
        let (layer, at) = (no / 12, no % 12);
        let before = [at, at + 1, at + 5].map(|on| name(layer.wrapping_sub(1), on % 12));
        let before: Vec<&str> = before.iter().map(String::as_str).collect();
        let after = if layer == 0 { &[][..] } else { &before[..1 + at % 3] };
        let state = ["succeeded", "succeeded", "working", "waiting", "waiting"][layer];
        row(&name(layer, at), after, state)
    };
    (0..60).map(task).collect()
}

#[test]
fn renders_sixty_tasks() {
    insta::assert_snapshot!(shown(&sixty(), 100), @"
    ✓ 24 done
      STEP  TASK   STATE    AFTER                TITLE
    ● 1     l2-00  working                       Title of l2-00
    ● 1     l2-01  working                       Title of l2-01
    ● 1     l2-02  working                       Title of l2-02
    ● 1     l2-03  working                       Title of l2-03
    ● 1     l2-04  working                       Title of l2-04
    ● 1     l2-05  working                       Title of l2-05
    ● 1     l2-06  working                       Title of l2-06
    ● 1     l2-07  working                       Title of l2-07
    ● 1     l2-08  working                       Title of l2-08
    ● 1     l2-09  working                       Title of l2-09
    ● 1     l2-10  working                       Title of l2-10
    ● 1     l2-11  working                       Title of l2-11
    ○ 2     l3-00  waiting  l2-00                Title of l3-00
    ○ 2     l3-01  waiting  l2-01, l2-02         Title of l3-01
    ○ 2     l3-02  waiting  l2-02, l2-03, l2-07  Title of l3-02
    ○ 2     l3-03  waiting  l2-03                Title of l3-03
    ○ 2     l3-04  waiting  l2-04, l2-05         Title of l3-04
    ○ 2     l3-05  waiting  l2-05, l2-06, l2-10  Title of l3-05
    ○ 2     l3-06  waiting  l2-06                Title of l3-06
    ○ 2     l3-07  waiting  l2-07, l2-08         Title of l3-07
    ○ 2     l3-08  waiting  l2-01, l2-08, l2-09  Title of l3-08
    ○ 2     l3-09  waiting  l2-09                Title of l3-09
    ○ 2     l3-10  waiting  l2-10, l2-11         Title of l3-10
    ○ 2     l3-11  waiting  l2-00, l2-04, l2-11  Title of l3-11
    ○ 3     l4-00  waiting  l3-00                Title of l4-00
    ○ 3     l4-01  waiting  l3-01, l3-02         Title of l4-01
    ○ 3     l4-02  waiting  l3-02, l3-03, l3-07  Title of l4-02
    ○ 3     l4-03  waiting  l3-03                Title of l4-03
    ○ 3     l4-04  waiting  l3-04, l3-05         Title of l4-04
    ○ 3     l4-05  waiting  l3-05, l3-06, l3-10  Title of l4-05
    ○ 3     l4-06  waiting  l3-06                Title of l4-06
    ○ 3     l4-07  waiting  l3-07, l3-08         Title of l4-07
    ○ 3     l4-08  waiting  l3-01, l3-08, l3-09  Title of l4-08
    ○ 3     l4-09  waiting  l3-09                Title of l4-09
    ○ 3     l4-10  waiting  l3-10, l3-11         Title of l4-10
    ○ 3     l4-11  waiting  l3-00, l3-04, l3-11  Title of l4-11
    ");
    let whole = graph_lines(Paint::OFF, Screen::with_columns(100), &sixty(), GraphExtent::Whole);
    assert_eq!(whole.len(), 61, "a head and every task");
}

#[test]
fn wide_fan_is_listed() {
    let mut rows = strands(13, 20);
    let all: Vec<String> = rows.iter().map(|row| row.id.clone()).collect();
    rows.push(row("join", &all.iter().map(String::as_str).collect::<Vec<_>>(), "waiting"));
    rows.push(row("after-it", &["join"], "waiting"));
    let lines = shown(&rows, 60);
    let last: Vec<&str> = lines.lines().skip(13).collect();
    insta::assert_snapshot!(last.join("\n"), @"
    ○ 1     t12       waiting                    Title of t12
    ○ 2     join      waiting  t0, t1, t2, t3,…  Title of join
    ○ 3     after-it  waiting  join              Title of after…
    ");
}

#[test]
fn tasks_that_need_attention_are_not_folded() {
    let state = |no: usize| match no {
        0..300 => "succeeded",
        450 => "failed",
        470 => "needs_input",
        300..310 => "working",
        _ => "waiting",
    };
    let mut rows = strands(500, 10);
    rows.iter_mut().enumerate().for_each(|(no, row)| row.state = state(no).to_owned());
    let lines = graph_lines(Paint::OFF, Screen::with_columns(100), &rows, GraphExtent::Folded);
    assert_eq!(lines.first().map(String::as_str), Some("✓ 300 done"));
    assert_eq!(lines.last().map(String::as_str), Some("○ 120 more waiting"));
    assert_eq!(lines.len(), 83, "two counts, a head and eighty tasks");
    for needed in ["t300 ", "t309 ", "t450 ", "t470 ", "t310 "] {
        assert!(lines.iter().any(|line| line.contains(needed)), "{needed}");
    }
}

#[test]
fn lines_are_escaped_and_fit_the_terminal() {
    let mut rows = sixty();
    for row in &mut rows {
        row.title = "\u{1b}[2J\u{202e}日本語\n".repeat(9);
        row.note = "\u{7}\r".to_owned();
    }
    rows[30].id = "\u{1b}]0;x\u{7}".to_owned();
    rows[31].state = "\u{9b}31m".to_owned();
    for columns in [40, 60, 80, 120, 200] {
        for extent in [GraphExtent::Whole, GraphExtent::Folded] {
            for line in graph_lines(Paint::OFF, Screen::with_columns(columns), &rows, extent) {
                assert!(!line.chars().any(char::is_control), "{line:?}");
                let width = crate::ui::text::width(&line);
                assert!(width <= columns, "{width} of {columns}: {line}");
            }
        }
    }
}

#[test]
fn invalid_plan_is_still_drawn() {
    let rows = [
        row("a", &["b", "a", "none"], "waiting"),
        row("b", &["a", "a"], "waiting"),
        row("b", &[], "odd"),
    ];
    assert_eq!(shown(&rows, 80).lines().count(), 4);
    assert_eq!(shown(&[], 80).lines().count(), 1, "the head alone");
}

#[test]
fn renders_ten_thousand_tasks() {
    let mut fan = strands(9_999, 10_000);
    let all: Vec<String> = fan.iter().map(|row| row.id.clone()).collect();
    fan.push(row("join", &all.iter().map(String::as_str).collect::<Vec<_>>(), "waiting"));
    for rows in [strands(10_000, 1), strands(10_000, 500), fan] {
        let lines = |extent| graph_lines(Paint::OFF, Screen::UNLIMITED, &rows, extent).len();
        assert_eq!(lines(GraphExtent::Whole), 10_001, "a head and every task");
        assert_eq!(lines(GraphExtent::Folded), 82, "a head, eighty tasks and a count");
    }
}
