//! Loops of the kernel whose length a program may choose: each takes the preemption point, or says why it does not.
//!
//! "Longest section with interrupts off" was held by one demanding program, and it was false for programs that asked for something
//! else. So in [`ROOMS`] every `for`, `while` and `loop`, and every call that goes over an iterator ([`CONSUMERS`]),
//!
//! - takes the point in its text: calls `point`, ends its turn with `Turns::next`, lets interrupts in (`take_interrupts`), or parks;
//! - goes over an array that is written there;
//! - says `// POINT: module::function`, which is called in every turn: that function is looked up, and has to take the point;
//! - or says `// BOUND: why`: few turns, whatever a program does.
//!
//! A file says `//! BOUND: why` in its head for all of its loops.
//!
//! A call says so above its statement or in it, and one comment does for the statement. What only passes an iterator on (`map`,
//! `filter`) is no loop: the code that goes over it is.
//!
//! What this does not see: whether the point is reached in every turn, and counts as much as is done; recursion; copies and
//! other work of one call that grows with its length (`Vec` when it grows or ends, `fill`, `insert`, `contains`).

use super::{code_only, files, places};

/// The kernel. Once signals and timers were left out, and took 364,882 instructions.
const ROOMS: &[&str] = &["qk/core/src/", "qk/hal/src/", "qk/kernel/src/"];
/// How the point is taken.
const POINTS: &[&str] = &["point", "take_interrupts", "park"];
/// The work of entries of a page table, gathered (qk_core::paging::Turns).
const TURNS: &str = "turns.next(";
/// What goes over an iterator, a slice or a vector; of something else they are methods with other arguments.
const CONSUMERS: &[&str] = &[
    "all",
    "any",
    "extend",
    "find",
    "find_map",
    "fold",
    "for_each",
    "max_by_key",
    "min_by_key",
    "position",
    "retain",
    "rposition",
    "sort_unstable_by_key",
    "try_fold",
    "try_for_each",
];
/// The same without arguments.
const PLAIN_CONSUMERS: &[&str] = &[
    "collect",
    "count",
    "max",
    "min",
    "product",
    "sort_unstable",
    "sum",
];
/// Methods of ours with such a name: their loops are seen where they are. So are those of `self`.
const OWN: &[&str] = &[
    "child.count",
    "entry.count",
    "list.extend",
    "objects.extend",
    "slots.position",
];

/// Code of a file of the kernel, without its tests, and the text that it was.
struct Source {
    path: String,
    text: String,
    code: String,
}

/// A loop: where its text, or the statement of the call, begins and ends.
struct Loop {
    start: usize,
    /// Where its body, or the name of what is called, begins.
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
        let of_names = |names: &'static [&str], plain: bool| {
            let places = names
                .iter()
                .flat_map(|name| places(&self.code, name).map(move |at| (*name, at)));
            places.filter_map(move |(name, at)| self.consumer(name, at, plain))
        };
        let calls = of_names(CONSUMERS, false).chain(of_names(PLAIN_CONSUMERS, true));
        let mut loops: Vec<Loop> = of_keywords.chain(calls).collect();
        loops.sort_by_key(|found| found.start);
        loops
    }

    /// The call of `name` at `at`, if it goes over an iterator.
    fn consumer(&self, name: &str, at: usize, plain: bool) -> Option<Loop> {
        let behind = at + name.len();
        let open = behind + self.code[behind..].find('(')?;
        let end = open + closing(&self.code[open..])?;
        let of_type = &self.code[behind..open];
        let is_call = of_type.is_empty() || of_type.starts_with("::<");
        let is_plain = self.code[open + 1..end].trim().is_empty();
        let of = self.code[..at].trim_end().strip_suffix('.')?.trim_end();
        let called = format!("{of}.{name}");
        let is_own = of.ends_with("self") || OWN.iter().any(|own| called.ends_with(own));
        let start = of.rfind([';', '{', '}']).map_or(0, |before| before + 1);
        let blank = of[start..].find(|c: char| !c.is_whitespace())?;
        (is_call && is_plain == plain && !is_own).then_some(Loop {
            start: start + blank,
            body: at,
            end,
        })
    }

    /// What a comment above or in the head of the loop says behind `mark`; the loop may be a part of what stands there.
    fn comment(&self, found: &Loop, mark: &str) -> Option<&str> {
        let lines: Vec<&str> = self.text.lines().map(str::trim).collect();
        let (above, rest) = lines.split_at(self.line(found.start));
        let inside = &rest[..self.line(found.body) - above.len()];
        let above = above.iter().rev();
        let mut comments = above
            .take_while(|line| line.starts_with("//"))
            .chain(inside);
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
    let of_all = source
        .text
        .lines()
        .take_while(|line| line.starts_with("//!"));
    let mut of_all = of_all.filter_map(|line| line.strip_prefix("//! BOUND:"));
    let bound = source.comment(found, "BOUND:");
    if let Some(why) = bound.or_else(|| of_all.next().map(str::trim)) {
        return why.is_empty().then(|| "BOUND says nothing".to_owned());
    }
    let Some(function) = source.comment(found, "POINT:") else {
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
    // BOUND: the cores.
    let sum: u64 = list.iter().map(twice).sum::<u64>();
    list
        .iter()
        // BOUND: eight.
        .for_each(look);
    self.find(list.len().min(3));
    impl_for::<dyn for<'a> Fn(&'a u8)>();
}
fn look(i: u64) { preempt::point(2) }
";
    let faults = |text: &str| {
        let source = Source::new("qk/kernel/src/syscall/some.rs".to_owned(), text.to_owned());
        judge(&[source])
    };
    assert_eq!(faults(GOOD), (7, vec![]));
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
    assert_eq!(spoilt("// BOUND: the cores.", "").len(), 1);
    assert_eq!(spoilt("// BOUND: eight.", "").len(), 1);
    assert_eq!(spoilt("self.find", "self.list.find").len(), 1);
    let in_head = |head: &str| faults(&format!("{head}\nfn f() {{ loop {{ look(1); }} }}"));
    assert_eq!(
        in_head("//! A file.\n//!\n//! BOUND: at boot."),
        (1, vec![])
    );
    assert_eq!(in_head("//! A file.\n//!\n//! BOUND:").1.len(), 1);
    assert_eq!(in_head("//! A file.").1.len(), 1);
}
