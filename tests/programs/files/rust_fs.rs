// Rust's std::fs: create, append, metadata, directories, links, copies,
// buffered lines and seeks, errors by kind, and a recursive removal.
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

fn check(ok: bool, text: &str) -> Result<(), String> {
    println!("{} {text}", if ok { "ok  " } else { "FAIL" });
    if ok { Ok(()) } else { Err(text.to_string()) }
}

fn kind_of<T>(result: io::Result<T>) -> Option<ErrorKind> {
    result.err().map(|e| e.kind())
}

fn lines() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = BufWriter::new(File::create("lines")?);
    for i in 0..20_000 {
        writeln!(out, "{i} {}", i * i % 977)?;
    }
    out.flush()?;
    let mut sum = 0u64;
    let mut count = 0;
    for line in BufReader::new(File::open("lines")?).lines() {
        let line = line?;
        let (number, square) = line.split_once(' ').ok_or("no space")?;
        count += 1;
        sum += number.parse::<u64>()? * square.parse::<u64>()?;
    }
    println!("{count} lines, weighted sum {sum}");
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    lines()?;
    fs::create_dir_all("a/b/c/d")?;
    for name in ["one", "two", "three"] {
        fs::write(format!("a/b/{name}"), name.repeat(1000))?;
    }
    let mut names: Vec<_> = fs::read_dir("a/b")?
        .map(|e| e.map(|e| (e.file_name().into_string().unwrap(), e.file_type().unwrap().is_dir())))
        .collect::<Result<_, _>>()?;
    names.sort();
    println!("a/b holds {names:?}");
    check(fs::metadata("a/b/three")?.len() == 5000, "metadata: 5000 bytes")?;
    check(fs::copy("a/b/three", "copy")? == 5000, "a copy of 5000 bytes")?;
    check(fs::read("copy")? == fs::read("a/b/three")?, "is the same")?;
    fs::rename("copy", "a/moved")?;
    check(!Path::new("copy").exists() && Path::new("a/moved").exists(), "renamed")?;

    let mut f = OpenOptions::new().read(true).append(true).open("a/moved")?;
    f.write_all(b"tail")?;
    f.seek(SeekFrom::End(-7))?;
    let mut text = String::new();
    f.read_to_string(&mut text)?;
    check(text == "reetail", "append and seek from the end")?;
    f.set_len(3)?;
    check(fs::read_to_string("a/moved")? == "thr", "set_len(3)")?;

    std::os::unix::fs::symlink("b/one", "a/link")?;
    check(fs::read_link("a/link")? == Path::new("b/one"), "read_link")?;
    check(fs::symlink_metadata("a/link")?.is_symlink(), "symlink_metadata")?;
    check(fs::canonicalize("a/link")?.ends_with("a/b/one"), "canonicalize")?;
    check(kind_of(File::open("absent")) == Some(ErrorKind::NotFound), "NotFound")?;
    check(kind_of(fs::create_dir("a")) == Some(ErrorKind::AlreadyExists), "AlreadyExists")?;
    check(kind_of(fs::remove_dir("a")) == Some(ErrorKind::DirectoryNotEmpty), "DirectoryNotEmpty")?;
    check(kind_of(fs::read("a")) == Some(ErrorKind::IsADirectory), "IsADirectory")?;
    fs::remove_dir_all("a")?;
    check(!Path::new("a").exists(), "remove_dir_all")?;
    Ok(())
}
