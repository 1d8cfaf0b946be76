//! The form of gdb's packets (gdb's manual, "Packets", "General Query Packets", "vCont packet"), of those that the stub takes: crate
//! gdbstub ends the session at one that is otherwise, so none of them goes on to it.

use super::arch::ALL_BYTES;

/// Longest packet, in bytes: as the stub says to gdb.
pub const MOST_BYTES: usize = 4096;

/// Whether what follows a command's name has the command's form.
type Form = fn(&[u8]) -> bool;

/// What the stub takes, by what it begins with. Steps by `s` are not: what they are of, an earlier packet says; gdb uses vCont.
const FORMS: &[(&str, Form)] = &[
    ("?", <[u8]>::is_empty),
    ("D", |rest| rest.is_empty() || is_process(b';', rest)),
    ("g", <[u8]>::is_empty),
    ("G", |rest| is_bytes(rest) && rest.len() >= 2 * ALL_BYTES),
    ("H", is_choice),
    ("k", <[u8]>::is_empty),
    ("m", |rest| {
        cut(rest, b",").is_some_and(|(at, len)| is_number(at) && is_length(len))
    }),
    ("M", |rest| contents(rest).is_some_and(is_bytes)),
    ("qAttached", |rest| {
        rest.is_empty() || is_process(b':', rest)
    }),
    ("qfThreadInfo", <[u8]>::is_empty),
    ("qsThreadInfo", <[u8]>::is_empty),
    ("qSupported", is_features),
    ("T", |rest| matches!(thread(rest), Some(Thread::One))),
    ("vKill", |rest| is_process(b';', rest)),
    ("qXfer:features:read", |rest| {
        is_part(rest, |annex| annex == b"target.xml")
    }),
    ("c", |rest| rest.is_empty() || is_number(rest)),
    ("s", |_| false),
    ("vCont", is_actions),
    ("X", |rest| contents(rest).is_some_and(is_escaped)),
    ("QStartNoAckMode", <[u8]>::is_empty),
    ("qXfer:exec-file:read", |rest| {
        is_part(rest, |annex| annex.is_empty() || is_id(annex))
    }),
    ("qXfer:auxv:read", |rest| is_part(rest, <[u8]>::is_empty)),
    ("z", is_breakpoint),
    ("Z", is_breakpoint),
];

/// Whether a packet with this body can go on to the stub. A command that it does not know has any form: it gets an empty packet.
pub fn is_right(body: &[u8]) -> bool {
    let known = FORMS
        .iter()
        .find_map(|(name, form)| Some((form, body.strip_prefix(name.as_bytes())?)));
    known.is_none_or(|(form, rest)| form(rest))
}

/// Whether a packet has a thread make a step.
pub fn steps(body: &[u8]) -> bool {
    let actions = body.strip_prefix(b"vCont");
    actions.is_some_and(|actions| actions.split(|byte| *byte == b';').any(is_step))
}

/// What comes before the first `by`, and after it.
fn cut<'a>(text: &'a [u8], by: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = text.iter().position(|byte| by.contains(byte))?;
    Some((&text[..at], &text[at + 1..]))
}

fn number(digits: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(digits).ok()?;
    let is_plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| is_plain)
}

fn is_number(digits: &[u8]) -> bool {
    number(digits).is_some()
}

/// Of what is read: its answer must fit into a packet.
fn is_length(digits: &[u8]) -> bool {
    number(digits).is_some_and(|len| len <= MOST_BYTES as u64)
}

/// Bytes as two digits each.
fn is_bytes(digits: &[u8]) -> bool {
    digits.len().is_multiple_of(2) && digits.iter().all(u8::is_ascii_hexdigit)
}

/// Bytes as they are, but those that mean something, which follow `}`.
fn is_escaped(bytes: &[u8]) -> bool {
    let mut bytes = bytes.iter();
    while let Some(byte) = bytes.next() {
        if *byte == b'}' && bytes.next().is_none() {
            return false;
        }
    }
    true
}

