//! What yod prints about itself for others to read: the manual page, and scripts that complete its command line.

use std::fmt::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, LAUNCHED_BY};

/// The manual page, in roff: options as `--help` has them, and what follows them.
pub fn manual_page() -> String {
    let mut page = Vec::new();
    // Writing to a Vec cannot fail.
    let _ = clap_mangen::Man::new(Cli::command()).render(&mut page);
    String::from_utf8_lossy(&page).into_owned() + include_str!("sections.roff")
}

/// A script that completes yod's options, and the program and its arguments as the shell completes commands.
pub fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "yod", &mut script);
    let script = String::from_utf8_lossy(&script);
    let script = script.replace(&format!(" --{LAUNCHED_BY} "), " ");
    match shell {
        Shell::Bash => script + &for_bash(),
        _ => script,
    }
}

/// clap's own script for bash offers options behind PROGRAM, too.
fn for_bash() -> String {
    let mut with_value = String::new();
    let options = Cli::command();
    let options = options.get_arguments().filter(|arg| {
        arg.get_action().takes_values() && !arg.is_require_equals_set() && !arg.is_positional()
    });
    for arg in options {
        let long = arg.get_long().map(|long| format!("--{long}|"));
        let short = arg.get_short().map(|short| format!("-{short}|"));
        // Writing to a String cannot fail.
        let _ = write!(
            with_value,
            "{}{}",
            long.unwrap_or_default(),
            short.unwrap_or_default()
        );
    }
    include_str!("program.bash").replace("@WITH_VALUE@", &(with_value + "-np"))
}
