//! A report in which something is missing.

use super::*;
use crate::compare::catalogue::{JOBS, Shape};
use crate::compare::journal::tests::{failure, sample};
use crate::scratch::Scratch;

fn facts() -> Facts {
    Facts {
        cpu: "a CPU".to_owned(),
        cores: 2,
        memory_gib: 4.0,
        host_kernel: "6".to_owned(),
        qemu: "QEMU 7.2".to_owned(),
        tsc_hz: 1e9,
        machines: vec![("wall time", "-smp 2".to_owned())],
        runs: 3,
    }
}

/// Margay ran three times, Linux hung after one run, and there is no tuned one.
fn report(name: &str, values: &[(&str, &[f64])]) -> Report {
    let job = JOBS.iter().find(|job| job.name == name).expect("a job");
    let systems = [("margay", true), ("linux", true), ("linux-tuned", false)];
    let systems = systems.map(|(name, there)| SystemEntry {
        name,
        title: name,
        about: if there {
            "here"
        } else {
            "not measured: no kernel"
        }
        .to_owned(),
        there,
    });
    let good = |system| sample(name, system, values);
    let samples = vec![
        vec![good("margay"); 3],
        vec![good("linux"), failure(name, "linux", "it hangs")],
        vec![],
    ];
    let columns = systems.iter().map(|system| {
        let missing = (!system.there).then(|| "no kernel".to_owned());
        (system.name, missing)
    });
    let columns: Vec<_> = columns.collect();
    Report {
        jobs: vec![job_entry(job, &columns, samples, 1e9)],
        claims: vec![],
        left_out: BTreeMap::from([("cg_memory", "no plugin for QEMU was built".to_owned())]),
        systems: systems.into(),
        facts: facts(),
    }
}

#[test]
fn missing_cells_have_their_reason_and_the_others_their_figure() {
    let report = report("boot", &[("first_output_s", &[0.25])]);
    let plot = PLOTS.iter().find(|plot| plot.name == "boot");
    let text = markdown::render(&report, &[plot.expect("a plot")]);
    let row = text
        .lines()
        .find(|line| line.contains("`boot_s`"))
        .expect("a row");
    assert!(
        row.contains("| 0.250 [0.250, 0.250] | 0.250 (incomplete) | missing | - |"),
        "{row}"
    );
    assert!(
        text.contains("- boot on linux: it hangs\n")
            && text.contains("- all of linux-tuned: see above\n")
            && text.contains("- cg_memory: no plugin for QEMU was built\n")
    );
    assert!(text.contains("linux-tuned: not measured: no kernel") && text.contains("](boot.svg)"));
    assert!(text.contains("runs: 2 to 3 of each job"), "{text}");
    let json = json!(report);
    let cells = &json["jobs"][0]["rows"][0]["cells"];
    assert_eq!(cells["margay"]["values"], json!([0.25, 0.25, 0.25]));
    assert_eq!(cells["linux"]["failed"], "it hangs");
    assert_eq!(cells["linux-tuned"]["missing"], "no kernel");
    assert!(!report.complete());
}

#[test]
fn every_kind_of_plot_is_drawn_with_what_there_is() {
    let scratch = Scratch::new(&std::env::temp_dir()).expect("a directory");
    let series: &[f64] = &[1000.0, 1500.0, 1000.0];
    for (name, values) in [
        ("boot", &[("first_output_s", &[0.25][..])][..]),
        (
            "fwq_count",
            &[("fwq_ticks", series), ("longest_detour_ticks", &[500.0])],
        ),
        (
            "stream_offset",
            &[("offset", series), ("triad_MB_s", series)],
        ),
    ] {
        let report = report(name, values);
        report.write(scratch.path()).expect("written");
        let svg =
            fs::read_to_string(scratch.path().join(name).with_extension("svg")).expect("a plot");
        assert!(
            svg.starts_with("<svg") && svg.contains("linux-tuned"),
            "{svg}"
        );
        assert_eq!(svg.contains("no figure"), name == "boot");
    }
    // A plot of an earlier report does not stay.
    assert!(!scratch.path().join("boot.svg").exists());
}

/// Once the beginning of long titles lay left of the page.
#[test]
fn titles_of_rows_begin_on_the_page() {
    for plot in PLOTS
        .iter()
        .filter(|plot| matches!(plot.shape, Shape::Strips { .. }))
    {
        for job in JOBS.iter() {
            let rows = job.rows.iter().filter(|row| row.plot == Some(plot.name));
            let results: Vec<(&str, &[f64])> = rows.map(|row| (row.result, &[1.0][..])).collect();
            if results.is_empty() {
                continue;
            }
            let drawn = plots::draw(&report(job.name, &results)).expect("drawn");
            let (_, svg) = drawn
                .iter()
                .find(|(drawn, _)| drawn.name == plot.name)
                .expect("it");
            for text in svg
                .split("<text ")
                .skip(1)
                .filter(|text| text.contains("\"end\""))
            {
                let right: usize = between(text, "x=\"", "\"").parse().expect("a number");
                let title = between(text, ">", "</text>").trim();
                // Three fifths of its height are a usual width of a letter.
                assert!(title.len() * 12 * 3 / 5 <= right, "{}: {title}", plot.name);
            }
        }
    }
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = text.split_once(from).expect("it begins");
    rest.split_once(to).expect("it ends").0
}

