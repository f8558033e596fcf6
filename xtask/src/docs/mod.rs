//! `cargo xtask docs`: generates documents from the code, so that they cannot drift from it.

mod cli;
mod schemas;
mod vocabulary;

use std::{fs, path::Path};

use anyhow::{Context as _, Result, bail};

use crate::{print::print_line, workspace::Workspace};

/// The hand-written part before the table of keys.
const CONFIGURATION_HEAD: &str = include_str!("../../templates/configuration.md");
/// The directory of generated schemas. Other files in it are removed.
const SCHEMAS: &str = "docs/schemas";

/// Whether the documents are written or only compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum DocsMode {
    Write,
    Check,
}

/// A generated file: its path in the workspace and its contents.
struct Document {
    path: String,
    text: String,
}

/// Generates all documents, then writes them, or fails if any differs.
pub(crate) fn run(workspace: &Workspace, mode: DocsMode) -> Result<()> {
    let documents = generate(workspace)?;
    let drifted = match mode {
        DocsMode::Write => write(&workspace.root, &documents)?,
        DocsMode::Check => outdated(&workspace.root, &documents),
    };
    if mode == DocsMode::Check && !drifted.is_empty() {
        bail!("out of date: {}; run `cargo xtask docs`", drifted.join(", "));
    }
    print_line(&format!("── documents: {} generated, {} changed", documents.len(), drifted.len()));
    Ok(())
}

fn generate(workspace: &Workspace) -> Result<Vec<Document>> {
    let programs = workspace.build_for_tests()?;
    provost_config::register_agent_sections([provost_agent_codex::CodexSettings::SECTION]);
    let mut documents = schemas::documents()?;
    documents.push(Document {
        path: "docs/configuration.md".to_owned(),
        text: format!("{CONFIGURATION_HEAD}\n{}", provost_config::reference_markdown()),
    });
    let open_api = serde_json::to_string_pretty(&provost_api::open_api())?;
    documents
        .push(Document { path: "docs/openapi.json".to_owned(), text: format!("{open_api}\n") });
    documents.push(Document { path: "docs/words.md".to_owned(), text: vocabulary::markdown() });
    documents
        .push(Document { path: "docs/cli.md".to_owned(), text: cli::markdown(&programs.provost)? });
    Ok(documents)
}

/// Writes changed documents and removes obsolete schemas. Returns their names.
fn write(root: &Path, documents: &[Document]) -> Result<Vec<String>> {
    let drifted = outdated(root, documents);
    for document in documents.iter().filter(|document| drifted.contains(&document.path)) {
        let path = root.join(&document.path);
        let dir = path.parent().context("the document's path has no directory")?;
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        fs::write(&path, &document.text)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    for stray in strays(root, documents) {
        fs::remove_file(root.join(&stray)).with_context(|| format!("cannot remove {stray}"))?;
    }
    Ok(drifted)
}

/// Returns the documents that differ, and obsolete schemas.
fn outdated(root: &Path, documents: &[Document]) -> Vec<String> {
    let differs = |document: &&Document| {
        fs::read_to_string(root.join(&document.path)).ok().as_ref() != Some(&document.text)
    };
    let mut drifted: Vec<String> =
        documents.iter().filter(differs).map(|document| document.path.clone()).collect();
    drifted.extend(strays(root, documents));
    drifted
}

fn strays(root: &Path, documents: &[Document]) -> Vec<String> {
    let files = fs::read_dir(root.join(SCHEMAS)).into_iter().flatten().flatten();
    let names = files.map(|file| format!("{SCHEMAS}/{}", file.file_name().to_string_lossy()));
    names.filter(|name| !documents.iter().any(|document| document.path == *name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_is_detected_and_fixed_by_writing() {
        let root = tempfile::tempdir().unwrap();
        let document =
            |path: &str, text: &str| Document { path: path.to_owned(), text: text.to_owned() };
        let documents = [document("docs/a.md", "a\n"), document("docs/schemas/b.json", "{}\n")];
        assert_eq!(outdated(root.path(), &documents), ["docs/a.md", "docs/schemas/b.json"]);
        write(root.path(), &documents).unwrap();
        assert_eq!(outdated(root.path(), &documents), Vec::<String>::new());

        fs::write(root.path().join("docs/a.md"), "b\n").unwrap();
        fs::write(root.path().join("docs/schemas/old.json"), "{}\n").unwrap();
        assert_eq!(outdated(root.path(), &documents), ["docs/a.md", "docs/schemas/old.json"]);
        write(root.path(), &documents).unwrap();
        assert_eq!(outdated(root.path(), &documents), Vec::<String>::new());
    }
}
