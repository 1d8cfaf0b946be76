//! What a node without a host puts on its console.

use anyhow::{Context, Result, ensure};

/// The console of a node that has ended.
pub struct Console {
    /// What the program has put out.
    pub output: String,
    /// The last line.
    pub last: String,
    /// QEMU's exit status; Bochs has none.
    status: Option<i32>,
    /// The log.
    pub log: Vec<String>,
}

impl Console {
    pub fn of(text: &str, status: Option<i32>) -> Result<Console> {
        let is_log = |line: &&str| {
            let number = line
                .strip_prefix('[')
                .and_then(|line| line.split_once("] "));
            number.is_some_and(|(cpu, _)| cpu.parse::<u32>().is_ok())
        };
        let (log, rest): (Vec<&str>, Vec<&str>) = text.lines().partition(is_log);
        let (last, output) = rest.split_last().context("nothing on the console")?;
        Ok(Console {
            output: output.join("\n"),
            last: (*last).to_owned(),
            status,
            log: log.into_iter().map(String::from).collect(),
        })
    }

    /// That the last line is this one, and QEMU's status says the same.
    pub fn ended(&self, line: &str, status: i32) -> Result<()> {
        let expected = (status << 1 | 1) & 0xff;
        ensure!(
            self.last == line && self.status.is_none_or(|status| status == expected),
            "not '{line}', but '{}' with QEMU's status {:?}; log: {:#?}",
            self.last,
            self.status,
            self.log
        );
        Ok(())
    }
}
