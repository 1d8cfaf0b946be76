//! The memory-cost mode: what the counting plugin (bench/plugin) saw between the marks that bench/programs/bench.h puts before main
//! and before the first result.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::plugin::{Counts, Report};

/// QEMU's argument for it, with the file it is to write.
pub fn argument(library: &Path, file: &Path) -> String {
    format!("{},out={},scope=marks", library.display(), file.display())
}

/// Values by name, of the one region there is.
///
/// # Errors
/// When the marks were not met, nothing was modelled, or the page tables could not be read.
pub fn values(report: &Report) -> Result<Vec<(String, Vec<f64>)>> {
    let regions: Vec<&Counts> = report.vcpus.iter().flat_map(|vcpu| &vcpu.regions).collect();
    ensure!(
        regions.len() == 1,
        "the plugin saw {} marked regions instead of one",
        regions.len()
    );
    let Counts {
        user,
        kernel,
        in_use,
        ..
    } = regions[0];
    let model = user.model.as_ref().context("the plugin has no model")?;
    let references = |size| model.tlb.get(size).map_or(0, |tlb| tlb.walk_references);
    let in_use = in_use.as_ref().context("the plugin has no model")?;
    ensure!(
        in_use.unknown == 0,
        "the plugin could not follow {} page walks",
        in_use.unknown
    );
    let touched = |size| {
        in_use
            .pages
            .get(size)
            .map_or(0, |pages| pages.touched_bytes)
    };
    let large = touched("2M") + touched("1G");
    let values = [
        ("user_instructions", user.instructions as f64),
        ("kernel_instructions", kernel.instructions as f64),
        ("l1d_misses", model.l1d_misses as f64),
        ("l2_misses", model.l2_misses as f64),
        ("walk_references_4k", references("4K") as f64),
        ("walk_references_2m", references("2M") as f64),
        ("walk_references", in_use.walk_references as f64),
        (
            "large_pages_percent",
            100.0 * large as f64 / (touched("4K") + large) as f64,
        ),
    ];
    Ok(values
        .map(|(name, value)| (name.to_owned(), vec![value]))
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIDE: &str = r#"{"instructions":9,"waited":0,"loads":1,"stores":1,"unresolved":0,"l1d_misses":5,"l2_misses":4,"tlb":{
        "4K":{"l1_misses":1,"walks":1,"walk_references":8},"2M":{"l1_misses":1,"walks":1,"walk_references":3},
        "1G":{"l1_misses":0,"walks":0,"walk_references":0}}}"#;

    const IN_USE: &str = r#"{"l1_misses":2,"walk_references":11,"unknown":0,"pages":{
        "4K":{"touched_bytes":1048576,"walks":2},"2M":{"touched_bytes":3145728,"walks":1},"1G":{"touched_bytes":0,"walks":0}}}"#;

    fn report(regions: usize, in_use: &str) -> Report {
        let region =
            format!(r#"{{"kernel_entries":1,"user":{SIDE},"kernel":{SIDE},"in_use":{in_use}}}"#);
        let regions = vec![region.clone(); regions].join(",");
        let text = format!(
            r#"{{"vcpus":[{{"vcpu":0,"run":{region},"before_regions":0,"open":false,"regions":[{regions}]}}]}}"#
        );
        serde_json::from_str(&text).expect("a report")
    }

    #[test]
    fn the_region_is_read() {
        let values = values(&report(1, IN_USE)).expect("counts");
        for (name, value) in [
            ("l1d_misses", 5.0),
            ("walk_references_2m", 3.0),
            ("walk_references", 11.0),
            ("large_pages_percent", 75.0),
        ] {
            assert!(values.contains(&(name.to_owned(), vec![value])), "{name}");
        }
    }

    #[test]
    fn what_was_not_seen_is_a_failure() {
        let error = values(&report(0, IN_USE)).expect_err("no region");
        assert!(error.to_string().contains("0 marked regions"), "{error}");
        let unknown = IN_USE.replace(r#""unknown":0"#, r#""unknown":3"#);
        let error = values(&report(1, &unknown)).expect_err("walks");
        assert!(error.to_string().contains("3 page walks"), "{error}");
    }
}
