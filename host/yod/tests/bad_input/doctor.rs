//! What `--doctor` finds.

use super::*;

#[test]
fn what_is_missing_is_named() {
    let ended = run(yod().env("MARGAY_KERNEL", "/nonexistent/k").arg("--doctor"));
    assert_eq!(ended.status, 69, "{ended:?}");
    assert!(ended.out.contains("BAD   kernel"), "{ended:?}");
    let mut doctor = yod();
    let ended = run(doctor
        .env("MARGAY_KERNEL", "/nonexistent/k")
        .arg("--doctor=json"));
    assert_eq!(ended.status, 69, "{ended:?}");
    let report: serde_json::Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!(report["runs_nodes"], false);
    let kernel = &report["findings"][1];
    assert_eq!(
        (&kernel["what"], &kernel["state"]),
        (&"kernel".into(), &"bad".into())
    );
}

/// One that is linked statically, say, and would have run nodes until a file was to be laid.
#[test]
fn a_qemu_that_does_not_take_the_agent_is_named() {
    let dir = dir("agent");
    let script = "echo 'QEMU emulator version 7.2.0 (x)'";
    let ended = run(with_qemu(&dir, script).arg("--doctor=json"));
    let report: serde_json::Value = serde_json::from_str(&ended.out).expect("JSON");
    let [qemu, _, agent, ..] = report["findings"].as_array().expect("rows").as_slice() else {
        panic!("{report}");
    };
    assert_eq!(qemu["state"], "ok");
    assert_eq!(
        (&agent["what"], &agent["state"]),
        (&"agent".into(), &"note".into())
    );
    let text = agent["text"].as_str().expect("text");
    assert!(text.contains("loads no library of ours"), "{text}");
}