/// A process or thread.
fn is_id(digits: &[u8]) -> bool {
    number(digits).is_some_and(|id| id != 0)
}

fn is_process(before: u8, rest: &[u8]) -> bool {
    rest.split_first()
        .is_some_and(|(first, id)| *first == before && is_id(id))
}

/// Which threads are named.
#[derive(Clone, Copy)]
enum Thread {
    One,
    Any,
    All,
}

/// A thread, or `pPROCESS` and perhaps a thread of it.
fn thread(text: &[u8]) -> Option<Thread> {
    let Some(of_process) = text.strip_prefix(b"p") else {
        return id(text);
    };
    let (process, of_it) = cut(of_process, b".").unwrap_or((of_process, b"-1"));
    id(process)?;
    id(of_it)
}

fn id(text: &[u8]) -> Option<Thread> {
    match text {
        b"-1" => Some(Thread::All),
        b"0" => Some(Thread::Any),
        digits => is_id(digits).then_some(Thread::One),
    }
}

/// The thread that other commands are for: of memory and registers one.
fn is_choice(rest: &[u8]) -> bool {
    match rest.split_first() {
        Some((b'g', of)) => matches!(thread(of), Some(Thread::One | Thread::Any)),
        Some((b'c', of)) => thread(of).is_some(),
        _ => false,
    }
}

/// `ADDRESS,LENGTH:CONTENTS`; the contents.
fn contents(rest: &[u8]) -> Option<&[u8]> {
    let (at, rest) = cut(rest, b",")?;
    let (len, contents) = cut(rest, b":")?;
    // The contents say how long they are.
    (is_number(at) && is_number(len)).then_some(contents)
}

fn is_features(rest: &[u8]) -> bool {
    let features = rest.strip_prefix(b":");
    features.is_some_and(|all| all.split(|byte| *byte == b';').all(|one| !one.is_empty()))
}

/// `:ANNEX:OFFSET,LENGTH`
fn is_part(rest: &[u8], is_annex: impl Fn(&[u8]) -> bool) -> bool {
    let parts = rest.strip_prefix(b":").and_then(|rest| cut(rest, b":"));
    parts.is_some_and(|(annex, part)| {
        let part = cut(part, b",");
        is_annex(annex) && part.is_some_and(|(offset, len)| is_number(offset) && is_number(len))
    })
}

/// `?`, or actions, each for all threads or for one.
fn is_actions(rest: &[u8]) -> bool {
    let actions = rest.strip_prefix(b";");
    rest == b"?" || actions.is_some_and(|all| all.split(|byte| *byte == b';').all(is_action))
}

fn is_action(action: &[u8]) -> bool {
    let (what, of) = match cut(action, b":") {
        // Of any process there is none that goes on.
        Some((_, of)) if of.starts_with(b"p0") => return false,
        Some((what, of)) => (what, thread(of)),
        None => (action, Some(Thread::All)),
    };
    match (what, of) {
        (_, None) => false,
        (b"c", _) => true,
        (b"s", of) => matches!(of, Some(Thread::One)),
        ([b'C', signal @ ..], _) => is_signal(signal),
        ([b'S', signal @ ..], of) => matches!(of, Some(Thread::One)) && is_signal(signal),
        _ => false,
    }
}

fn is_signal(digits: &[u8]) -> bool {
    number(digits).is_some_and(|signal| signal <= u64::from(u8::MAX))
}

fn is_step(action: &[u8]) -> bool {
    action.starts_with(b"s") || action.starts_with(b"S")
}

