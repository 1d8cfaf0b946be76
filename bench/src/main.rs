//! The benchmarks: what the specification promises, measured. See the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Parser;

use margay_bench::catalogue::{Aim, CATALOGUE, Row};
use margay_bench::figure::Figure;
use margay_bench::lab::Lab;
use margay_bench::{output, plugin, suite, table};

/// Measure Margay: prints a table and writes bench.jsonl.
#[derive(Parser)]
struct Cli {
    /// Only these figures, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// Only what is promised, as the check does.
    #[arg(long, conflicts_with = "only")]
    promised: bool,
    /// Only what is promised and too long for every check.
    #[arg(long, conflicts_with_all = ["only", "promised"])]
    promised_in_long: bool,
    /// List the figures and do nothing.
    #[arg(long)]
    list: bool,
}

fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    let mut wanted = wanted(&cli.only)?;
    wanted.retain(|row| match row.aim {
        Aim::AtMost(_) => !cli.promised_in_long,
        Aim::AtMostInLong(_) => !cli.promised,
        _ => !cli.promised && !cli.promised_in_long,
    });
    if cli.list {
        wanted.iter().for_each(|row| println!("{}", row.name));
        return Ok(ExitCode::SUCCESS);
    }
    let lab = Lab::set_up()?;
    let mut figures: Vec<Figure> = Vec::new();
    for group in suite::GROUPS {
        let names: Vec<&str> = wanted
            .iter()
            .map(|row| row.name)
            .filter(|name| group.names.contains(name))
            .collect();
        if names.is_empty() {
            continue;
        }
        eprintln!("measuring {} ...", names.join(", "));
        figures.extend(group.measure(&lab, &names));
    }
    figures.sort_by_key(|figure| CATALOGUE.iter().position(|row| row.name == figure.row.name));
    let path = lab.output().join("bench.jsonl");
    output::write(&path, &figures)?;
    print!("{}", table::render(&figures));
    println!("written to {}", path.display());
    Ok(ExitCode::from(u8::from(!kept(&figures))))
}

/// Whether all was measured and every promise is kept; says what is not so, and what cannot be measured here.
fn kept(figures: &[Figure]) -> bool {
    let list = |what: &str, are: fn(&Figure) -> bool| {
        let names = figures.iter().filter(|figure| are(figure));
        let names: Vec<&str> = names.map(|figure| figure.row.name).collect();
        if !names.is_empty() {
            println!("{what}: {}", names.join(", "));
        }
        names.is_empty()
    };
    list(
        &format!("skipped: {}", plugin::MISSING),
        Figure::cannot_be_measured,
    );
    let measured = list("not measured", Figure::failed);
    let met = list("promised and missed", Figure::breaks_its_promise);
    measured && met
}

/// The rows asked for; all when nothing is.
fn wanted(only: &[String]) -> Result<Vec<&'static Row>> {
    for name in only.iter().filter(|name| !name.is_empty()) {
        if !CATALOGUE.iter().any(|row| row.name == name) {
            bail!("no benchmark is called {name} (--list names them)");
        }
    }
    let all = only.iter().all(String::is_empty);
    Ok(CATALOGUE
        .iter()
        .filter(|row| all || only.iter().any(|name| name == row.name))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use margay_bench::catalogue::by_name;
    use margay_bench::figure::Found;

    #[test]
    fn rows_are_chosen_by_name() {
        assert_eq!(wanted(&[]).expect("all").len(), CATALOGUE.len());
        let two = ["exec_to_exit_s".to_owned(), "boot_wall_s".to_owned()];
        assert_eq!(wanted(&two).expect("two").len(), 2);
        assert!(wanted(&["boot".to_owned()]).is_err());
    }

    /// A promise that was missed, or not measured, ends `make bench` and the check with a status.
    #[test]
    fn what_is_promised_must_be_measured_and_kept() {
        let figure = |name: &str, found: Result<f64, &str>| Figure {
            row: by_name(name).expect("a figure"),
            found: found
                .map(|value| Found::exactly(value, ""))
                .map_err(str::to_owned),
        };
        let good = figure("ticks_after_start", Ok(0.0));
        let skipped = figure("boot_instructions", Err(plugin::MISSING));
        assert!(kept(&[good.clone(), skipped]));
        for bad in [Ok(1.0), Err("no yod")] {
            assert!(!kept(&[good.clone(), figure("ticks_after_start", bad)]));
        }
    }
}
