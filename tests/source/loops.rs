//! Loops of the kernel whose length a program may choose: each takes the preemption point, or says why it does not.
//!
//! "Longest section with interrupts off" was held by one demanding program, and it was false for programs that asked for something
//! else. So in [`ROOMS`] every `for`, `while` and `loop`, and every adapter of a range (`(0..n).all(..)`),
//!
//! - takes the point in its text: calls `point`, ends its turn with `Turns::next`, lets interrupts in (`window`), or parks;
//! - goes over an array that is written there;
//! - says `// POINT: module::function`, which is called in every turn: that function is looked up, and has to take the point;
//! - or says `// BOUND: why`: few turns, whatever a program does.
//!
//! What this does not see: whether the point is reached in every turn, and counts as much as is done; adapters of iterators other
//! than ranges; recursion; copies and other work of one instruction or call that grows with its length (`Vec` when it grows).

use super::{code_only, files, places};

/// All of the kernel but the hardware layer. Once signals and timers were left out, and took 364,882 instructions.
const ROOMS: &[&str] = &["qk/core/src/", "qk/kernel/src/"];
/// How the point is taken.
const POINTS: &[&str] = &["point", "window", "park"];
/// The work of entries of a page table, gathered (qk_core::paging::Turns).
const TURNS: &str = "turns.next(";
/// What makes a loop of a range.
const ADAPTERS: &[&str] = &[
    "all",
    "any",
    "find",
    "find_map",
    "for_each",
    "map",
    "filter",
    "filter_map",
    "position",
    "try_for_each",
];

/// Code of a file of the kernel, without its tests, and the text that it was.
struct Source {
    path: String,
    text: String,
    code: String,
}

/// A loop: where its text begins and ends.
struct Loop {
    start: usize,
    /// Where its body begins.
    body: usize,
    end: usize,
}

impl Source {
    fn new(path: String, text: String) -> Source {
        let mut code = code_only(&text);
        let tests = code.find("#[cfg(test)]\nmod tests {");
        code.truncate(tests.unwrap_or(code.len()));
        Source { path, text, code }
    }

    fn line(&self, at: usize) -> usize {
        self.code[..at].matches('\n').count()
    }

    /// Every loop, the outer ones first.
    fn loops(&self) -> Vec<Loop> {
        let keywords = ["for", "while", "loop"]
            .into_iter()
            .flat_map(|keyword| places(&self.code, keyword));
        let of_keywords = keywords.filter_map(|start| {
            let body = start + body_of(&self.code[start..])?;
            let head = &self.code[start..body];
            let is_loop = !head.starts_with("for") || places(head, "in").next().is_some();
            let end = body + closing(&self.code[body..])?;
            is_loop.then_some(Loop { start, body, end })
        });
        let of_ranges = ADAPTERS
            .iter()
            .flat_map(|adapter| places(&self.code, adapter))
            .filter_map(|at| {
                let range = self.code[..at].trim_end().strip_suffix('.')?.trim_end();
                let start = opening(range)?;
                let range = &self.code[start..range.len()];
                let is_range = range.contains("..") && !range.contains('[');
                let end = at + self.code[at..].find('(')?;
                let end = end + closing(&self.code[end..])?;
                is_range.then_some(Loop {
                    start,
                    body: at,
                    end,
                })
            });
        let mut loops: Vec<Loop> = of_keywords.chain(of_ranges).collect();
        loops.sort_by_key(|found| found.start);
        loops
    }

    /// What a comment above the loop says behind `mark`; the loop may be a part of what stands there.
    fn says(&self, found: &Loop, mark: &str) -> Option<&str> {
        let lines: Vec<&str> = self.text.lines().collect();
        let above = lines[..self.line(found.start)].iter().rev();
        let mut comments = above
            .map(|line| line.trim())
            .take_while(|line| line.starts_with("//"));
        comments
            .find_map(|line| line.strip_prefix("// ")?.strip_prefix(mark))
            .map(str::trim)
    }

    /// Whether a function of that name takes the point.
    fn takes_in(&self, function: &str) -> bool {
        let mut starts = places(&self.code, "fn").filter(|at| {
            let name = self.code[at + 2..].trim_start();
            name.strip_prefix(function)
                .is_some_and(|rest| rest.starts_with(['(', '<']))
        });
        starts.any(|start| {
            let body = body_of(&self.code[start..]).map(|at| start + at);
            let text = body.and_then(|at| Some(&self.code[at..at + closing(&self.code[at..])?]));
            text.is_some_and(takes_point)
        })
    }
}

