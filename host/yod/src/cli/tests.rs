//! Command lines that are right, and what is said of those that are not.

use super::*;

fn run(line: &str) -> Result<Cli, String> {
    run_with(line, None)
}

fn run_with(line: &str, preset: Option<&str>) -> Result<Cli, String> {
    let args = std::iter::once("yod")
        .chain(line.split_whitespace())
        .map(OsString::from);
    match parse(args, preset.map(OsString::from)) {
        Ok(Parsed::Run(cli)) => Ok(*cli),
        Ok(Parsed::Print(text)) => Err(text),
        Err(failure) => {
            assert_eq!(failure.status, 2);
            assert!(!failure.line.contains('\n'), "{}", failure.line);
            Err(failure.line)
        }
    }
}

#[test]
fn options_after_the_program_are_the_programs() {
    let cli = run("-n 2 ./a.out -n 3 --label -- x").expect("right");
    assert_eq!((cli.ranks, cli.label), (2, false));
    assert_eq!(cli.command, ["./a.out", "-n", "3", "--label", "--", "x"]);
    assert_eq!(
        run("-- -odd --help").expect("right").command,
        ["-odd", "--help"]
    );
    for words in ["--strace", "--strace-only read", "--strace-times"] {
        let cli = run(&format!("{words} ./a.out"));
        assert_eq!(cli.expect("right").strace, Some(None), "{words}");
    }
    let cli = run("--strace-only read --strace=f ./a.out").expect("right");
    assert_eq!(cli.strace, Some(Some("f".into())));
    assert_eq!(run("./a.out --help").expect("right").command.len(), 2);
}

#[test]
fn values_are_read() {
    let cli = run(
        "-n4 -d2 -m 512M --accel tcg --env A=b=c --env D= --strace=f --stats=json --timeout 0.5 -q x",
    );
    let cli = cli.expect("right");
    assert_eq!(
        (cli.ranks, cli.cores, cli.memory, cli.accel),
        (4, Some(2), Some(512 << 20), Accel::Tcg)
    );
    assert_eq!(cli.variables[0], ("A".into(), "b=c".into()));
    assert_eq!(cli.variables[1], ("D".into(), "".into()));
    assert_eq!(cli.strace, Some(Some("f".into())));
    assert_eq!(cli.stats, Some(Some("json".into())));
    assert_eq!(cli.timeout, Some(Duration::from_millis(500)));
    assert!(cli.quiet);
    assert_eq!(run("--cores-per-rank 3 x").expect("right").cores, Some(3));
    assert_eq!(run("x -d 3").expect("right").cores, None);
    assert!(run("--doctor").is_ok() && run("--ps").is_ok());
    assert_eq!(run("--ps").expect("right").ps, Some(Format::Text));
    assert_eq!(run("--ps=json").expect("right").ps, Some(Format::Json));
    let cli = run("--dry-run -q x").expect("right");
    assert_eq!(cli.dry_run, Some(Format::Text));
    assert_eq!(cli.given, ["--quiet", "--dry-run"]);
}

#[test]
fn mistakes_are_one_line() {
    for (line, part) in [
        ("", "no PROGRAM given"),
        ("-n", "value is required"),
        (
            "-n two x",
            "invalid value 'two' for '--np <RANKS>': write a whole number",
        ),
        (
            "-n -1 x",
            "invalid value '-1' for '--np <RANKS>': write a whole number",
        ),
        ("-n 99999999999999999999 x", "too large"),
        ("-d", "value is required"),
        ("-d two x", "invalid value 'two' for '--cores-per-rank"),
        ("-d -1 x", "-1"),
        ("-m 512 x", "K, M or G"),
        ("-m G x", "not a number"),
        ("-m 99999999999T x", "too large"),
        ("--shared-memory 5 x", "K, M or G"),
        ("--accel hvf x", "hvf"),
        ("--machine xen x", "xen"),
        ("--env A x", "NAME=VALUE"),
        ("--env =b x", "NAME=VALUE"),
        ("--timeout 0 x", "more than 0"),
        ("--timeout soon x", "not a number"),
        ("--timeout inf x", "at most"),
        ("--timeout 1e19 x", "at most"),
        ("--ps=xml", "'xml' for '--ps"),
        ("--bogus x", "--bogus"),
    ] {
        let message = run(line).expect_err(line);
        assert!(message.contains(part), "{line}: {message}");
    }
}

#[test]
fn what_was_given_can_be_handed_on() {
    let line = "-qn 4 -d2 -m 1.5G --env A=b=c --np=3 --env=-D= --strace=f --stats --timeout 5m ./a.out -n 2";
    let given = |line: &str| run(line).expect("right").given;
    assert!(run(line).is_err(), "-n twice");
    let line = line.replace("--np=3 ", "");
    let words =
        "--cores-per-rank=2 -m 1.5G --env=A=b=c --env=-D= --strace=f --stats --timeout=5m --quiet";
    assert_eq!(given(&line), words.split(' ').collect::<Vec<_>>());
    assert_eq!(given(&format!("{words} x")), given(&line));
    assert!(given("-n 2 x -q").is_empty());
}

/// A mistyped option was only said to be unexpected: clap's suggestion was in the part that is left out.
#[test]
fn what_was_meant_is_said() {
    let message = run("--lable x").expect_err("mistyped");
    assert!(message.contains("did you mean --label?"), "{message}");
    let message = run("--accel kvn x").expect_err("mistyped");
    assert!(message.contains("did you mean kvm?"), "{message}");
}

