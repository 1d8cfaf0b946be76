//! The program that a rank runs, and how it is found behind a file: by the `#!` lines of scripts, and its interpreter.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};

use abi::image::{HEAD_BYTES, Image, ImageError};
use abi::script::{self, Head, MOST_NESTED};
use rustix::io::{self, pread};

/// The program a rank runs.
#[derive(Debug)]
pub struct Program {
    /// Its file, open for reading.
    pub file: OwnedFd,
    /// The file of its interpreter (PT_INTERP), open for reading, when it is dynamically linked.
    pub interpreter: Option<OwnedFd>,
    /// The path it was started by (AT_EXECFN), after the search along PATH.
    pub started_as: CString,
    /// The absolute path without symbolic links: what /proc/self/exe shows.
    pub real_path: CString,
    /// Argument strings; the first is the program's name for itself.
    pub argv: Vec<CString>,
    /// Environment strings.
    pub env: Vec<CString>,
}

impl Program {
    /// The strings of `HostOp::WriteStrings` in their order.
    pub fn strings(&self) -> impl Iterator<Item = &CStr> {
        let all = self.argv.iter().chain(&self.env);
        all.map(CString::as_c_str)
            .chain([self.started_as.as_c_str()])
    }

    /// Bytes of all strings with their NULs.
    pub fn strings_bytes(&self) -> u64 {
        self.strings()
            .map(|string| string.count_bytes() as u64 + 1)
            .sum()
    }

    /// Its name for ps and for messages about threads: the last component of the path it was started by.
    pub fn file_name(&self) -> &[u8] {
        let path = self.started_as.to_bytes();
        path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
    }
}

/// Why a script leads to no program.
#[derive(Debug)]
pub enum NoProgram<E> {
    /// Its first line, or that of its interpreter, names none.
    Line,
    /// Too many scripts run one another.
    Nested,
    /// This interpreter cannot be opened.
    Interpreter(CString, E),
    /// It cannot be read.
    Read(io::Errno),
}

/// Follows the `#!` line that a file, opened as `name`, may begin with, and those of its interpreters, to a file that has none.
/// `argv` becomes what Linux makes of it: interpreter, its argument, the script, the script's arguments.
///
/// # Errors
/// [`NoProgram`].
pub fn behind_scripts<F: AsFd, E>(
    file: F,
    name: &CStr,
    argv: &mut Vec<CString>,
    open: impl Fn(&CStr) -> Result<F, E>,
) -> Result<F, NoProgram<E>> {
    let (mut file, mut name) = (file, name.to_owned());
    for _ in 0..=MOST_NESTED {
        let mut head = [0; script::HEAD_BYTES];
        read_up_to(&file, &mut head).map_err(NoProgram::Read)?;
        let (interpreter, argument) = match Head::parse(&head) {
            Head::Other => return Ok(file),
            Head::Broken => return Err(NoProgram::Line),
            Head::Script {
                interpreter,
                argument,
            } => (interpreter, argument),
        };
        // Neither has a NUL inside.
        let string = |bytes: &[u8]| CString::new(bytes).unwrap_or_default();
        let interpreter = string(interpreter);
        let script = std::mem::replace(&mut name, interpreter.clone());
        let first = [Some(interpreter), argument.map(string), Some(script)];
        let _ = argv.splice(..1.min(argv.len()), first.into_iter().flatten());
        file = open(&name).map_err(|error| NoProgram::Interpreter(name.clone(), error))?;
    }
    Err(NoProgram::Nested)
}

/// Why a file cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum Unloadable {
    /// It cannot be read.
    #[error("{}", std::io::Error::from(*.0))]
    Read(io::Errno),
    /// It is no program, or none for this node.
    #[error("{0}")]
    Image(ImageError),
}

/// Reads and parses a file's headers: as much as the node reads.
///
/// # Errors
/// [`Unloadable`].
pub fn read_image(
    file: &impl AsFd,
    parse: impl Fn(&[u8], u64) -> Result<Image, ImageError>,
) -> Result<Image, Unloadable> {
    let file_bytes = rustix::fs::fstat(file).map_err(Unloadable::Read)?.st_size as u64;
    let mut head = [0; HEAD_BYTES];
    let got = read_up_to(file, &mut head).map_err(Unloadable::Read)?;
    parse(&head[..got], file_bytes).map_err(Unloadable::Image)
}

