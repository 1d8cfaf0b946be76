//! The node's clock against the host's: times of files come from the host, times that programs read from the node. Skipped
//! where no kernel is built.

mod common;

use common::{compile, dir, has_node, run, yod};

/// Prints how far the node's clock is ahead of the host's at least and at most, in ns. The host's is seen in the time of a
/// file between two readings of the node's. Some are of the host's last tick: too old, which only "at least" would mind.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
enum { TIMES = 200 };
static long long ns(struct timespec t) { return t.tv_sec * 1000000000LL + t.tv_nsec; }
static long long now(void) { struct timespec t; clock_gettime(CLOCK_REALTIME, &t); return ns(t); }
static int order(const void *a, const void *b) {
    long long x = *(const long long *)a, y = *(const long long *)b;
    return (x > y) - (x < y);
}
int main(int argc, char **argv) {
    long long before[TIMES], after[TIMES];
    int fd = open(argv[argc - 1], O_CREAT | O_RDWR, 0600);
    for (int i = 0; i < TIMES; i++) {
        struct stat st;
        long long start = now();
        if (write(fd, "x", 1) != 1 || fstat(fd, &st) != 0) return 1;
        after[i] = now() - ns(st.st_mtim);
        before[i] = start - ns(st.st_mtim);
    }
    qsort(before, TIMES, sizeof *before, order);
    qsort(after, TIMES, sizeof *after, order);
    printf("%lld %lld\n", before[0], after[0]);
    return 0;
}
"#;

/// The clock was ahead by as much as the keeper was late to see the node up: milliseconds on a busy host.
#[test]
fn the_clock_is_the_hosts() {
    if !has_node() {
        return;
    }
    let dir = dir("clock");
    let program = compile(&dir, "program", PROGRAM);
    let off_by = || {
        let ended = run(yod().arg(&program).arg(dir.join("file")));
        let bounds: Vec<i64> = ended
            .out
            .split_whitespace()
            .map(|ns| ns.parse().expect("ns"))
            .collect();
        let &[least, most] = bounds.as_slice() else {
            panic!("{ended:?}");
        };
        least.max(-most).max(0)
    };
    // A host so busy that the keeper does not run for 20 ms leaves the clock ahead: not again and again.
    let mut errors = Vec::new();
    while errors.iter().all(|&ns| ns >= 200_000) {
        assert!(errors.len() < 50, "{errors:?} ns");
        errors.push(off_by());
    }
}
