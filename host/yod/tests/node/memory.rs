//! What memory of the host is behind that of ranks.

use std::mem::offset_of;
use std::process::Stdio;

use wire::boot::Header;

use crate::common::{comm, descendants, finish, wait_long_for};
use crate::program;

const PARTITION_BYTES: u64 = 16 << 20;

/// How many bytes were had before they were touched, and how many are there at the end, of which so many in large pages; the program
/// touches little.
fn had(choice: &str) -> Option<[u64; 3]> {
    let (program, mut yod) = program(&format!("populate-{choice}"))?;
    let options = ["-m", "16M", "--stats=json", "--populate", choice];
    let command = yod.args(options).arg(&program).arg("cat");
    let mut child = command.stdin(Stdio::piped()).spawn().expect("yod starts");
    let pid = child.id() as i32;
    let wanted = if choice == "yes" { PARTITION_BYTES } else { 0 };
    // Beside busy processes the keeper's thread has one of a thousand moments: all others come first.
    wait_long_for(5, "the partition to be populated", || {
        let job = descendants(pid);
        let qemu = job
            .iter()
            .find(|process| process.name.starts_with("qemu"))?;
        let done = comm::word(qemu.pid, offset_of!(Header, populated_bytes))?;
        (done == wanted).then_some(())
    });
    drop(child.stdin.take());
    let ended = finish(child);
    assert_eq!(ended.status, 0, "{ended:?}");
    let stats: serde_json::Value = serde_json::from_str(&ended.err).expect("JSON");
    let bytes = |name: &str| stats["node"][name].as_u64().expect("a number");
    Some(["populated_bytes", "resident_bytes", "large_bytes"].map(bytes))
}

/// "0 page faults" hid one of the host's for each page. Which pages Linux gives is its affair.
#[test]
fn memory_is_had_at_once_where_that_is_wanted() {
    let (Some(yes), Some(no)) = (had("yes"), had("no")) else {
        return;
    };
    let [populated, resident, large] = yes;
    assert_eq!(populated, PARTITION_BYTES);
    assert!(resident >= PARTITION_BYTES && large <= resident, "{yes:?}");
    let [populated, resident, _] = no;
    assert!(populated == 0 && resident < PARTITION_BYTES, "{no:?}");
}
