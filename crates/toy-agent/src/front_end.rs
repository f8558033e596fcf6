//! The toy agent on the command line, with its section of the configuration.

use std::path::PathBuf;

use provost_agent::front_end::{
    AgentFrontEnd, AgentProgram, AgentVariables, FrontEndContext, ProgramRequest,
};
use provost_api::{ApiError, ErrorCode};
use provost_config::{
    AgentSection, FilePath, KeyTerms, NameLabel, Resolved, Switchable, agent_section,
};
use provost_core::session::{AgentProfile, AgentSettings};

agent_section! {
    /// The toy agent of the tests.
    "toy" => ToySettings {
        /// The path of the program.
        path: Switchable<FilePath> = unset, KeyTerms::needs_trust("the toy program to run").variable("PROVOST_TOY");
        /// The model that the toy agent pretends to use.
        model: Switchable<NameLabel> = unset, KeyTerms::HARMLESS.in_presets();
    }
}

pub(crate) struct ToyFrontEnd;

impl AgentFrontEnd for ToyFrontEnd {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn title(&self) -> &'static str {
        "Toy"
    }

    fn section(&self) -> Option<AgentSection> {
        Some(ToySettings::SECTION)
    }

    fn variables(&self, _config: &Resolved) -> AgentVariables {
        AgentVariables::default()
    }

    fn resolve(
        &self,
        context: &FrontEndContext<'_>,
        _request: &ProgramRequest<'_>,
    ) -> Result<AgentProgram, ApiError> {
        let settings = ToySettings::from_config(context.config);
        let user_home = context.absolute_path("HOME").unwrap_or_else(|| PathBuf::from("/"));
        let path = settings.path.on().ok_or_else(|| {
            ApiError::new(ErrorCode::BadRequest, "the program of the toy agent is not configured")
                .next("set agents.toy.path in provost.toml")
        })?;
        let program = context.resolve_path("agents.toy.path", path, &user_home);
        let model = settings.model.on().map(|model| model.as_str().to_owned());
        Ok(AgentProgram {
            argv: vec![program.display().to_string()],
            version: None,
            settings: AgentSettings { model, ..AgentSettings::default() },
            profile: AgentProfile {
                user_home: user_home.display().to_string(),
                ..AgentProfile::default()
            },
            own_variables: Vec::new(),
            search_first: Vec::new(),
            search_last: Vec::new(),
            warnings: Vec::new(),
        })
    }
}
