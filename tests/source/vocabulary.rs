//! Identifiers use the words that other kernels use: someone who joins tomorrow guesses what a name means. Words that were replaced
//! once came back with the next change.
//!
//! An identifier is taken apart at underscores and capitals, and a word of [`REPLACED`] is looked for among its parts: `told_apart`
//! has `told`, `Untold` has not. Comments and texts are not judged.

use std::collections::{BTreeMap, BTreeSet};

use super::{code_only, files};

/// A word, or several in a row, which no identifier may have, and what is written instead.
struct Replaced {
    word: &'static str,
    instead: &'static str,
    /// Rooms that are not done yet: how many different identifiers with it are left there. Only ever fewer.
    left: &'static [(&'static str, usize)],
}

const fn replaced(
    word: &'static str,
    instead: &'static str,
    left: &'static [(&'static str, usize)],
) -> Replaced {
    Replaced {
        word,
        instead,
        left,
    }
}

const REPLACED: &[Replaced] = &[
    replaced("ask", "request", &[("qk/kernel/", 2), ("lib/", 2)]),
    replaced(
        "asked",
        "requested",
        &[
            ("abi/", 1),
            ("wire/", 1),
            ("pct/", 2),
            ("qk/core/", 3),
            ("qk/kernel/", 2),
            ("host/proxy/", 2),
            ("lib/", 1),
            ("tests/programs/", 1),
        ],
    ),
    replaced(
        "asks",
        "requests",
        &[("host/proxy/", 1), ("lib/", 1), ("tests/programs/", 1)],
    ),
    replaced(
        "birth",
        "fork, start",
        &[("qk/kernel/", 2), ("tests/programs/", 4)],
    ),
    replaced(
        "births",
        "fork lock",
        &[
            ("qk/kernel/", 1),
            ("tests/programs/", 6),
            ("tests/attack/", 3),
        ],
    ),
    replaced("dear", "expensive", &[]),
    replaced("earns", "pays", &[]),
    replaced("errand", "request", &[("lib/", 6)]),
    replaced("farewell", "exit notice", &[("lib/", 1)]),
    replaced("freshen", "flush stale", &[("qk/kernel/", 1)]),
    replaced("goes on as", "resume", &[("qk/kernel/", 1)]),
    replaced("hear", "wait for", &[("lib/", 1)]),
    replaced(
        "heard",
        "received",
        &[("wire/", 1), ("host/proxy/", 1), ("tests/programs/", 1)],
    ),
    replaced("hears", "receives", &[("wire/", 1), ("host/proxy/", 1)]),
    replaced("limbo", "retired, deferred free", &[("lib/", 4)]),
    replaced(
        "look",
        "poll, read",
        &[
            ("wire/", 1),
            ("qk/core/", 4),
            ("qk/hal/", 1),
            ("qk/kernel/", 5),
            ("host/proxy/", 4),
            ("lib/", 3),
            ("tests/programs/", 30),
            ("bench/", 4),
            ("tests/fuzz/", 1),
        ],
    ),
    replaced(
        "looked",
        "polled, read",
        &[
            ("qk/core/", 6),
            ("qk/kernel/", 1),
            ("host/proxy/", 3),
            ("tests/programs/", 1),
        ],
    ),
    replaced(
        "looks",
        "polls, reads",
        &[
            ("qk/core/", 2),
            ("qk/hal/", 1),
            ("qk/kernel/", 1),
            ("host/proxy/", 2),
            ("lib/", 2),
            ("tests/programs/", 3),
        ],
    ),
    replaced("news", "event", &[]),
    replaced(
        "nobody",
        "none",
        &[("qk/core/", 4), ("qk/kernel/", 1), ("tests/programs/", 2)],
    ),
    replaced("nursery", "forker", &[("host/proxy/", 2)]),
    replaced("patience", "time limit", &[("qk/hal/", 1)]),
    replaced(
        "rung",
        "signalled",
        &[("wire/", 2), ("qk/kernel/", 2), ("host/proxy/", 2)],
    ),
    replaced(
        "says",
        "has, gives, names",
        &[
            ("wire/", 1),
            ("pct/", 1),
            ("qk/core/", 1),
            ("qk/hal/", 4),
            ("host/proxy/", 2),
            ("tests/programs/", 2),
            ("bench/", 1),
        ],
    ),
    replaced("share tables", "partition's tables", &[("qk/core/", 1)]),
    replaced(
        "tell",
        "notify",
        &[
            ("qk/kernel/", 6),
            ("host/proxy/", 1),
            ("lib/", 2),
            ("tests/programs/", 3),
        ],
    ),
    replaced(
        "tells",
        "notifies",
        &[("pct/", 1), ("qk/core/", 2), ("tests/programs/", 2)],
    ),
    replaced(
        "told",
        "notified; told apart: distinguished",
        &[
            ("wire/", 1),
            ("pct/", 2),
            ("qk/core/", 10),
            ("qk/hal/", 1),
            ("qk/kernel/", 2),
            ("host/proxy/", 8),
            ("lib/", 1),
            ("tests/programs/", 7),
        ],
    ),
];

