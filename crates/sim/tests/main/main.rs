//! The simulator over its seeds, the bugs it must find, and the model check.

#[cfg(feature = "seeded-bugs")]
mod bugs;
mod crashes;
mod depth;
mod load;
mod many_seeds;
mod model;
mod run_model;
mod run_model_values;
#[cfg(feature = "seeded-bugs")]
mod seeded_bugs;
mod seeds;
mod shortages;
