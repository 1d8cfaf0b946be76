//! MARGAY_OPTIONS: options that a user always wants. They are put before those of the command line, which take the place of those
//! that may be given once.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::{ArgMatches, CommandFactory};

use super::{COMMAND, Cli, LAUNCHED_BY_ID, PRESET, given, in_one_line, is_on_line, with_long_np};

/// Options that have yod do something else than run a program.
const ELSE: [&str; 7] = [
    "top",
    "doctor",
    "ps",
    "attach",
    "stack",
    "completions",
    "man",
];

/// The arguments with the variable's options among them: `line` is what the arguments say without. A yod that a launcher has been
/// started for was given them already.
///
/// # Errors
/// A line that names the variable.
pub fn add(args: Vec<OsString>, line: &ArgMatches, text: &OsStr) -> Result<Vec<OsString>, String> {
    if is_on_line(line, LAUNCHED_BY_ID) {
        return Ok(args);
    }
    let wrong = |why: String| format!("{PRESET}: {why}");
    let words = text.as_bytes().split(u8::is_ascii_whitespace);
    let words = words.filter(|word| !word.is_empty());
    let words = words.map(|word| OsStr::from_bytes(word).to_owned());
    let words: Vec<OsString> = ["yod".into()].into_iter().chain(words).collect();
    let preset = Cli::command().try_get_matches_from(with_long_np(words));
    let preset = preset.map_err(|error| {
        use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
        wrong(match error.kind() {
            DisplayHelp | DisplayVersion => "--help and --version are for the command line".into(),
            _ => in_one_line(&error),
        })
    })?;
    if let Some(word) = preset
        .get_many::<OsString>(COMMAND)
        .and_then(|mut w| w.next())
    {
        let word = word.to_string_lossy();
        return Err(wrong(format!(
            "'{word}' is no option, and the program is for the command line"
        )));
    }
    let others = ELSE.iter().chain([&LAUNCHED_BY_ID]);
    if let Some(id) = others.into_iter().find(|id| is_on_line(&preset, id)) {
        let option = id.replace('_', "-");
        return Err(wrong(format!("--{option} is for the command line")));
    }
    let mut args = args.into_iter();
    let own_name = args.next();
    let added = given(&preset)
        .into_iter()
        .filter(|option| option.is_repeated || !is_on_line(line, &option.id));
    let added = added.flat_map(|option| option.words);
    Ok(own_name.into_iter().chain(added).chain(args).collect())
}