/// Linux's user of that name.
const USER: &[&str] = &[
    "NOBODY",
    "nobody",
    "as_nobody",
    "of_nobody",
    "runs_as_nobody",
];

/// The identifiers of code that has neither comments nor texts.
fn identifiers(code: &str) -> impl Iterator<Item = &str> {
    let words = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
}

/// The parts of an identifier, in small letters, with a space around each.
fn parts(identifier: &str) -> String {
    let letters: Vec<char> = identifier.chars().collect();
    let mut parts = String::from(" ");
    for (at, &letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| letters[before]);
        let behind = letters.get(at + 1);
        // A capital begins a part behind a small letter, and before one: `TraceRing`, `PCTLost`.
        let begins = letter.is_ascii_uppercase()
            && before.is_some_and(|before| before != '_')
            && (before.is_some_and(|before| !before.is_ascii_uppercase())
                || behind.is_some_and(char::is_ascii_lowercase));
        if begins {
            parts.push(' ');
        }
        parts.push(if letter == '_' {
            ' '
        } else {
            letter.to_ascii_lowercase()
        });
    }
    parts.push(' ');
    parts
}

fn has_word(identifier: &str, word: &str) -> bool {
    parts(identifier).contains(&format!(" {word} "))
}

/// The identifiers with this word in each of the rooms that have some left, and under "" in all others with their file.
fn found(
    replaced: &Replaced,
    sources: &[(String, BTreeSet<String>)],
) -> BTreeMap<&'static str, BTreeSet<String>> {
    let mut found: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for (path, names) in sources {
        let mut rooms = replaced.left.iter().map(|(room, _)| *room);
        let room = rooms.find(|room| path.starts_with(room));
        let names = names
            .iter()
            .filter(|name| has_word(name, replaced.word) && !USER.contains(&name.as_str()));
        let names: Vec<String> = match room {
            Some(_) => names.cloned().collect(),
            None => names.map(|name| format!("{path}: {name}")).collect(),
        };
        found.entry(room.unwrap_or("")).or_default().extend(names);
    }
    found
}

/// Of words in [`REPLACED`]: which identifiers of the tree have them, where there are more than may be left.
pub fn faults() -> Vec<String> {
    let all = ["rs", "c", "h", "cpp"].into_iter().flat_map(files);
    let sources: Vec<(String, BTreeSet<String>)> = all
        .map(|(path, text)| {
            let code = code_only(&text);
            (path, identifiers(&code).map(String::from).collect())
        })
        .collect();
    let mut faults = Vec::new();
    for replaced in REPLACED {
        let left: BTreeMap<_, _> = replaced.left.iter().copied().collect();
        for (room, names) in found(replaced, &sources) {
            let most = left.get(room).copied().unwrap_or(0);
            if names.len() > most {
                faults.push(format!(
                    "'{}' ({}): {} identifiers in '{room}', not {most}: {names:?}",
                    replaced.word,
                    replaced.instead,
                    names.len()
                ));
            }
        }
    }
    faults
}

#[test]
fn identifiers_are_taken_apart() {
    assert!(has_word("told", "told") && has_word("TOLD_APART", "told"));
    assert!(has_word("IsTold", "told") && has_word("PCTTold", "told"));
    assert!(has_word("it_goes_on_as_before", "goes on as"));
    assert!(!has_word("untold", "told") && !has_word("Untold", "told"));
    assert!(!has_word("looking_at", "look") && !has_word("it_goes_on", "goes on as"));
    let code = "let told_apart = 7u8.tell(Look::Again); _hears";
    let names: Vec<&str> = identifiers(code).collect();
    assert_eq!(
        names,
        ["let", "told_apart", "tell", "Look", "Again", "_hears"]
    );
    let sources = [
        ("a/b.rs".to_owned(), BTreeSet::from(["told".to_owned()])),
        ("c/d.rs".to_owned(), BTreeSet::from(["told_all".to_owned()])),
        (
            "c/e.rs".to_owned(),
            BTreeSet::from(["as_nobody".to_owned()]),
        ),
    ];
    let all = found(&replaced("told", "notified", &[("c/", 1)]), &sources);
    assert_eq!(all[""], BTreeSet::from(["a/b.rs: told".to_owned()]));
    assert_eq!(all["c/"], BTreeSet::from(["told_all".to_owned()]));
    let of_user = found(&replaced("nobody", "none", &[]), &sources);
    assert!(of_user[""].is_empty());
}
