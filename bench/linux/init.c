/* The first process of the Linux that Margay is compared with: runs one program
 * and prints what it printed, and what the kernel counted meanwhile, on the
 * console; then ends the machine.
 *
 * /order says what to run, a line each: `direct` (the program writes to the
 * console itself), `rank CPU` or `rank FIRST-LAST` for each process, bound to
 * these CPUs (none: one process, bound to nothing), `arg WORD` for each argument of /program,
 * `before WORD` for those of a run that comes first and is not counted, `env NAME=VALUE`, and `launcher PATH` (a program
 * that is run instead of /program, and starts it: arguments are its own).
 * Lines that are ours begin with "@compare ".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { MOST_CPUS = 64, MOST_WORDS = 32, MOST_RANKS = 8, LINE = 4096 };

static char program[] = "/program";

struct words {
	int count;
	char *word[MOST_WORDS + 1];
};

static struct {
	int direct, launched, ranks;
	/* Of each process: the first and the last CPU. */
	int first[MOST_RANKS], last[MOST_RANKS];
	struct words args, before;
} order = { .args = { 1, { program } }, .before = { 1, { program } } };

/* Sums over the lines of /proc/interrupts, per CPU. */
struct counts {
	int cpus;
	unsigned long long timer[MOST_CPUS], all[MOST_CPUS];
};

static _Noreturn void end(void)
{
	fflush(stdout);
	/* What the console has not sent yet would be lost. */
	tcdrain(STDOUT_FILENO);
	reboot(RB_AUTOBOOT);
	for (;;)
		pause();
}

static void must(int ok, const char *what)
{
	if (ok)
		return;
	printf("\n@compare failed %s: %s\n", what, strerror(errno));
	end();
}

/* Whether the line begins with `word` and a blank; `rest` is what follows. */
static int says(const char *line, const char *word, const char **rest)
{
	size_t length = strlen(word);
	*rest = line + length + 1;
	return strncmp(line, word, length) == 0 && line[length] == ' ';
}

static void add(struct words *words, const char *word)
{
	must(words->count < MOST_WORDS, "fewer arguments");
	must((words->word[words->count++] = strdup(word)) != NULL, "strdup");
}

static void add_rank(const char *cpus)
{
	int *first = &order.first[order.ranks], *last = &order.last[order.ranks++];

	if (sscanf(cpus, "%d-%d", first, last) < 2)
		*last = *first;
}

static void read_order(void)
{
	static char line[LINE];
	const char *rest;
	FILE *file = fopen("/order", "r");

	must(file != NULL, "/order");
	while (fgets(line, sizeof line, file) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if (strcmp(line, "direct") == 0)
			order.direct = 1;
		else if (says(line, "rank", &rest) && order.ranks < MOST_RANKS)
			add_rank(rest);
		else if (says(line, "arg", &rest))
			add(&order.args, rest);
		else if (says(line, "before", &rest))
			add(&order.before, rest);
		else if (says(line, "env", &rest))
			must(putenv(strdup(rest)) == 0, "putenv");
		else if (says(line, "launcher", &rest)) {
			must((order.args.word[0] = strdup(rest)) != NULL, "strdup");
			order.launched = 1;
		}
		else
			must(0, line);
	}
	fclose(file);
}

static struct counts interrupts(void)
{
	static char line[LINE];
	struct counts counts = { 0 };
	FILE *file = fopen("/proc/interrupts", "r");

	must(file != NULL && fgets(line, sizeof line, file) != NULL, "/proc/interrupts");
	for (char *at = line; (at = strstr(at, "CPU")) != NULL; at++)
		counts.cpus += counts.cpus < MOST_CPUS;
	while (fgets(line, sizeof line, file) != NULL) {
		char *at = strchr(line, ':');
		int timer = strstr(line, "LOC:") != NULL;
		for (int cpu = 0; at != NULL && cpu < counts.cpus; cpu++) {
			char *next;
			unsigned long long count = strtoull(at + 1, &next, 10);
			if (next == at + 1)
				break;
			counts.all[cpu] += count;
			counts.timer[cpu] += timer ? count : 0;
			at = next;
		}
	}
	fclose(file);
	return counts;
}

static unsigned long long faults(const struct rusage *usage)
{
	return (unsigned long long)(usage->ru_minflt + usage->ru_majflt);
}

static void print_event(const char *name, int cpus, const unsigned long long *from,
			const unsigned long long *to)
{
	printf("@compare event %s", name);
	for (int cpu = 0; cpu < cpus; cpu++)
		printf(" %llu", to[cpu] - from[cpu]);
	putchar('\n');
}

/* Starts a process of the program. On Margay mmap fails when there is no memory left; here the program would be killed later
 * instead, so it gets no more than there is. */
