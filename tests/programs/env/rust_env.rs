// Rust's std::env and process: arguments, variables, the current directory and
// executable, exit through a Termination, a child that cannot be started.
use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

fn main() -> Result<(), String> {
    let args: Vec<OsString> = env::args_os().collect();
    println!("{} arguments", args.len());
    for a in &args[1..] {
        println!("{} bytes {:?}", a.as_bytes().len(), a);
    }
    let mut vars: Vec<_> = env::vars_os().filter(|(k, _)| k.as_bytes().starts_with(b"MARGAY_TEST_")).collect();
    vars.sort();
    println!("{vars:?}");
    println!("absent: {:?}", env::var("MARGAY_TEST_ABSENT").map_err(|e| e.to_string()));

    let start = env::current_dir().map_err(|e| e.to_string())?;
    std::fs::create_dir("inside").map_err(|e| e.to_string())?;
    env::set_current_dir("inside").map_err(|e| e.to_string())?;
    let now = env::current_dir().map_err(|e| e.to_string())?;
    println!("moved to {:?}", now.strip_prefix(&start).map_err(|e| e.to_string())?);
    let exe = env::current_exe().map_err(|e| e.to_string())?;
    println!("the executable is {:?}", exe.file_name());
    println!("its name is argv[0]'s: {}", exe.file_name() == std::path::Path::new(&args[0]).file_name());
    println!("{} {} {}", env::consts::OS, env::consts::ARCH, usize::BITS);
    println!("parallelism known: {}", std::thread::available_parallelism().is_ok());
    println!("main thread: {:?}", std::thread::current().name());
    Err("this error is the exit status 1".to_string())
}
