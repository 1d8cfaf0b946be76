/* The first process of the Linux beside which a co-kernel runs: loads what /modules names, runs what /order has, and ends the machine.
 *
 * Where there is /mounts, lines of a kind of file system and a directory, these are mounted, and commands have /host, one of them, as their root.
 * A line of /order is a user id, the seconds that it may take, and a program with its arguments. Each is run in turn, in a folder of its own, its output
 * on the console between "@cokernel begin N" and "@cokernel end N HOW"; in the end follow the log of the kernel behind "@cokernel log" and, behind
 * "@cokernel over", what the kernel prints from then on.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { MOST_WORDS = 64, LINE = 4096, LOG_BYTES = 4 << 20 };

static int hosted;

static _Noreturn void end(void)
{
	fflush(stdout);
	/* What the console has not sent yet would be lost. */
	tcdrain(STDOUT_FILENO);
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

static void must(int ok, const char *what)
{
	if (ok)
		return;
	printf("\n@cokernel failed %s: %s\n", what, strerror(errno));
	end();
}

/* The words of the next line of a file; 0 behind the last. */
static int next(FILE *file, char *first, char *second)
{
	char line[LINE];

	return file && fgets(line, sizeof(line), file) && sscanf(line, "%255s %255s", first, second) > 0;
}

static void load_modules(void)
{
	char path[256], none[256];
	FILE *modules = fopen("/modules", "re");

	while (next(modules, path, none)) {
		int module = open(path, O_RDONLY | O_CLOEXEC);
		must(syscall(SYS_finit_module, module, "", 0) == 0, path);
		close(module);
	}
}

/* The host's files are not the guest's to change. */
static void mount_all(void)
{
	char kind[256], at[256];
	FILE *mounts = fopen("/mounts", "re");

	while (next(mounts, kind, at)) {
		mkdir(at, 0755);
		must(mount(kind, at, kind, strcmp(kind, "virtiofs") ? 0 : MS_RDONLY, NULL) == 0, at);
		hosted = 1;
	}
}

/* Launchers of MPI look for a network and the name of their host. */
static void start_network(void)
{
	struct ifreq loopback = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	must(sethostname("guest", 5) == 0, "a name");
	must(any >= 0 && ioctl(any, SIOCSIFFLAGS, &loopback) == 0, "lo");
	close(any);
}

static void run(int number, char *line)
{
	char *words[MOST_WORDS + 1];
	char folder[32];
	int count = 0, status;

	for (char *word = strtok(line, " \n"); word && count < MOST_WORDS; word = strtok(NULL, " \n"))
		words[count++] = word;
	words[count] = NULL;
	if (count < 3)
		return;
	snprintf(folder, sizeof(folder), "/tmp/%d", number);
	printf("\n@cokernel begin %d\n", number);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		alarm(atoi(words[1])); /* survives execve */
		must(!hosted || chroot("/host") == 0, "chroot");
		must(mkdir(folder, 0755) == 0 && chown(folder, atoi(words[0]), -1) == 0, "a folder");
		must(setgroups(0, NULL) == 0 && setgid(atoi(words[0])) == 0 && setuid(atoi(words[0])) == 0, "setuid");
		must(chdir(folder) == 0, "chdir");
		execv(words[2], words + 2);
		_exit(127);
	}
	must(child > 0, "a process");
	/* Orphans are this process's, too: what is left of them goes when they are waited for. */
	for (pid_t ended = 0; ended != child;) {
		ended = wait(&status);
		must(ended > 0, "wait");
	}
	if (WIFSIGNALED(status))
		printf("\n@cokernel end %d signal %d\n", number, WTERMSIG(status));
	else
		printf("\n@cokernel end %d status %d\n", number, WEXITSTATUS(status));
	fflush(stdout);
}

static void print_log(void)
{
	char *log = malloc(LOG_BYTES);
	int bytes = klogctl(3 /* SYSLOG_ACTION_READ_ALL */, log, LOG_BYTES);

	printf("\n@cokernel log\n");
	if (bytes > 0)
		fwrite(log, 1, bytes, stdout);
	printf("\n@cokernel over\n");
}

int main(void)
{
	char line[LINE];

	must(mount("dev", "/dev", "devtmpfs", 0, NULL) == 0, "mount /dev");
	must(mount("proc", "/proc", "proc", 0, NULL) == 0, "mount /proc");
	must(mount("sys", "/sys", "sysfs", 0, NULL) == 0, "mount /sys");
	must(mount("security", "/sys/kernel/security", "securityfs", 0, NULL) == 0, "mount /sys/kernel/security");
	must(mount("tmp", "/tmp", "tmpfs", 0, NULL) == 0, "mount /tmp");
	/* Only panics may come between our lines (syslog(2), SYSLOG_ACTION_CONSOLE_LEVEL). */
	klogctl(8, NULL, 1);
	load_modules();
	mount_all();
	start_network();
	FILE *order = fopen("/order", "re");
	must(order != NULL, "/order");
	for (int number = 0; fgets(line, sizeof(line), order); number++)
		run(number, line);
	print_log();
	/* What ends with Linux is seen. */
	klogctl(8, NULL, 8);
	end();
}
