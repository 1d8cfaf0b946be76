//! Reading the source tree: its files, and words in Rust code that are neither comment nor text.

pub mod cycles;
pub mod locks;
pub mod loops;
pub mod paths;
mod readmes;
mod sleeps;
mod trust;
pub mod vocabulary;

use std::fs;
use std::path::Path;

use margay_tests::tree;

/// Directories that hold nothing of ours; in a worktree .git is a file.
const NOT_OURS: &[&str] = &["target", ".git"];

/// Every text file: its path from the root, and its text.
pub fn all_files() -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect(Path::new(""), &mut found);
    assert!(
        found.len() > 100,
        "only {} files: is this the source tree?",
        found.len()
    );
    found
}

/// Files with this extension.
pub fn files(extension: &str) -> impl Iterator<Item = (String, String)> {
    let end = format!(".{extension}");
    all_files()
        .into_iter()
        .filter(move |(path, _)| path.ends_with(&end))
}

fn collect(below: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(tree::root().join(below))
        .expect("a directory")
        .flatten()
    {
        let path = below.join(entry.file_name());
        let ours = !NOT_OURS.iter().any(|name| *name == entry.file_name());
        let kind = entry.file_type().expect("a kind");
        if kind.is_dir() && ours {
            collect(&path, found);
        } else if kind.is_file()
            && ours
            && let Ok(text) = fs::read_to_string(entry.path())
        {
            found.push((path.to_string_lossy().into_owned(), text));
        }
    }
}

/// Lines, from 1, in which Rust code has this word. Comments and texts are not code.
pub fn words(text: &str, word: &str) -> Vec<usize> {
    let code = code_only(text);
    let lines = code.lines().enumerate();
    let lines = lines.filter(|(_, line)| places(line, word).next().is_some());
    lines.map(|(number, _)| number + 1).collect()
}

/// Where a word begins in code that has neither comments nor texts.
fn places(code: &str, word: &str) -> impl Iterator<Item = usize> {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let whole = code.match_indices(word).filter(move |(at, found)| {
        let (before, behind) = (&code[..*at], &code[at + found.len()..]);
        !is_part(before.chars().next_back()) && !is_part(behind.chars().next())
    });
    whole.map(|(at, _)| at)
}

/// The text with comments and string literals made blank.
pub fn code_only(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = skip(rest);
        let length = if skipped > 0 {
            skipped
        } else {
            first.len_utf8()
        };
        let (taken, after) = rest.split_at(length);
        if skipped > 0 {
            code.extend(taken.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        } else {
            code.push_str(taken);
        }
        rest = after;
    }
    code
}

/// Length in bytes of the comment or literal that begins here; 0 when none does.
fn skip(text: &str) -> usize {
    let through = |end: &str, from: usize| {
        text[from..]
            .find(end)
            .map_or(text.len(), |at| from + at + end.len())
    };
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return through("*/", 2);
    }
    if let Some(quotes) = text.strip_prefix("r#") {
        let hashes = quotes.len() - quotes.trim_start_matches('#').len() + 1;
        if text[1 + hashes..].starts_with('"') {
            return through(&format!("\"{}", "#".repeat(hashes)), 2 + hashes);
        }
    }
    if text.starts_with("'\"'") || text.starts_with("'\\\"'") {
        return through("'", 2);
    }
    if text.starts_with('"') {
        let mut escaped = false;
        for (at, c) in text.char_indices().skip(1) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => return at + 1,
                _ => {}
            }
        }
        return text.len();
    }
    0
}

#[test]
fn words_are_found_in_code_only() {
    let text = concat!(
        "// a comment: word\nlet a = \"word \\\" word\"; /* word\nword */ word();\n",
        "let b = r#\"word\"#; let c = '\"'; word();\nsome_word(); \"\\\\\"; word\n"
    );
    assert_eq!(words(text, "word"), [3, 4, 5]);
}
