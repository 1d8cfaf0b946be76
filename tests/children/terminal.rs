//! An interactive shell as a rank: its jobs are children on Linux, which it puts to the foreground and the background of the
//! terminal that `script` makes.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use anyhow::{Context, Result, ensure};
use margay_tests::limit::Limit;
use margay_tests::process;
use margay_tests::run::HANG;
use margay_tests::scratch::Scratch;
use margay_tests::tree;

/// What is typed, and what is then on the screen: of the shells' own messages only what all have alike.
const SESSION: &[(&str, &str)] = &[
    ("", "> "),
    ("echo $((6*7))\n", "\n42\r\n> "),
    // The terminal shows what is typed, and cat says it once more.
    ("cat\n", "cat\r\n"),
    ("one\n", "one\r\none\r\n"),
    ("\x1a", "Stopped"),
    ("", "> "),
    ("jobs\n", "Stopped"),
    ("", "> "),
    ("fg\n", "\ncat\r\n"),
    ("two\n", "two\r\ntwo\r\n"),
    ("\x03", "> "),
    ("echo status $?\n", "\nstatus 130\r\n> "),
    // It is killed once it does not ignore SIGTERM any more, as the shell does.
    ("(echo beg''un; exec sleep 1000) &\n", "begun\r\n"),
    ("kill %1; wait %1; echo status $?\n", "status 143\r\n"),
    ("", "> "),
    ("cat | sort; echo sorted\n", "sorted\r\n"),
    ("b\na\n", "b\r\na\r\n"),
    ("\x04", "a\r\nb\r\nsorted\r\n> "),
    ("exit 7\n", ""),
];

/// A terminal with a program in it.
struct Terminal {
    script: Child,
    keys: ChildStdin,
    screen: Receiver<Vec<u8>>,
    /// What was on the screen and not looked at yet.
    text: String,
}

impl Terminal {
    /// `startup` is a file for dash to begin with. Signals are as usual: a shell that is started with SIGINT ignored, as when the
    /// tests run in the background, has its jobs ignore it, too.
    fn new(command: &str, startup: &Path) -> Result<Terminal> {
        let mut script = Command::new("/usr/bin/env")
            .args(["--default-signal", "/usr/bin/script"])
            .args(["-qec", command, "/dev/null"])
            .env("ENV", startup)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let keys = script.stdin.take().context("no stdin")?;
        let mut output = script.stdout.take().context("no stdout")?;
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Ok(Terminal {
            script,
            keys,
            screen,
            text: String::new(),
        })
    }

    fn step(&mut self, typed: &str, wanted: &str) -> Result<()> {
        self.keys.write_all(typed.as_bytes())?;
        let limit = Limit::new(HANG);
        while !self.text.contains(wanted) {
            let more = self.screen.recv_timeout(limit.left().unwrap_or_default());
            let more =
                more.with_context(|| format!("after {typed:?}: no {wanted:?} in {:?}", self.text))?;
            self.text.push_str(&String::from_utf8_lossy(&more));
        }
        let found = self.text.find(wanted).unwrap_or_default() + wanted.len();
        self.text.drain(..found);
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Of a session that went wrong; nothing happens to one that has ended.
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

#[test]
fn interactive_shells_control_their_jobs() -> Result<()> {
    let yod = format!("{} {} -m 64M -- ", tree::yod().display(), tree::machine());
    let scratch = Scratch::new()?;
    let startup = scratch.path().join("startup");
    std::fs::write(&startup, "PS1='> '\n")?;
    let bash = format!("/bin/bash --rcfile {} --noediting -i", startup.display());
    for shell in ["/bin/dash -i", &bash] {
        for under in ["", &yod] {
            let mut terminal = Terminal::new(&format!("exec {under}{shell}"), &startup)?;
            for (typed, wanted) in SESSION {
                let done = terminal.step(typed, wanted);
                done.with_context(|| format!("{under}{shell}"))?;
            }
            let ended = process::wait(&mut terminal.script, HANG)?;
            let status = ended.map(process::shell_status);
            ensure!(status == Some(7), "{under}{shell}: status {status:?}");
        }
    }
    Ok(())
}