#[test]
fn np_is_n() {
    let cli = run("--label -np 3 ./a.out -np 4").expect("right");
    assert_eq!((cli.ranks, cli.command.len()), (3, 3));
    assert_eq!(run("--np 3 x").expect("right").ranks, 3);
    assert_eq!(run("x -np 3").expect("right").command, ["x", "-np", "3"]);
    assert_eq!(run("-- -np 3").expect("right").command, ["-np", "3"]);
    let cli = run("-m 2M --timeout 1 -d 2 -np 3 x").expect("right");
    assert_eq!((cli.ranks, cli.cores), (3, Some(2)));
    assert!(run("-np x").is_err());
}

#[test]
fn what_is_always_wanted_comes_first() {
    let with = |preset, line| run_with(line, Some(preset)).expect("right");
    let cli = with(
        "-n 3  --label -m\t64M --env A=b",
        "-m 1G --env C=d ./a.out -n 2",
    );
    assert_eq!((cli.ranks, cli.label, cli.memory), (3, true, Some(1 << 30)));
    assert_eq!(
        cli.variables,
        [("A".into(), "b".into()), ("C".into(), "d".into())]
    );
    assert_eq!(cli.command, ["./a.out", "-n", "2"]);
    assert_eq!(with("-np 3", "-n 2 x").ranks, 2);
    assert_eq!(with("", "x").ranks, 1);
    assert!(with("--label", "--ps").ps.is_some());
    // It was handed on to a yod that a launcher starts.
    assert_eq!(with("-n 3 --label", "--launched-by=m x").ranks, 1);
    assert_eq!(with("-n 3 --label", "-q x").given, ["--label", "--quiet"]);
}

#[test]
fn mistakes_in_what_is_always_wanted_name_it() {
    for (preset, part) in [
        ("--lable", "did you mean --label?"),
        ("-m 5", "K, M or G"),
        ("-m", "value is required"),
        ("--label ./a.out", "'./a.out' is no option"),
        ("--label -- a.out", "'a.out' is no option"),
        ("--help", "for the command line"),
        ("--ps", "--ps is for the command line"),
        ("--launched-by=x", "--launched-by is for the command line"),
    ] {
        let message = run_with("x", Some(preset)).expect_err(preset);
        assert!(
            message.starts_with("MARGAY_OPTIONS: ") && message.contains(part),
            "{preset}: {message}"
        );
    }
    assert!(
        run_with("--help", Some("--lable"))
            .expect_err("text")
            .contains("--label")
    );
}

/// Options were offered behind PROGRAM, and files where a command belongs.
#[test]
fn bash_completes_options_then_a_command_then_files() {
    let script = run("--completions bash").expect_err("text");
    let folder = std::env::temp_dir().join(format!("margay-complete-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("--file"), "").expect("a file");
    let offered = |words: &[&str]| -> Vec<String> {
        let complete = "COMP_WORDS=(\"$@\") COMP_CWORD=$(($# - 1)); _yod_or_program yod \"${!#}\" \"${COMP_WORDS[COMP_CWORD - 1]}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
        let mut bash = std::process::Command::new("bash");
        bash.args([
            "--norc",
            "-c",
            &format!("{script}\n{complete}"),
            "bash",
            "yod",
        ]);
        let ended = bash
            .args(words)
            .current_dir(&folder)
            .output()
            .expect("bash");
        let text = String::from_utf8(ended.stdout).expect("UTF-8");
        text.lines().map(str::to_owned).collect()
    };
    let has = |words: &[&str], offer: &str| offered(words).iter().any(|word| word == offer);
    assert!(has(&["--lab"], "--label") && has(&["-n", "2", "--lab"], "--label"));
    assert!(has(&["--accel", "t"], "tcg") && has(&["--accel", "=", "t"], "tcg"));
    assert!(!has(&["--launch"], "--launched-by"));
    assert!(has(&["bas"], "bash") && has(&["-n", "2", "--", "bas"], "bash"));
    assert!(has(&["--strace", "=", "f", "-n", "2", "bas"], "bash"));
    for words in [
        &["ls", "--"][..],
        &["-n", "2", "ls", "--"],
        &["--", "ls", "--"],
    ] {
        assert_eq!(offered(words), ["--file"], "{words:?}");
    }
    std::fs::remove_dir_all(folder).expect("removed");
}

#[test]
fn help_and_version_are_not_mistakes() {
    assert!(run("--help").expect_err("text").contains("--oversubscribe"));
    assert!(run("--version").expect_err("text").starts_with("yod "));
    assert!(run("--man").expect_err("text").contains(".TH yod 1"));
    for (line, option) in [
        ("--man", "cores\\-per\\-rank"),
        ("--completions bash", "--cores-per-rank"),
        ("--completions bash", "--oversubscribe"),
    ] {
        assert!(run(line).expect_err("text").contains(option), "{line}");
    }
    let page = run("--man").expect_err("text");
    for section in [
        "EXAMPLES",
        "\"EXIT STATUS\"",
        "ENVIRONMENT",
        "FILES",
        "\"SEE ALSO\"",
    ] {
        assert!(page.contains(&format!("\n.SH {section}\n")), "{section}");
    }
    assert!(
        run("--completions zsh")
            .expect_err("text")
            .contains("_cmdambivalent")
    );
    assert!(run("--completions tcsh").is_err());
}