static pid_t start(int rank, int output, struct words *words)
{
	pid_t child = fork();
	must(child >= 0, "fork");
	if (child != 0)
		return child;
	if (order.ranks > 0) {
		cpu_set_t set;
		CPU_ZERO(&set);
		for (int cpu = order.first[rank]; cpu <= order.last[rank]; cpu++)
			CPU_SET(cpu, &set);
		must(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
	}
	struct sysinfo info;
	must(sysinfo(&info) == 0, "sysinfo");
	rlim_t most = info.freeram * info.mem_unit / 8 * 7;
	must(setrlimit(RLIMIT_AS, &(struct rlimit){ most, most }) == 0, "setrlimit");
	must(dup2(output, STDOUT_FILENO) >= 0, "dup2");
	execv(words->word[0], words->word);
	perror(words->word[0]);
	_exit(127);
}

/* Starts the processes of a run and waits for them; the status of one that failed, or 0. */
static int run(int output, struct words *words)
{
	int ranks = order.ranks > 0 ? order.ranks : 1, status, worst = 0;
	pid_t child[MOST_RANKS];

	for (int rank = 0; rank < ranks; rank++)
		child[rank] = start(rank, output, words);
	for (int rank = 0; rank < ranks; rank++) {
		must(waitpid(child[rank], &status, 0) == child[rank], "waitpid");
		worst = status != 0 ? status : worst;
	}
	return worst;
}

static void copy(int from)
{
	static char data[65536];
	ssize_t got;

	fflush(stdout);
	lseek(from, 0, SEEK_SET);
	while ((got = read(from, data, sizeof data)) > 0)
		for (ssize_t done = 0, put; done < got; done += put)
			if ((put = write(STDOUT_FILENO, data + done, (size_t)(got - done))) <= 0)
				return;
}

static void set_up(void)
{
	must(mount("dev", "/dev", "devtmpfs", 0, NULL) == 0, "mount /dev");
	must(mount("proc", "/proc", "proc", 0, NULL) == 0, "mount /proc");
	must(mount("sys", "/sys", "sysfs", 0, NULL) == 0, "mount /sys");
	must(mount("tmp", "/tmp", "tmpfs", 0, "size=90%") == 0, "mount /tmp");
	must(chdir("/tmp") == 0, "chdir");
	/* Only panics may come between our lines (syslog(2), SYSLOG_ACTION_CONSOLE_LEVEL). */
	klogctl(8, NULL, 1);
	setvbuf(stdout, NULL, _IOFBF, 65536);
}

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	must(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0, path);
}

/* What launchers of parallel programs find on a machine: shared memory, terminals, a name, an address, and users. */
static void set_up_for_launchers(void)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	must(mkdir("/dev/shm", 0777) == 0 && mount("shm", "/dev/shm", "tmpfs", 0, NULL) == 0, "mount /dev/shm");
	must(mkdir("/dev/pts", 0755) == 0 && mount("pts", "/dev/pts", "devpts", 0, NULL) == 0, "mount /dev/pts");
	must(sethostname("node", 4) == 0, "sethostname");
	must(fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &lo) == 0, "lo");
	close(fd);
	mkdir("/etc", 0755);
	write_file("/etc/hosts", "127.0.0.1 localhost node\n");
	write_file("/etc/passwd", "root:x:0:0:root:/tmp:/bin/sh\n");
	write_file("/etc/nsswitch.conf", "passwd: files\nhosts: files\n");
	must(setenv("PATH", "/usr/bin:/bin", 1) == 0 && setenv("HOME", "/tmp", 1) == 0, "setenv");
}

int main(void)
{
	struct rusage usage_before, usage;

	set_up();
	read_order();
	if (order.launched)
		set_up_for_launchers();
	int output = order.direct ? STDOUT_FILENO : open("/tmp", O_TMPFILE | O_RDWR, 0600);
	must(output >= 0, "a file for the program's output");
	if (order.before.count > 1) {
		int nowhere = open("/dev/null", O_WRONLY);
		must(nowhere >= 0 && run(nowhere, &order.before) == 0, "the run before");
	}
	printf("\n@compare begin\n");
	fflush(stdout);
	must(getrusage(RUSAGE_CHILDREN, &usage_before) == 0, "getrusage");
	struct counts before = interrupts();
	int status = run(output, &order.args);
	struct counts after = interrupts();
	must(getrusage(RUSAGE_CHILDREN, &usage) == 0, "getrusage");

	if (!order.direct)
		copy(output);
	unsigned long long faults_before = faults(&usage_before), faults_after = faults(&usage);
	print_event("page_faults", 1, &faults_before, &faults_after);
	print_event("timer_interrupts", after.cpus, before.timer, after.timer);
	print_event("interrupts", after.cpus, before.all, after.all);
	if (WIFSIGNALED(status))
		printf("@compare end signal %d\n", WTERMSIG(status));
	else
		printf("@compare end status %d\n", WEXITSTATUS(status));
	end();
}
