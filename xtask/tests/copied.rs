//! A checkout that was copied or moved with its target directory. Once what was built in the old place worked there: it built, measured
//! and wrote in the other checkout.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn it_works_where_it_is_run() -> std::io::Result<()> {
    let copy = env::temp_dir().join(format!("margay-copied-{}", std::process::id()));
    fs::create_dir_all(copy.join("xtask"))?;
    fs::write(copy.join("Cargo.lock"), "")?;
    let xtask = env::var_os("CARGO_BIN_EXE_xtask").unwrap_or_default();
    // The list of the copy is missing; that of the checkout that this was built in is not.
    let in_package = |command: &mut Command, package: &Path| {
        command
            .env("CARGO_MANIFEST_DIR", package)
            .current_dir(env::temp_dir())
            .output()
    };
    let in_folder = |command: &mut Command, folder: &Path| {
        command
            .env_remove("CARGO_MANIFEST_DIR")
            .current_dir(folder)
            .output()
    };
    let command = || {
        let mut command = Command::new(&xtask);
        command.args(["mutants", "--only", "no such one"]);
        command
    };
    let outputs = [
        in_package(&mut command(), &copy.join("xtask"))?,
        in_folder(&mut command(), &copy)?,
    ];
    fs::remove_dir_all(&copy)?;
    for output in outputs {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("tests/mutants.txt"), "{said}");
    }
    Ok(())
}
