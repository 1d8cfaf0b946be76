//! The proxy against a node that is only played: the tests write the node's words, no kernel is involved.
//!
//! A test starts this binary again as the proxy, for a proxy never returns and needs a process of its own.

mod beside;
mod cancel;
mod children;
mod descriptors;
mod files;
mod guess;
mod launch;
mod life;
mod linux;
mod memory;
mod nested;
mod node;
mod objects;
mod orphan;
mod process;
mod reach;
mod system;
mod tasks;
mod terminal;
mod text;
mod threads;
mod xpmem;

use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let inherited = proxy::Inherited::now();
    match std::env::args().nth(1).as_deref() {
        Some(launch::AS_PROXY) => launch::become_proxy(inherited),
        Some(launch::AS_YOD) => orphan::become_yod(),
        Some(launch::AS_KEEPER) => reach::processes::become_keeper(),
        Some(launch::AS_SHELL) => terminal::become_shell(),
        _ => {}
    }
    launch::keep_to_ourselves();
    let mut tests = Vec::new();
    for (group, cases) in [
        ("beside", beside::CASES),
        ("cancel", cancel::CASES),
        ("children", children::CASES),
        ("children", children::limits::CASES),
        ("children", children::vfork::CASES),
        ("descriptors", descriptors::CASES),
        ("files", files::CASES),
        ("guess", guess::CASES),
        ("life", life::CASES),
        ("life", life::signals::CASES),
        ("linux", linux::CASES),
        ("memory", memory::CASES),
        ("nested", nested::CASES),
        ("objects", objects::CASES),
        ("orphan", orphan::CASES),
        ("process", process::CASES),
        ("reach", reach::CASES),
        ("reach", reach::processes::CASES),
        ("system", system::CASES),
        ("system", system::trees::CASES),
        ("tasks", tasks::CASES),
        ("terminal", terminal::CASES),
        ("text", text::CASES),
        ("threads", threads::CASES),
        ("xpmem", xpmem::CASES),
    ] {
        for &(name, case) in cases {
            tests.push(Trial::test(format!("{group}::{name}"), move || {
                case();
                Ok::<(), Failed>(())
            }));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), tests).exit();
}

/// A test: its name and what it does.
type Case = (&'static str, fn());
