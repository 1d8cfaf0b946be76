//! The memory-cost mode: what the counting plugin (bench/plugin) saw between the marks that bench/marks.c puts around main.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// Where xtask builds the plugin; `output` is a folder of the target directory.
pub fn library(output: &Path) -> PathBuf {
    output.with_file_name("plugin").join("margay-count.so")
}

/// QEMU's argument for it, with the file it is to write.
pub fn argument(library: &Path, file: &Path) -> String {
    format!("{},out={},scope=marks", library.display(), file.display())
}

#[derive(Deserialize)]
struct Counts {
    vcpus: Vec<Vcpu>,
}

#[derive(Deserialize)]
struct Vcpu {
    regions: Vec<Region>,
}

#[derive(Deserialize)]
struct Region {
    user: Side,
    kernel: Side,
}

#[derive(Deserialize)]
struct Side {
    instructions: f64,
    l1d_misses: f64,
    l2_misses: f64,
    tlb: Tlbs,
}

#[derive(Deserialize)]
struct Tlbs {
    #[serde(rename = "4K")]
    small: Tlb,
    #[serde(rename = "2M")]
    large: Tlb,
}

#[derive(Deserialize)]
struct Tlb {
    walk_references: f64,
}

/// Reads what the plugin wrote: values by name, of the one region there is.
///
/// # Errors
/// When it wrote something else, or the marks were not met.
pub fn parse(text: &str) -> Result<Vec<(String, Vec<f64>)>> {
    let counts: Counts =
        serde_json::from_str(text).context("the plugin's counts are not as expected")?;
    let regions: Vec<&Region> = counts.vcpus.iter().flat_map(|vcpu| &vcpu.regions).collect();
    ensure!(
        regions.len() == 1,
        "the plugin saw {} marked regions instead of one",
        regions.len()
    );
    let Region { user, kernel } = regions[0];
    let values = [
        ("user_instructions", user.instructions),
        ("kernel_instructions", kernel.instructions),
        ("l1d_misses", user.l1d_misses),
        ("l2_misses", user.l2_misses),
        ("walk_references_4k", user.tlb.small.walk_references),
        ("walk_references_2m", user.tlb.large.walk_references),
    ];
    Ok(values
        .map(|(name, value)| (name.to_owned(), vec![value]))
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIDE: &str = r#"{"instructions":9,"loads":1,"stores":1,"unresolved":0,"l1d_misses":5,"l2_misses":4,"tlb":{
        "4K":{"l1_misses":1,"walks":1,"walk_references":8},"2M":{"l1_misses":1,"walks":1,"walk_references":3},
        "1G":{"l1_misses":0,"walks":0,"walk_references":0}}}"#;

    fn text(regions: usize) -> String {
        let region = format!(r#"{{"kernel_entries":1,"user":{SIDE},"kernel":{SIDE}}}"#);
        let regions = vec![region.clone(); regions].join(",");
        format!(
            r#"{{"scope":"marks","model":true,"vcpus":[{{"vcpu":0,"run":{region},"open":false,"regions":[{regions}]}}]}}"#
        )
    }

    #[test]
    fn the_region_is_read() {
        let values = parse(&text(1)).expect("counts");
        assert!(values.contains(&("l1d_misses".to_owned(), vec![5.0])));
        assert!(values.contains(&("walk_references_2m".to_owned(), vec![3.0])));
    }

    #[test]
    fn marks_that_were_not_met_are_a_failure() {
        let error = parse(&text(0)).expect_err("no region");
        assert!(error.to_string().contains("0 marked regions"), "{error}");
        assert!(parse("{}").is_err());
    }
}