/// Where the block begins that belongs to what stands at the front.
fn body_of(code: &str) -> Option<usize> {
    let mut depth = 0;
    let ends = code.char_indices().find(|(_, c)| {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ => {}
        }
        depth < 0 || depth == 0 && matches!(c, '{' | ';')
    });
    ends.and_then(|(at, c)| (c == '{').then_some(at))
}

/// Where what opens at the front is closed.
fn closing(code: &str) -> Option<usize> {
    let mut depth = 0;
    let end = code.char_indices().find(|(_, c)| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    end.map(|(at, _)| at)
}

/// Where the parenthesis opens that is closed at the end.
fn opening(code: &str) -> Option<usize> {
    let mut depth = 0;
    let start = code.char_indices().rev().find(|(_, c)| {
        match c {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    start.and_then(|(at, c)| (c == '(').then_some(at))
}

fn takes_point(code: &str) -> bool {
    POINTS
        .iter()
        .any(|point| places(code, point).next().is_some())
        || code.contains(TURNS)
}

/// What is wrong with a loop; `None`: nothing.
fn wrong(all: &[Source], source: &Source, found: &Loop) -> Option<String> {
    let head = &source.code[found.start..found.body];
    let is_array = head.starts_with("for ") && head.contains(" in [");
    if is_array || takes_point(&source.code[found.start..found.end]) {
        return None;
    }
    if let Some(why) = source.says(found, "BOUND:") {
        return why.is_empty().then(|| "BOUND says nothing".to_owned());
    }
    let Some(function) = source.says(found, "POINT:") else {
        return Some("no preemption point".to_owned());
    };
    let (module, name) = function.rsplit_once("::").unwrap_or(("", function));
    let folder = module.replace("::", "/");
    let ends = [format!("{folder}.rs"), format!("{folder}/mod.rs")];
    let mut there = all.iter().filter(|other| match module {
        "" => other.path == source.path,
        _ => ends.iter().any(|end| other.path.ends_with(end)),
    });
    let takes = there.any(|other| other.takes_in(name));
    (!takes).then(|| format!("{function} takes no preemption point"))
}

/// Of the loops in files of [`ROOMS`]: how many there are, and what is wrong.
fn judge(all: &[Source]) -> (usize, Vec<String>) {
    let (mut count, mut faults) = (0, Vec::new());
    for source in all {
        if !ROOMS.iter().any(|room| source.path.starts_with(room)) {
            continue;
        }
        for found in source.loops() {
            count += 1;
            if let Some(fault) = wrong(all, source, &found) {
                let line = source.line(found.start) + 1;
                faults.push(format!("{}:{line}: {fault}", source.path));
            }
        }
    }
    (count, faults)
}

/// Of the kernel's loops: how many there are in [`ROOMS`], and what is wrong with which.
pub fn of_the_kernel() -> (usize, Vec<String>) {
    let kernel =
        files("rs").filter(|(path, _)| path.starts_with("qk/") && !path.contains("/tests"));
    let all: Vec<Source> = kernel.map(|(path, text)| Source::new(path, text)).collect();
    judge(&all)
}

/// A loop without the point, one that loses it, and one whose function loses it are found.
#[test]
fn a_loop_without_the_point_is_found() {
    const GOOD: &str = "
fn all(n: u64) {
    for i in 0..n { preempt::point(1); }
    for i in [1, 2] { look(i); }
    // BOUND: the arguments of a call.
    while more() { look(1); }
    // POINT: look
    loop { if look(2) { break; } }
    let found = (0..n).any(|i| { preempt::point(1); i == 3 });
    impl_for::<dyn for<'a> Fn(&'a u8)>();
}
fn look(i: u64) { preempt::point(2) }
";
    let faults = |text: &str| {
        let source = Source::new("qk/kernel/src/syscall/some.rs".to_owned(), text.to_owned());
        judge(&[source])
    };
    assert_eq!(faults(GOOD), (5, vec![]));
    let spoilt = |from: &str, to: &str| {
        assert!(GOOD.contains(from), "{from}");
        faults(&GOOD.replacen(from, to, 1)).1
    };
    assert_eq!(spoilt("{ preempt::point(1); }", "{ }").len(), 1);
    assert_eq!(spoilt("{ preempt::point(1); i == 3 }", "i == 3").len(), 1);
    assert_eq!(spoilt("preempt::point(2)", "work(2)").len(), 1);
    assert_eq!(spoilt("[1, 2]", "list").len(), 1);
    assert_eq!(spoilt("// BOUND: the arguments of a call.", "").len(), 1);
    assert_eq!(spoilt("the arguments of a call.", "").len(), 1);
}
