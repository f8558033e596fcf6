//! Codex on the command line: finding it, its settings, `doctor`, skills and attaching.

mod doctor;
mod native_screen;
mod program;
mod settings;
mod setup;

use std::path::Path;

use provost_agent::front_end::{
    AgentFrontEnd, AgentProgram, AgentVariables, DoctorFinding, EffectiveSetting, FrontEndContext,
    NativeScreen, ProgramRequest, ScreenRequest, SkillListing, SkillState,
};
use provost_api::ApiError;
use provost_config::{AgentSection, Resolved};
use provost_core::session::MultiAgent;

pub use self::settings::CodexSettings;
use self::setup::CodexSetup;
use crate::skills::{Delivery, RootKind, Skill, SkillStatus};

/// The command line's view of Codex.
pub(crate) struct CodexFrontEnd;

impl AgentFrontEnd for CodexFrontEnd {
    fn name(&self) -> &'static str {
        "codex"
    }

    fn title(&self) -> &'static str {
        "Codex"
    }

    fn section(&self) -> Option<AgentSection> {
        Some(CodexSettings::SECTION)
    }

    fn variables(&self, config: &Resolved) -> AgentVariables {
        program::variables(config)
    }

    fn resolve(
        &self,
        context: &FrontEndContext<'_>,
        request: &ProgramRequest<'_>,
    ) -> Result<AgentProgram, ApiError> {
        program::resolve(context, request)
    }

    fn trusts_repository(&self, context: &FrontEndContext<'_>, top: &Path) -> bool {
        program::trusts_repository(context, top)
    }

    fn multi_agent(
        &self,
        context: &FrontEndContext<'_>,
        argv: &[String],
    ) -> Result<Option<MultiAgent>, ApiError> {
        CodexSetup::new(context)?.multi_agent(argv)
    }

    fn effective_settings(&self, context: &FrontEndContext<'_>) -> Vec<EffectiveSetting> {
        program::effective_settings(context)
    }

    fn examine(&self, context: &FrontEndContext<'_>, home: Option<&Path>) -> Vec<DoctorFinding> {
        doctor::examine(context, home)
    }

    fn skills(
        &self,
        context: &FrontEndContext<'_>,
        directory: &Path,
    ) -> Result<Option<Vec<SkillListing>>, ApiError> {
        let skills = CodexSetup::new(context)?.skills(directory)?;
        Ok(Some(skills.into_iter().map(listing).collect()))
    }

    fn attach_obstacle(&self, version: Option<&str>) -> Option<String> {
        native_screen::attach_obstacle(version)
    }

    fn native_screen(&self, request: &ScreenRequest<'_>) -> Result<NativeScreen, String> {
        native_screen::native_screen(request)
    }
}

fn listing(skill: Skill) -> SkillListing {
    let state = match skill.status {
        SkillStatus::Used(delivery) => {
            let (delivery, detail) = match delivery {
                Delivery::Native => ("native", None),
                Delivery::Linked => ("linked", Some("linked".to_owned())),
                Delivery::Within(outer) => ("within", Some(format!("within {}", outer.display()))),
            };
            SkillState::Used { delivery, detail }
        }
        SkillStatus::Skipped(reason) => SkillState::Skipped(reason.to_string()),
    };
    let root_kind = match skill.root.kind {
        RootKind::Native => "native",
        RootKind::CodexHome => "codex_home",
        RootKind::Extra => "extra",
    };
    SkillListing {
        name: skill.name,
        description: skill.description,
        path: skill.path,
        root: skill.root.path,
        root_kind,
        state,
    }
}