/// As on a full disk: the first that cannot be written is reported, and the others are there.
#[test]
fn what_cannot_be_written_keeps_nothing_else_away() {
    let scratch = Scratch::new(&std::env::temp_dir()).expect("a directory");
    let at = |name: &str| scratch.path().join(name);
    std::os::unix::fs::symlink("/dev/full", at("report.json")).expect("a link");
    let report = report("boot", &[("first_output_s", &[0.25])]);
    let error = format!("{:#}", report.write(scratch.path()).expect_err("full"));
    assert!(
        error.contains("report.json") && error.contains("No space left"),
        "{error}"
    );
    assert!(at("report.md").is_file() && at("boot.svg").is_file());
}

/// A job's figures on two systems, twice as large on the second, which has only some of them.
fn on_two(name: &str, rows: &[&str], on_second: &[&str]) -> JobEntry {
    let job = JOBS.iter().find(|job| job.name == name).expect("a job");
    let on = |system, rows: &[&str], value| {
        let values: Vec<(&str, &[f64])> = rows.iter().map(|row| (*row, value)).collect();
        vec![sample(name, system, &values)]
    };
    let samples = vec![on("margay", rows, &[1.0]), on("other", on_second, &[2.0])];
    job_entry(job, &[("margay", None), ("other", None)], samples, 1e9)
}

#[test]
fn claims_are_made_of_the_rows_that_are_there() {
    let results = ["pingpong_8b_ticks", "oneway_64k_ticks"];
    let jobs = ["openmpi", "mpich"].map(|job| on_two(job, &results, &results[..1]));
    let seen = claims(&jobs, "other");
    let value = |name: &str| {
        seen.iter()
            .find(|entry| entry.name == name)
            .map(|entry| entry.value)
    };
    assert_eq!(value("pingpong_8b_ratio"), Some(Some(0.5)));
    assert_eq!(value("oneway_64k_ratio"), Some(None));
    assert_eq!(value("coll_all_ratio"), None, "its job was not asked for");
    let text = markdown::render(
        &Report {
            claims: seen,
            ..report("boot", &[])
        },
        &[],
    );
    assert!(
        text.contains(
            "`pingpong_8b_ratio` | 0.500 | 1 | the largest of `openmpi_8b_us`, `mpich_8b_us` |"
        ),
        "{text}"
    );
    assert!(text.contains("`oneway_64k_ratio` | missing |"), "{text}");
}

#[test]
fn of_what_is_better_if_more_a_claim_takes_the_inverse() {
    let job = JOBS.iter().find(|job| job.name == "hpcc").expect("a job");
    let results: Vec<&str> = job.rows.iter().map(|row| row.result).collect();
    let seen = claims(&[on_two("hpcc", &results, &results)], "other");
    // Half as long, five times; and half as fast, five times.
    assert_eq!((seen[0].name, seen[0].value), ("hpcc_ratio", Some(1.0)));
}

#[test]
fn a_claim_beyond_what_is_aimed_at_is_missed() {
    let of = |name: &str, value| {
        let claim = CLAIMS.iter().find(|claim| claim.name == name);
        let claim = claim.expect("a claim");
        let (name, most) = (claim.name, claim.most);
        ClaimEntry {
            claim,
            name,
            value,
            most,
        }
    };
    let report = Report {
        claims: vec![
            of("mpi_oneway_64k_ratio", Some(0.51)),
            of("coll_all_ratio", Some(0.6)),
            of("pingpong_8b_ratio", None),
            of("barrier_2_ratio", Some(9.0)),
        ],
        ..report("boot", &[])
    };
    let missed = report.missed();
    assert_eq!(missed.len(), 1, "{missed:?}");
    assert_eq!(
        (missed[0].0.name, missed[0].1),
        ("mpi_oneway_64k_ratio", 0.51)
    );
    let text = markdown::render(&report, &[]);
    assert!(text.contains("| 0.510 | **0.500**, missed |"), "{text}");
    assert!(text.contains("`barrier_2_ratio` | 9 |  |"), "{text}");
}

#[test]
fn nothing_at_all_is_a_report_too() {
    let report = Report {
        jobs: vec![],
        ..report("boot", &[])
    };
    assert!(markdown::render(&report, &[]).contains("How to read it"));
    assert!(report.conditions().is_none());
}
