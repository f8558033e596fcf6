//! The simulator over its seeds, the bugs it must find, and the model check.

#[cfg(feature = "seeded-bugs")]
mod bugs;
mod crashes;
mod crowd;
mod depth;
mod model;
mod run_model;
mod seeds;
mod shortages;
mod ten_thousand;