/// `TYPE,ADDRESS,KIND`, and conditions, which are not looked at.
fn is_breakpoint(rest: &[u8]) -> bool {
    let Some((kind, rest)) = cut(rest, b",") else {
        return false;
    };
    let (base, _) = cut(rest, b";").unwrap_or((rest, &[]));
    let base = cut(base, b",");
    is_signal(kind) && base.is_some_and(|(at, len)| is_number(at) && is_number(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What gdb sends in a session.
    #[test]
    fn what_gdb_sends_goes_on() {
        let registers = "00".repeat(ALL_BYTES);
        for right in [
            "?",
            "g",
            "k",
            "D",
            "D;1",
            "Hg0",
            "Hgp1.2a",
            "Hc-1",
            "Hcp1.-1",
            "m400000,40",
            "mffffffffffffffff,1",
            "M400000,2:9090",
            "X400000,0:",
            "X400000,2:}\u{3}a,:",
            "qAttached",
            "qAttached:1",
            "qfThreadInfo",
            "qsThreadInfo",
            "qSupported:multiprocess+;xmlRegisters=i386",
            "T1",
            "Tp1.1",
            "vKill;1",
            "qXfer:features:read:target.xml:0,ffb",
            "qXfer:auxv:read::0,1000",
            "qXfer:exec-file:read:1:0,ffb",
            "qXfer:exec-file:read::0,ffb",
            "c",
            "c400000",
            "vCont?",
            "vCont;c",
            "vCont;s:p1.1;c:p1.-1",
            "vCont;C0b:1;c",
            "vCont;S05:1",
            "QStartNoAckMode",
            "Z0,400000,1",
            "z2,400000,8",
            "Z0,400000,1;X3,220027",
            "qTStatus",
            "vMustReplyEmpty",
            "!",
            "i",
            "QPassSignals:e;10",
            &format!("G{registers}"),
        ] {
            assert!(is_right(right.as_bytes()), "{right}");
        }
    }

    /// At each of these the session ended.
    #[test]
    fn what_is_malformed_does_not() {
        let registers = "00".repeat(ALL_BYTES - 1);
        for wrong in [
            "?1",
            "gx",
            "kill",
            "Dx",
            "D;",
            "D;0",
            "H",
            "Hg",
            "Hg-1",
            "Hgp1",
            "Hx1",
            "Hgzz",
            "m",
            "m400000",
            "m400000,",
            "m,1",
            "m-1,1",
            "m400000,zz",
            "m10000000000000000,1",
            "m0,10000000000000000",
            "m0,fffff",
            "M400000,1",
            "M400000,1:9",
            "M400000,1:zz",
            "M1:2,3",
            "X400000",
            "X400000,1:}",
            "qAttached:",
            "qAttached:x",
            "qfThreadInfox",
            "qSupported",
            "qSupported:",
            "qSupported:a;;b",
            "T",
            "T0",
            "T-1",
            "Tp1",
            "vKill",
            "vKill;",
            "vKill;0",
            "qXfer:features:read",
            "qXfer:features:read:other.xml:0,1",
            "qXfer:features:read:target.xml:0",
            "qXfer:auxv:read:x:0,1",
            "qXfer:auxv:read::,",
            "qXfer:exec-file:read:0:0,1",
            "cx",
            "s",
            "s400000",
            "vCont",
            "vCont;",
            "vCont;x",
            "vCont;s",
            "vCont;s:-1",
            "vCont;c:",
            "vCont;t:1",
            "vCont;r1,2:1",
            "vCont;C:1",
            "vCont;C100:1",
            "vCont;c:p0.1",
            "QStartNoAckMode1",
            "Z",
            "Z0",
            "Z0,",
            "Z0,1",
            "Z0,x,1",
            "Z100,1,1",
            "Z0,1,10000000000000000",
            &format!("G{registers}"),
        ] {
            assert!(!is_right(wrong.as_bytes()), "{wrong}");
        }
    }

    #[test]
    fn a_step_is_one_wherever_it_stands() {
        assert!(steps(b"vCont;c:1;s:2") && steps(b"vCont;S05:1"));
        assert!(!steps(b"vCont;c") && !steps(b"vCont?") && !steps(b"s"));
    }
}