/// The path of an image's interpreter, which lies in the file at this offset and has so many bytes.
///
/// # Errors
/// [`Unloadable`]: it does not end in a NUL.
pub fn interpreter_path(
    file: &impl AsFd,
    (offset, len_bytes): (u64, u64),
) -> Result<CString, Unloadable> {
    let mut bytes = vec![0; len_bytes as usize];
    rustix::io::pread(file, &mut bytes, offset).map_err(Unloadable::Read)?;
    let path = match bytes.last() {
        Some(0) => CStr::from_bytes_until_nul(&bytes).ok(),
        _ => None,
    };
    path.map(CStr::to_owned)
        .ok_or(Unloadable::Image(ImageError::BadHeader(
            "the path of its interpreter does not end",
        )))
}

/// Fills a buffer from the beginning of a file; how far the file goes.
fn read_up_to(file: &impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match pread(file, &mut into[done..], done as u64)? {
            0 => break,
            read => done += read,
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::io::Write as _;

    use super::*;

    fn file(text: &str) -> OwnedFd {
        let file = rustix::fs::memfd_create("script", rustix::fs::MemfdFlags::empty());
        let mut file = std::fs::File::from(file.expect("a file"));
        file.write_all(text.as_bytes()).expect("room");
        file.into()
    }

    fn run(files: &[(&str, &str)], argv: &[&str]) -> Result<Vec<String>, NoProgram<()>> {
        let files: HashMap<CString, &str> = files
            .iter()
            .map(|(name, text)| (CString::new(*name).expect("no NUL"), *text))
            .collect();
        let open = |name: &CStr| files.get(name).map(|text| file(text)).ok_or(());
        let mut strings: Vec<CString> = argv
            .iter()
            .map(|s| CString::new(*s).expect("no NUL"))
            .collect();
        let first = open(c"s").expect("the script");
        behind_scripts(first, c"s", &mut strings, open)?;
        Ok(strings.iter().map(|s| s.to_string_lossy().into()).collect())
    }

    #[test]
    fn interpreters_come_before_what_they_interpret() {
        let files = [("s", "#!i  one two\n"), ("i", "#!j\n"), ("j", "")];
        let argv = run(&files, &["name", "a", ""]).expect("a program");
        assert_eq!(argv, ["j", "i", "one two", "s", "a", ""]);
        assert_eq!(
            run(&[("s", "#!j"), ("j", "")], &[]).expect("a program"),
            ["j", "s"]
        );
        assert_eq!(
            run(&[("s", "text")], &["name"]).expect("a program"),
            ["name"]
        );
    }

    #[test]
    fn what_leads_nowhere_is_told_apart() {
        assert!(matches!(
            run(&[("s", "#!s\n")], &["s"]),
            Err(NoProgram::Nested)
        ));
        assert!(matches!(
            run(&[("s", "#!  \n")], &["s"]),
            Err(NoProgram::Line)
        ));
        match run(&[("s", "#!i\n")], &["s"]) {
            Err(NoProgram::Interpreter(name, ())) => assert_eq!(name.as_c_str(), c"i"),
            other => panic!("{other:?}"),
        }
    }

    /// Five scripts between the first file and a program, as on Linux; six are too many.
    #[test]
    fn scripts_are_nested_as_deep_as_on_linux() {
        let names = ["s", "1", "2", "3", "4", "5"];
        let text: Vec<String> = names
            .iter()
            .map(|n| {
                format!(
                    "#!{}\n",
                    names.iter().position(|m| m == n).map_or(0, |at| at + 1)
                )
            })
            .collect();
        let mut files: Vec<(&str, &str)> = names
            .into_iter()
            .zip(text.iter().map(String::as_str))
            .collect();
        files[5].1 = "program";
        assert!(run(&files, &["s"]).is_ok());
        files[5].1 = "#!6\n";
        files.push(("6", "program"));
        assert!(matches!(run(&files, &["s"]), Err(NoProgram::Nested)));
    }
}
