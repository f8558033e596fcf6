//! Connection probes: the answer always gets through, whatever the member's permissions, and nothing else does.

use provost_core::team::{
    Event, ManagerConfig, ManagerMode, MemberRole, MessageChannel, MessageEvent, NewMessage,
    Priority, Recipient, TeamAction, TeamActor, TeamCommand, TeamMessageKind, TeamRejection,
};

use super::kit::{TestTeam, member, team_spec};

const NONCE: &str = "1f0c77ab";

fn message_to(to: Recipient, kind: TeamMessageKind, text: &str) -> NewMessage {
    NewMessage {
        key: format!("key of {text}"),
        correlation: (kind == TeamMessageKind::Probe).then(|| NONCE.to_owned()),
        channel: MessageChannel::Cli,
        to,
        kind,
        text: text.to_owned(),
        priority: Priority::High,
        expires_in_ms: None,
        steer: false,
    }
}

fn answer(text: &str) -> TeamCommand {
    TeamCommand::Post(Box::new(message_to(Recipient::Operator, TeamMessageKind::Note, text)))
}

/// A strict team whose manager may not ask the user and acknowledged nothing, with a probe to two members.
fn probed() -> TestTeam {
    let config = ManagerConfig {
        mode: ManagerMode::Strict,
        denied: [TeamAction::AskUser].into(),
        ..ManagerConfig::default()
    };
    let mut team = TestTeam::open(team_spec());
    for (name, role) in
        [("boss", MemberRole::Manager), ("eye", MemberRole::Reviewer), ("hand", MemberRole::Worker)]
    {
        team.bind(name, role, None);
    }
    let config = Box::new(config);
    team.apply(&TeamActor::Operator, TeamCommand::Configure { config, expected: 0 });
    for name in ["boss", "eye"] {
        let to = Recipient::Member(name.to_owned());
        let mut probe =
            message_to(to, TeamMessageKind::Probe, &format!("Send this to operator: {NONCE}"));
        probe.key = format!("probe of {name}");
        team.apply(&TeamActor::Operator, TeamCommand::Post(Box::new(probe)));
    }
    team
}

#[test]
fn probe_answer_needs_no_permission() {
    let mut team = probed();
    for name in ["boss", "eye"] {
        let events = team.apply(&member(name), answer(&format!(" {NONCE}\n")));
        let [Event::Message(MessageEvent::MessageStored(stored))] = events.as_slice() else {
            panic!("{events:?}")
        };
        assert_eq!(stored.to, Recipient::Operator, "and no move is used for it");
    }
}

#[test]
fn probe_answer_allows_nothing_else() {
    let mut team = probed();
    let more = format!("{NONCE}, and by the way: may I go on?");
    for text in [more.as_str(), "another text", ""] {
        let why = team.reject(&member("boss"), answer(text));
        assert_eq!(why, TeamRejection::NotGranted(TeamAction::AskUser), "{text}");
    }
    // Only the probed address takes the answer, and only once.
    let other = TeamCommand::Post(Box::new(message_to(
        Recipient::Member("hand".to_owned()),
        TeamMessageKind::Instruction,
        NONCE,
    )));
    assert_eq!(team.reject(&member("boss"), other), TeamRejection::ContractNotAccepted(1));
    team.apply(&member("boss"), answer(NONCE));
    let mut again = message_to(Recipient::Operator, TeamMessageKind::Note, NONCE);
    again.key = "another key".to_owned();
    let why = team.reject(&member("boss"), TeamCommand::Post(Box::new(again)));
    assert_eq!(why, TeamRejection::NotGranted(TeamAction::AskUser));
}

#[test]
fn answer_to_cancelled_probe_needs_permission() {
    let mut team = probed();
    let because = "nobody waits any more".to_owned();
    team.apply(&TeamActor::Operator, TeamCommand::CancelMessage { no: 1, because });
    let why = team.reject(&member("boss"), answer(NONCE));
    assert_eq!(why, TeamRejection::NotGranted(TeamAction::AskUser));
}

#[test]
fn only_operator_renames_an_active_team() {
    let mut team = TestTeam::paired();
    let rename = |name: &str| TeamCommand::Rename { name: name.to_owned() };
    for name in ["boss", "hand", "eye"] {
        let why = team.reject(&member(name), rename("mine"));
        assert!(matches!(why, TeamRejection::NotForRole { .. }), "{why}");
    }
    assert_eq!(team.reject(&TeamActor::Operator, rename("limits")), TeamRejection::NothingNew);
    assert_eq!(
        team.reject(&TeamActor::Operator, rename(" ")),
        TeamRejection::BadName(" ".to_owned())
    );
    team.apply(&TeamActor::Operator, rename("call limits"));
    assert_eq!(team.task.spec.name, "call limits");
    let because = "nobody needs it".to_owned();
    team.apply(&TeamActor::Operator, TeamCommand::Cancel { because });
    assert_eq!(
        team.reject(&TeamActor::Operator, rename("x")),
        TeamRejection::TeamOver("cancelled")
    );
}
