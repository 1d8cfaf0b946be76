//! yod: runs a program on a Margay node, as one process per rank.
//!
//! It finds out who started it ([`launcher`]), or that an MPI's launcher is to start the ranks ([`relaunch`]), meets the other yods
//! of its job ([`party`]), checks what is requested ([`setup`]), has a keeper boot a node and forks a proxy per rank
//! ([`job`], [`ranks`]), watches all of them ([`supervise`]) and ends as the ranks ended ([`verdict`]). It has one thread,
//! once the command line is read, and no state outside of this process: when it is gone, everything it started is.
#![forbid(unsafe_code)]

mod attach;
mod cli;
mod console;
mod doctor;
mod dry_run;
mod failure;
mod gdb;
mod hints;
mod job;
mod klog;
mod launcher;
mod lines;
mod loss;
mod machines;
mod mpi;
mod notice;
mod output;
mod panic_report;
mod parts;
mod party;
mod place;
mod program;
mod ps;
mod quantity;
mod ranks;
mod relaunch;
mod setup;
mod sink;
mod stats;
mod streams;
mod supervise;
mod top;
mod trace;
mod verdict;

use std::process::ExitCode;

use machine::clock::Sample;

use cli::Parsed;
use failure::Failure;

fn main() -> ExitCode {
    // The earlier it is read, the better the clock's rate is known when the node needs it.
    let first = Sample::now();
    let inherited = proxy::Inherited::now();
    // A process that ignores it is not notified of its children's ends and cannot wait for them. The program still inherits what was.
    machine::sys::set_ignored(libc::SIGCHLD, false);
    match run(first, inherited) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            if !failure.line.is_empty() {
                console::say(failure.line);
            }
            ExitCode::from(failure.status)
        }
    }
}

fn run(first: Sample, inherited: proxy::Inherited) -> Result<u8, Failure> {
    let preset = std::env::var_os(cli::PRESET);
    let cli = match cli::parse(std::env::args_os(), preset)? {
        Parsed::Run(cli) => cli,
        Parsed::Print(text) => {
            console::out(text);
            return Ok(0);
        }
    };
    if let Some(format) = cli.doctor {
        return Ok(doctor::report(&cli, first, format));
    }
    if let Some(format) = cli.ps {
        console::out(ps::list(format));
        return Ok(0);
    }
    if cli.top {
        top::show();
        return Ok(0);
    }
    let pid = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    if let Some(number) = cli.attach {
        return attach::attach(pid(number));
    }
    if let Some(number) = cli.stack {
        return attach::stack(pid(number));
    }
    job::run(&cli, first, inherited)
}
