//! A case by its name, for test binaries that list their cases themselves.

use anyhow::Result;
use libtest_mimic::{Failed, Trial};

/// A test that passes if `body` returns Ok. A failure is shown with all its causes, not only with what was added last.
pub fn trial(name: impl Into<String>, body: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name, || body().map_err(failed))
}

fn failed(error: anyhow::Error) -> Failed {
    Failed::from(format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_failure_is_shown_with_its_causes() {
        let error = anyhow!("status 1").context("after 10 sweeps");
        let failed = failed(error);
        assert_eq!(failed.message(), Some("after 10 sweeps: status 1"));
    }
}
